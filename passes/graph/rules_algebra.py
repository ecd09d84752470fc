"""Exact rewrite rules of arithmetic: identity elements, involutions, idempotent functions, constants of integers.

Each rule stands under its equation. None changes a float result, not even the sign of a zero: ``x + 0.0`` is not
``x`` for ``x = -0.0`` and stands in ``rules_float.py``. Integers wrap, so integer arithmetic reassociates freely.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import Commutative

from ...core.attributes import shape_exprs
from ...dialects.graph.base import get_ints, tensor_of
from ...dialects.graph.broadcasting import (
    AddOp,
    AndOp,
    BinaryOp,
    CompareOp,
    DivOp,
    MaxOp,
    MinOp,
    MulOp,
    OrOp,
    PowOp,
    ShiftLeftOp,
    ShiftRightOp,
    SubOp,
    WhereOp,
    XorOp,
)
from ...dialects.graph.elementwise import (
    AbsOp,
    CeilOp,
    FloorOp,
    NegOp,
    NotOp,
    ReluOp,
    RoundOp,
    SignOp,
)
from ...dialects.graph.nn import ConvOp
from ...dialects.graph.shape import BroadcastToOp, PadOp
from ...interp.arith import numpy_dtype
from .constants import dense_constant, is_constant, splat, splat_value


class ConstantToTheRight(RewritePattern):
    """c . x = x . c, for commutative operations: other rules look for constants on the right only."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, BinaryOp) or not op.has_trait(Commutative):
            return
        if is_constant(op.lhs) and not is_constant(op.rhs):
            op.operands = [op.rhs, op.lhs]
            rewriter.notify_op_modified(op)


class DropIdentityElement(RewritePattern):
    """x * 1 = x / 1 = x ** 1 = x - 0 = x; x + -0.0 = x for floats; for integers and i1
    x + 0 = x | 0 = x ^ 0 = x << 0 = x >> 0 = x, x & -1 = x.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, BinaryOp) and op.lhs.type == op.result.type and _is_identity(op):
            rewriter.replace(op, [], [op.lhs])


def _is_identity(op: BinaryOp) -> bool:
    number = splat_value(op.rhs)
    if number is None:
        return False
    match op:
        case MulOp() | DivOp() | PowOp():
            return number == 1
        case AddOp():
            return number == 0 and (isinstance(number, int) or math.copysign(1, number) < 0)
        case SubOp():
            return number == 0 and (isinstance(number, int) or math.copysign(1, number) > 0)
        case OrOp() | XorOp() | ShiftLeftOp() | ShiftRightOp():
            return number == 0
        case AndOp():
            return number == all_ones(op.result)
    return False


def all_ones(value: SSAValue) -> int:
    """The integer whose bits are all set, as ``splat_value`` gives it."""
    type = tensor_of(value).element_type
    assert isinstance(type, IntegerType)
    unsigned = type == i1 or type.signedness.data is Signedness.UNSIGNED
    return (1 << type.width.data) - 1 if unsigned else -1


class SameOperands(RewritePattern):
    """max(x, x) = min(x, x) = x & x = x | x = where(c, x, x) = x; x - x = x ^ x = 0 for integers."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        match op:
            case MaxOp() | MinOp() | AndOp() | OrOp() if op.lhs == op.rhs:
                rewriter.replace(op, [], [op.lhs])
            case WhereOp() if op.lhs == op.rhs and op.lhs.type == op.result.type:
                rewriter.replace(op, [], [op.lhs])
            case SubOp() | XorOp() if op.lhs == op.rhs and _is_integer(op.result):
                _replace_by_number(op, 0, rewriter)


class MultiplyByZero(RewritePattern):
    """x * 0 = x & 0 = 0 for integers."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, MulOp | AndOp) and _is_integer(op.result) and splat_value(op.rhs) == 0:
            _replace_by_number(op, 0, rewriter)


def _replace_by_number(op: BinaryOp, number: int, rewriter: PatternRewriter) -> None:
    zero = splat(number, tensor_of(op.result).element_type)
    rewriter.replace(op, [zero, BroadcastToOp(zero.result, shape_exprs(op.result.type))])


class Involution(RewritePattern):
    """-(-x) = x, not not x = x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, NegOp | NotOp) and type(op.input.owner) is type(op):
            rewriter.replace(op, [], [op.input.owner.operands[0]])


