"""Scale folding: multiplications and additions per channel, batch normalisation first of all, move into weights.

Why: after it a trained convolution, its bias and its batch normalisation are one convolution and one addition. The
new weights are graph operations on constants; ``graph-fold-constants`` evaluates the small ones and makes recipes of
the others.

All rules reassociate, so float results change in the last places. The pass does nothing to integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ...core.attributes import shape_exprs
from ...core.context import TilewrightContext
from ...core.passes import FunctionPass
from ...core.rewriting import apply_patterns
from ...core.symbolic import as_expr
from ...dialects.graph.base import product, tensor_of
from ...dialects.graph.broadcasting import AddOp, DivOp, MulOp, SubOp
from ...dialects.graph.elementwise import NegOp, SqrtOp
from ...dialects.graph.linear import MatmulOp
from ...dialects.graph.nn import BatchNormOp, ConvOp, ConvTransposeOp
from ...dialects.graph.shape import ReshapeOp
from .constants import is_constant, splat


@dataclass(frozen=True)
class GraphFoldScalePass(FunctionPass):
    """Folds per-channel factors into the weights of convolutions and matrix products.

    Before::

        %0 = graph.conv %x, %w ...
        %1 = graph.batch_norm %0, %scale, %bias, %mean, %variance ...

    After, with every operation but the last two on constants::

        %f = graph.div %scale, (graph.sqrt (graph.add %variance, %epsilon))
        %w1 = graph.mul %w, %f
        %b1 = graph.sub %bias, (graph.mul %mean, %f)
        %0 = graph.conv %x, %w1 ...
        %1 = graph.add %0, %b1

    Expects constant weights and parameters; a batch normalisation of anything else becomes ``mul`` and ``add``.
    """

    name = "graph-fold-scale"

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        apply_patterns(func, [rule() for rule in FOLD_SCALE_PATTERNS])


class SplitBatchNorm(RewritePattern):
    """(x - m) / sqrt(v + e) * g + b = x * f + (b - m * f) with f = g / sqrt(v + e)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BatchNormOp, rewriter: PatternRewriter) -> None:
        if not all(is_constant(value) for value in op.operands[1:]):
            return
        epsilon = splat(op.epsilon.value.data, tensor_of(op.variance).element_type)
        moved = AddOp(op.variance, epsilon.result)
        root = SqrtOp(moved.result)
        factor = DivOp(op.scale, root.result)
        mean = MulOp(op.mean, factor.result)
        shift = SubOp(op.bias, mean.result)
        channels = [shape_exprs(op.scale.type)[0], *[as_expr(1)] * (tensor_of(op.input).get_num_dims() - 2)]
        factor_c = ReshapeOp(factor.result, channels)
        shift_c = ReshapeOp(shift.result, channels)
        scaled = MulOp(op.input, factor_c.result)
        rewriter.replace(
            op, [epsilon, moved, root, factor, mean, shift, factor_c, shift_c, scaled, AddOp(scaled.result,
            shift_c.result)],
        )


class ScaleConvolution(RewritePattern):
    """conv(x, w) * f = conv(x, w * f), f one factor per output channel."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        for value, factor in _float_orders(op):
            conv = value.owner
            if not isinstance(conv, ConvOp | ConvTransposeOp) or not _scales(value, factor, op.result, axis=1):
                continue
            if isinstance(conv, ConvTransposeOp) and conv.group_count > 1:
                continue
            _scale_weights(rewriter, op, conv, factor, 0 if isinstance(conv, ConvOp) else 1)
            return


class ScaleMatmul(RewritePattern):
    """(x @ w) * f = x @ (w * f), f one factor per column."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        for value, factor in _float_orders(op):
            matmul = value.owner
            last = tensor_of(value).get_num_dims() - 1
            if isinstance(matmul, MatmulOp) and _scales(value, factor, op.result, axis=last):
                _scale_weights(rewriter, op, matmul, factor, tensor_of(matmul.rhs).get_num_dims() - 1)
                return


class ScaleShift(RewritePattern):
    """(y + t) * f = y * f + t * f, where y is a product that takes the factor."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        for value, factor in _float_orders(op):
            shifted = value.owner
            if not isinstance(shifted, AddOp) or not value.has_one_use() or not is_constant(factor):
                continue
            for inner, shift in ((shifted.lhs, shifted.rhs), (shifted.rhs, shifted.lhs)):
                if is_constant(shift) and _takes_factor(inner) and _same_shape(inner, op.result):
                    left, right = MulOp(inner, factor), MulOp(shift, factor)
                    rewriter.replace(op, [left, right, AddOp(left.result, right.result)])
                    return


class ScaleInput(RewritePattern):
    """conv(x * f, w) = conv(x, w * f), f one factor per input channel (padding stays zero); (x * f) @ w = x @ (f *
    w).
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ConvOp | MatmulOp) or (isinstance(op, ConvOp) and op.group_count > 1):
            return
        product_ = op.operands[0].owner
        if not isinstance(product_, MulOp) or not is_constant(op.operands[1]):
            return
        rank = tensor_of(product_.result).get_num_dims()
        read, written = (1, 1) if isinstance(op, ConvOp) else (rank - 1, tensor_of(op.rhs).get_num_dims() - 2)
        for value, factor in _float_orders(product_):
            if _is_only_along(factor, product_.result, read) and _same_shape(value, product_.result):
                column, scaled = _scaled_weights(op.operands[1], factor, written)
                new = op.clone({product_.result: value, op.operands[1]: scaled.result})
                rewriter.replace(op, [column, scaled, new])
                return


