"""ONNX operators of several operands with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import SSAValue

from ...dialects.graph import broadcasting as b
from ...dialects.graph.base import GraphOp
from ...dialects.graph.elementwise import NotOp
from .errors import UnsupportedError
from .node import Node, Rule, shape_of, type_of

Maker = Callable[[SSAValue, SSAValue], GraphOp]


def operands(node: Node) -> tuple[SSAValue, SSAValue]:
    """Both operands; before opset 7 the right one is aligned at ``axis`` of the left one instead of at the end."""
    lhs, rhs = node[0], node[1]
    if node.opset >= 7 or not node.attr("broadcast", 0):
        lhs, rhs = node.agree([lhs, rhs])
        return lhs, rhs
    left, right = len(shape_of(lhs)), len(shape_of(rhs))
    axis = node.attr("axis", left - right)
    axis = axis % left if left else 0
    return lhs, node.reshape(rhs, (*shape_of(rhs), *[1] * (left - axis - right)))


def _binary(op: Maker) -> Rule:
    return lambda node: node.emit(op(*operands(node)))


def _compare(predicate: str) -> Rule:
    return lambda node: node.emit(b.CompareOp(*operands(node), predicate))


def _equal(node: Node) -> SSAValue:
    lhs, rhs = operands(node)
    if type_of(lhs).element_type == i1 == type_of(rhs).element_type:
        return node.emit(NotOp(node.emit(b.XorOp(lhs, rhs))))
    return node.emit(b.CompareOp(lhs, rhs, "eq"))


def _variadic(op: Maker) -> Rule:
    return lambda node: reduce(lambda x, y: node.emit(op(x, y)), node.agree(node.values()))


def _mean(node: Node) -> SSAValue:
    total = reduce(lambda x, y: node.emit(b.AddOp(x, y)), node.agree(node.values()))
    count = len(node.proto.input)
    return total if count == 1 else node.emit(b.DivOp(total, node.constant(count, total)))


def _pow(node: Node) -> SSAValue:
    """The result has the base's type; a mixed pair is computed in the float type of the two."""
    lhs, rhs = operands(node)
    base, exponent = type_of(lhs).element_type, type_of(rhs).element_type
    if base == exponent:
        return node.emit(b.PowOp(lhs, rhs))
    wide = exponent if isinstance(exponent, AnyFloat) and not isinstance(base, AnyFloat) else base
    return node.cast(node.emit(b.PowOp(node.cast(lhs, wide), node.cast(rhs, wide))), base)


def _mod(node: Node) -> SSAValue:
    return node.emit(b.ModOp(*operands(node), truncated=bool(node.attr("fmod", 0))))


def _bit_shift(node: Node) -> SSAValue:
    direction = node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise UnsupportedError(f"direction {direction}")
    return node.emit((b.ShiftLeftOp if direction == "LEFT" else b.ShiftRightOp)(node[0], node[1]))


def _where(node: Node) -> SSAValue:
    return node.emit(b.WhereOp(*node.agree(node.values())))


BINARY_RULES: dict[str, Rule] = {
    "Add": _binary(b.AddOp),
    "Sub": _binary(b.SubOp),
    "Mul": _binary(b.MulOp),
    "Div": _binary(b.DivOp),
    "Pow": _pow,
    "Mod": _mod,
    "And": _binary(b.AndOp),
    "Or": _binary(b.OrOp),
    "Xor": _binary(b.XorOp),
    "BitwiseAnd": _binary(b.AndOp),
    "BitwiseOr": _binary(b.OrOp),
    "BitwiseXor": _binary(b.XorOp),
    "BitShift": _bit_shift,
    "Max": _variadic(b.MaxOp),
    "Min": _variadic(b.MinOp),
    "Sum": _variadic(b.AddOp),
    "Mean": _mean,
    "Equal": _equal,
    "Less": _compare("lt"),
    "LessOrEqual": _compare("le"),
    "Greater": _compare("gt"),
    "GreaterOrEqual": _compare("ge"),
    "Where": _where,
}
"""Operator to rule."""