class Idempotent(RewritePattern):
    """f(f(x)) = f(x) for relu, abs, sign, floor, ceil, round; f(g(x)) = g(x) for two different of the last three."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReluOp | AbsOp | SignOp | FloorOp | CeilOp | RoundOp):
            return
        inner = op.input.owner
        whole = isinstance(op, FloorOp | CeilOp | RoundOp) and isinstance(inner, FloorOp | CeilOp | RoundOp)
        if whole or type(inner) is type(op):
            rewriter.replace(op, [], [op.input])


class AbsIgnoresSign(RewritePattern):
    """|-x| = |x|, |relu(x)| = relu(x)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AbsOp, rewriter: PatternRewriter) -> None:
        match op.input.owner:
            case NegOp():
                rewriter.replace(op, AbsOp(op.input.owner.input))
            case ReluOp():
                rewriter.replace(op, [], [op.input])


class NotOfCompare(RewritePattern):
    """not (x == y) = x != y, not (x < y) = x >= y; an order only for integers, since NaN compares false both ways."""

    INVERSE: ClassVar = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: NotOp, rewriter: PatternRewriter) -> None:
        compare = op.input.owner
        if not isinstance(compare, CompareOp):
            return
        predicate = compare.predicate.data
        if predicate in ("eq", "ne") or _is_integer(compare.lhs):
            rewriter.replace(op, CompareOp(compare.lhs, compare.rhs, self.INVERSE[predicate]))


class SubtractConstant(RewritePattern):
    """x - c = x + (-c), c a number: additions meet additions."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubOp, rewriter: PatternRewriter) -> None:
        number = splat_value(op.rhs)
        if number is not None:
            type, shape = tensor_of(op.rhs).element_type, _static_shape(op.rhs)
            negated = dense_constant(-np.full(shape, number, numpy_dtype(type)), type)
            rewriter.replace(op, [negated, AddOp(op.lhs, negated.result)])


class DivideByPowerOfTwo(RewritePattern):
    """x / c = x * (1 / c), c a power of two whose inverse is a float as well."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        number = splat_value(op.rhs)
        if not isinstance(number, float) or not math.isfinite(number) or number == 0:
            return
        mantissa, exponent = math.frexp(abs(number))
        if mantissa == 0.5 and abs(exponent) <= 12:
            inverse = splat(1 / number, tensor_of(op.rhs).element_type, _static_shape(op.rhs))
            rewriter.replace(op, [inverse, MulOp(op.lhs, inverse.result)])


def _static_shape(value: SSAValue) -> list[int]:
    return [extent.const_value() for extent in shape_exprs(value.type)]


class CombineIntegerConstants(RewritePattern):
    """(x . a) . b = x . (a . b) for integers and . one of + * & | ^."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AddOp | MulOp | AndOp | OrOp | XorOp) or not _is_integer(op.result):
            return
        inner = op.lhs.owner
        if type(inner) is not type(op) or not isinstance(inner, BinaryOp) or is_constant(inner.lhs):
            return
        if is_constant(op.rhs) and is_constant(inner.rhs) and inner.lhs.type == op.result.type:
            both = type(op)(inner.rhs, op.rhs)
            rewriter.replace(op, [both, type(op)(inner.lhs, both.result)])


class PadIntoConvolution(RewritePattern):
    """conv(pad(x, p), w, pads=q) = conv(x, w, pads=p+q), for padding of spatial dimensions by zeros."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvOp, rewriter: PatternRewriter) -> None:
        pad = op.input.owner
        if not isinstance(pad, PadOp) or pad.mode.data != "constant" or splat_value(pad.value) != 0:
            return
        low, high = get_ints(pad.properties, "low"), get_ints(pad.properties, "high")
        if any(low[:2]) or any(high[:2]):
            return
        pads = [a + b for a, b in zip(get_ints(op.properties, "pads"), (*low[2:], *high[2:]))]
        strides, dilations = get_ints(op.properties, "strides"), get_ints(op.properties, "dilations")
        rewriter.replace(op, ConvOp(pad.input, op.filter, strides, pads, dilations, op.group_count))


def _is_integer(value: SSAValue) -> bool:
    return isinstance(tensor_of(value).element_type, IntegerType)


IDENTITY_RULES: tuple[type[RewritePattern], ...] = (ConstantToTheRight, DropIdentityElement)
"""What ``graph-canonicalize`` takes from here."""

ALGEBRA_RULES: tuple[type[RewritePattern], ...] = (
    *IDENTITY_RULES,
    SameOperands,
    MultiplyByZero,
    Involution,
    Idempotent,
    AbsIgnoresSign,
    NotOfCompare,
    SubtractConstant,
    DivideByPowerOfTwo,
    CombineIntegerConstants,
    PadIntoConvolution,
)
