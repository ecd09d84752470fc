"""A plugin outside of the package: a dialect with an op, its pretty syntax, and a pass on it.

    tilewright-opt file.ir --load-plugin example_plugin.py -p "example-fold-scale"

Nothing of the package changes: ``register`` is called with the registry. An op with an ``assembly_format`` has pretty
syntax for free; ``SYNTAX`` names a grammar fragment for ops that need their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tilewright.core.context import TilewrightContext
from tilewright.core.passes import ModulePass
from tilewright.core.registry import Registry
from tilewright.core.rewriting import apply_patterns
from tilewright.text.fragment import Fragment, OpSyntax


@irdl_op_definition
class ScaleOp(IRDLOperation):
    """Multiplies by a constant: ``%y = example.scale %x by 2.0 : f32``. The factor has the type of the operand."""

    name = "example.scale"
    input = operand_def()
    factor = prop_def(FloatAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, input: SSAValue, factor: FloatAttr[Any]) -> None:
        super().__init__(operands=[input], properties={"factor": factor}, result_types=[input.type])

    def verify_(self) -> None:
        if self.factor.type != self.input.type:
            raise VerifyException(f"factor has type {self.factor.type}, expected {self.input.type}")


@irdl_op_definition
class NegateOp(IRDLOperation):
    """Changes the sign: ``%y = example.negate %x : f32``. Its syntax comes from ``assembly_format``."""

    name = "example.negate"
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$input `:` type($input) `,` type($result) attr-dict"


def build_scale(b: Any, operand: Any, number: Any, attributes: dict[str, Attribute], type: Attribute) -> Operation:
    op = ScaleOp(b.resolve(operand, type), b.number_attr(number, type))
    op.attributes.update(attributes)
    return op


def print_scale(p: Any, op: ScaleOp) -> None:
    p.print_string(" ")
    p.print_ssa_value(op.input)
    p.print_string(f" by {op.factor.value.data}")
    p.print_op_attributes(op.attributes)
    p.print_string(" : ")
    p.print_attribute(op.input.type)


SYNTAX = Fragment(
    ops=(OpSyntax(ScaleOp, 'operand "by" number attr_dict_opt ":" type', build_scale, print_scale),),
)


class FoldScaleOfScale(RewritePattern):
    """scale(scale(x, a), b) = scale(x, a * b)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ScaleOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if isinstance(inner, ScaleOp):
            factor = FloatAttr(inner.factor.value.data * op.factor.value.data, op.factor.type)
            rewriter.replace(op, ScaleOp(inner.input, factor))


@dataclass(frozen=True)
class FoldScalePass(ModulePass):
    """``scale(scale(x, a), b)`` --> ``scale(x, a * b)``"""

    name = "example-fold-scale"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        apply_patterns(op, [FoldScaleOfScale()])


EXAMPLE = Dialect("example", [ScaleOp, NegateOp], [])


def register(registry: Registry) -> None:
    registry.add_dialect("example", EXAMPLE)
    registry.add_pass(FoldScalePass)
    registry.add_pipeline("example-pipeline", ("example-fold-scale",))