class SubtractionIsAddition(RewritePattern):
    """y - t = y + (-t), t a constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubOp, rewriter: PatternRewriter) -> None:
        float_result = isinstance(tensor_of(op.result).element_type, AnyFloat)
        if float_result and is_constant(op.rhs) and not is_constant(op.lhs):
            negated = NegOp(op.rhs)
            rewriter.replace(op, [negated, AddOp(op.lhs, negated.result)])


class DivisionIsMultiplication(RewritePattern):
    """y / f = y * (1 / f), f a constant, where y is a product, perhaps shifted, that takes the factor."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        type, source = tensor_of(op.result).element_type, op.lhs
        if isinstance(source.owner, AddOp) and is_constant(source.owner.rhs) and source.has_one_use():
            source = source.owner.lhs
        if isinstance(type, AnyFloat) and is_constant(op.rhs) and _takes_factor(source):
            one = splat(1.0, type)
            inverse = DivOp(one.result, op.rhs)
            rewriter.replace(op, [one, inverse, MulOp(op.lhs, inverse.result)])


class _Combine(RewritePattern):
    """Base: (y . a) . b = y . (a . b) for constants a and b, of which y is not smaller than the result."""

    op_class: type[AddOp] | type[MulOp]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, self.op_class):
            return
        for value, outer in _float_orders(op):
            first = value.owner
            if not isinstance(first, self.op_class) or not value.has_one_use() or not is_constant(outer):
                continue
            for inner, constant in ((first.lhs, first.rhs), (first.rhs, first.lhs)):
                if is_constant(constant) and not is_constant(inner) and _same_shape(inner, op.result):
                    both = self.op_class(constant, outer)
                    rewriter.replace(op, [both, self.op_class(inner, both.result)])
                    return


class CombineShifts(_Combine):
    """(y + a) + b = y + (a + b)."""

    op_class = AddOp


class CombineFactors(_Combine):
    """(y * a) * b = y * (a * b)."""

    op_class = MulOp


FOLD_SCALE_PATTERNS: tuple[type[RewritePattern], ...] = (
    SplitBatchNorm,
    ScaleConvolution,
    ScaleMatmul,
    ScaleShift,
    ScaleInput,
    SubtractionIsAddition,
    DivisionIsMultiplication,
    CombineShifts,
    CombineFactors,
)


def _scale_weights(
    rewriter: PatternRewriter, op: MulOp, producer: ConvOp | ConvTransposeOp | MatmulOp, factor: SSAValue, axis: int
) -> None:
    """Replaces ``producer * factor`` by the producer with weights scaled along ``axis``."""
    column, scaled = _scaled_weights(producer.operands[1], factor, axis)
    rewriter.replace(op, [column, scaled, producer.clone({producer.operands[1]: scaled.result})])


def _scaled_weights(weights: SSAValue, factor: SSAValue, axis: int) -> tuple[ReshapeOp, MulOp]:
    shape = [as_expr(1)] * tensor_of(weights).get_num_dims()
    shape[axis] = product(shape_exprs(factor.type))
    column = ReshapeOp(factor, shape)
    return column, MulOp(weights, column.result)


def _float_orders(op: AddOp | MulOp) -> Sequence[tuple[SSAValue, SSAValue]]:
    """Both orders of the operands of a commutative float operation."""
    if not isinstance(tensor_of(op.result).element_type, AnyFloat):
        return ()
    return ((op.lhs, op.rhs), (op.rhs, op.lhs))


def _scales(value: SSAValue, factor: SSAValue, result: SSAValue, axis: int) -> bool:
    """Whether ``value * factor = result`` can be done to the weights that make ``value``.

    They are constant, nothing else reads the unscaled value, and the factor varies along dimension ``axis`` at most.
    """
    assert isinstance(value.owner, Operation)
    if not value.has_one_use() or not is_constant(value.owner.operands[1]):
        return False
    return _same_shape(value, result) and _is_only_along(factor, result, axis)


def _is_only_along(factor: SSAValue, result: SSAValue, axis: int) -> bool:
    """Whether a factor is constant and varies along dimension ``axis`` of the result at most."""
    offset = tensor_of(result).get_num_dims() - tensor_of(factor).get_num_dims()
    varying = [i + offset for i, extent in enumerate(shape_exprs(factor.type)) if extent != 1]
    return varying in ([], [axis]) and is_constant(factor)


def _takes_factor(value: SSAValue) -> bool:
    """Whether a rule above can move a factor of this value further."""
    op = value.owner
    if not isinstance(op, ConvOp | ConvTransposeOp | MatmulOp | MulOp) or not value.has_one_use():
        return False
    return is_constant(op.operands[1]) or (isinstance(op, MulOp) and is_constant(op.lhs))


def _same_shape(a: SSAValue, b: SSAValue) -> bool:
    return shape_exprs(a.type) == shape_exprs(b.type)
