"""``graph.constant`` with its type written once: ``graph.constant dense<1.0> : tensor<4xf32>``.

A recipe's name takes the type after it, and so does a literal whose result has another type (a layout):
``graph.constant @w7 : tensor<4xf32>``.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr
from xdsl.ir import Attribute

from ...text.builder import Builder
from ...text.fragment import Fragment, OpSyntax
from ...text.printer import Printer
from .structure import ConstantOp


def build_constant(
    b: Builder, attributes: dict[str, Attribute], value: Attribute, type: Attribute | None = None
) -> ConstantOp:
    """Without a type the literal's is the result's."""
    op = ConstantOp(value, type)
    op.attributes.update(attributes)
    return op


def print_constant(p: Printer, op: ConstantOp) -> None:
    """``{attributes} value``, and the type if the value does not say it."""
    p.print_op_attributes(op.attributes)
    p.print_string(" ")
    p.print_attribute(op.value)
    literal = op.value
    if not (isinstance(literal, DenseIntOrFPElementsAttr | DenseResourceAttr) and literal.type == op.result.type):
        p.print_string(" : ")
        p.print_attribute(op.result.type)


FRAGMENT = Fragment(
    ops=(
        OpSyntax(ConstantOp, "attr_dict_opt graph_constant_value graph_constant_type", build_constant, print_constant),
    ),
    rules="""
        graph_constant_value: symbol_ref
            | DENSE "<" ">" ":" type                                    -> dense_empty
            | DENSE "<" dense_elem ">" ":" type                         -> dense_attr
            | DENSE "<" STRING ">" ":" type                             -> dense_hex
            | "dense_resource" "<" name_or_string ">" ":" type          -> dense_resource
        graph_constant_type:                                            -> nothing
            | ":" type
    """,
)
"""Pretty forms of the graph dialect that ``assembly_format`` cannot say."""
