"""Rewrite rules that hold for real numbers, not for rounded ones: float results change in the last places.

Each rule stands under its equation; ``graph-simplify-float`` applies them where the user asks for it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ...core.attributes import shape_exprs
from ...dialects.graph.base import tensor_of
from ...dialects.graph.broadcasting import AddOp, BinaryOp, DivOp, MulOp, PowOp, SubOp
from ...dialects.graph.elementwise import RsqrtOp, SqrtOp
from .constants import is_constant, splat, splat_value


class AddZero(RewritePattern):
    """x + 0 = x, x - (-0) = x: wrong only for x = -0.0, whose sign is lost."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, AddOp | SubOp) and splat_value(op.rhs) == 0 and op.lhs.type == op.result.type:
            rewriter.replace(op, [], [op.lhs])


class CombineFloatConstants(RewritePattern):
    """(x + a) + b = x + (a + b), (x * a) * b = x * (a * b)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AddOp | MulOp) or not isinstance(tensor_of(op.result).element_type, AnyFloat):
            return
        inner = op.lhs.owner
        if type(inner) is not type(op) or not isinstance(inner, BinaryOp) or is_constant(inner.lhs):
            return
        if is_constant(op.rhs) and is_constant(inner.rhs) and inner.lhs.type == op.result.type:
            both = type(op)(inner.rhs, op.rhs)
            rewriter.replace(op, [both, type(op)(inner.lhs, both.result)])


class DivideByConstant(RewritePattern):
    """x / c = x * (1 / c), c a constant: one rounding more."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        type = tensor_of(op.result).element_type
        if isinstance(type, AnyFloat) and is_constant(op.rhs) and not is_constant(op.lhs):
            one = splat(1.0, type)
            inverse = DivOp(one.result, op.rhs)
            rewriter.replace(op, [one, inverse, MulOp(op.lhs, inverse.result)])


class DivideBySquareRoot(RewritePattern):
    """x / sqrt(y) = x * rsqrt(y)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.rhs.owner, SqrtOp):
            root = RsqrtOp(op.rhs.owner.input)
            rewriter.replace(op, [root, MulOp(op.lhs, root.result)])


class SmallPower(RewritePattern):
    """x ** 2 = x * x, x ** 3 = x * x * x, x ** 0.5 = sqrt(x), x ** -1 = 1 / x.

    The square root differs at -0.0 and minus infinity.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PowOp, rewriter: PatternRewriter) -> None:
        type = tensor_of(op.result).element_type
        if not isinstance(type, AnyFloat) or shape_exprs(op.lhs.type) != shape_exprs(op.result.type):
            return
        match splat_value(op.rhs):
            case 2:
                rewriter.replace(op, MulOp(op.lhs, op.lhs))
            case 3:
                square = MulOp(op.lhs, op.lhs)
                rewriter.replace(op, [square, MulOp(square.result, op.lhs)])
            case 0.5:
                rewriter.replace(op, SqrtOp(op.lhs))
            case -1:
                one = splat(1.0, type)
                rewriter.replace(op, [one, DivOp(one.result, op.lhs)])


FLOAT_RULES: tuple[type[RewritePattern], ...] = (
    AddZero,
    CombineFloatConstants,
    DivideByConstant,
    DivideBySquareRoot,
    SmallPower,
)
