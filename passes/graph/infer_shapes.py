"""Shape inference again: symbolic dimensions that became known are replaced by what they are, everywhere.

Types of verified IR agree with inference already; what is gained here comes from new knowledge: sizes that the user
fixes, and casts (``graph.match_shape``) of tensors whose shape is known by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, FunctionType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import (
    EncodingAttr,
    ExprListAttr,
    IndexMapAttr,
    SymExprAttr,
    layout_of,
    shape_exprs,
    tensor_type,
)
from ...core.context import TilewrightContext
from ...core.diagnostics import emit_error
from ...core.passes import FunctionPass
from ...core.symbolic import SymExpr, as_expr
from ...dialects.graph.base import GraphOp, tensor_of
from ...dialects.graph.structure import ConstantOp, MatchShapeOp, RelayoutOp

Values = Mapping[str, SymExpr]


@dataclass(frozen=True)
class GraphInferShapesPass(FunctionPass):
    """Replaces symbols by their values and infers result types anew.

    Before, with ``bind="n=4"``::

        func.func @main(%x: tensor<?x8xf32, #tw.enc<dims = [n]>>) ... {
          %0 = graph.match_shape %x : ... -> tensor<?x8xf32, #tw.enc<dims = [m * 2]>>

    After::

        func.func @main(%x: tensor<4x8xf32>) ... {

    A match_shape binds a symbol that occurs nowhere before it to the dimension it is claimed for, if that dimension
    is known; one that claims what is known is dropped. Option ``bind``: pairs ``symbol=size``, separated by commas,
    that fix sizes.
    """

    name = "graph-infer-shapes"
    bind: tuple[str, ...] = ()

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        bound = _parse_bindings(func, self.bind)
        substitute_symbols(func, bound)
        if not _resolve_claims(func) and not bound:
            return
        for op in func.walk():
            if isinstance(op, GraphOp) and not isinstance(op, ConstantOp | RelayoutOp | MatchShapeOp):
                _infer(op)
        _update_signature(func)


def _parse_bindings(func: Operation, pairs: Iterable[str]) -> Values:
    bound = {}
    for pair in pairs:
        symbol, _, size = pair.partition("=")
        if not size.isdigit():
            emit_error(func, f"option 'bind' of 'graph-infer-shapes' takes 'symbol=size', found '{pair}'")
        bound[symbol.strip()] = as_expr(int(size))
    return bound


def substitute_symbols(op: Operation, values: Values) -> None:
    """Replaces symbols in all types and attributes of an operation and what is inside it."""
    if not values:
        return
    for nested in op.walk():
        for table in (nested.properties, nested.attributes):
            for key, attribute in table.items():
                table[key] = substitute(attribute, values)
        for value in (*nested.results, *(arg for r in nested.regions for b in r.blocks for arg in b.args)):
            new = substitute(value.type, values)
            if new != value.type:
                Rewriter.replace_value_with_new_type(value, new)


def substitute(attribute: Attribute, values: Values) -> Attribute:
    """The attribute with symbols replaced."""
    match attribute:
        case TensorType():
            if not isinstance(attribute.encoding, EncodingAttr):
                return attribute
            layout = attribute.encoding.layout
            shape = [extent.subs(values) for extent in shape_exprs(attribute)]
            return tensor_type(attribute.element_type, shape, layout)
        case ExprListAttr():
            return ExprListAttr([expr.subs(values) for expr in attribute.exprs])
        case SymExprAttr():
            return SymExprAttr(attribute.expr.subs(values))
        case IndexMapAttr():
            return IndexMapAttr(attribute.num_inputs, [expr.subs(values) for expr in attribute.results])
        case FunctionType():
            inputs = [substitute(type, values) for type in attribute.inputs]
            return FunctionType.from_lists(inputs, [substitute(type, values) for type in attribute.outputs])
        case ArrayAttr():
            return ArrayAttr([substitute(item, values) for item in attribute])
    return attribute


def _resolve_claims(func: Operation) -> bool:
    """x claimed to have dimension m where it has e: m = e, if m is not known before. Whether there was such a claim."""
    resolved = False
    known = _symbols_of(arg.type for r in func.regions for b in r.blocks for arg in b.args)
    for op in list(func.walk()):
        if isinstance(op, MatchShapeOp):
            found, claimed = shape_exprs(op.input.type), shape_exprs(op.result.type)
            values: dict[str, SymExpr] = {}
            for actual, claim in zip(found, claimed):
                new = claim.kind == "sym" and claim.name not in known | values.keys()
                if new and claim.name not in actual.symbols():
                    values[claim.name] = actual
            substitute_symbols(func, values)
            resolved |= bool(values)
            if op.input.type == op.result.type:
                Rewriter.replace_op(op, [], [op.input])
                continue
        known |= _symbols_of(result.type for result in op.results)
    return resolved


def _symbols_of(types: Iterable[Attribute]) -> set[str]:
    shapes = [shape_exprs(type) for type in types if isinstance(type, TensorType)]
    return {name for shape in shapes for extent in shape for name in extent.symbols()}


def _infer(op: GraphOp) -> None:
    """Gives results the inferred types, in the layouts they have."""
    try:
        inferred = op.infer_types([tensor_of(value) for value in op.operands], op.properties)
    except VerifyException as problem:
        emit_error(op, f"with the sizes known now, {problem}")
    for result, type in zip(op.results, inferred):
        new = tensor_type(type.element_type, shape_exprs(type), layout_of(result.type))
        if new != result.type:
            Rewriter.replace_value_with_new_type(result, new)


def _update_signature(func: Operation) -> None:
    """A function's type says what its body takes and returns."""
    if isinstance(func, FuncOp) and func.body.blocks:
        terminator = func.body.blocks[-1].last_op
        outputs = [value.type for value in terminator.operands] if terminator is not None else []
        func.function_type = FunctionType.from_lists([arg.type for arg in func.body.blocks[0].args], outputs)
