"""Exact rewrite rules on ops that move elements: reshape, transpose, broadcast, slice, concat, pad, cast, relayout.

Each rule stands under its equation. ``graph-canonicalize`` applies them; all of them hold for every element type, bit
by bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import layout_of, shape_exprs
from ...core.symbolic import SymExpr
from ...dialects.graph.base import broadcast_shapes, get_ints, tensor_of
from ...dialects.graph.broadcasting import BroadcastingOp
from ...dialects.graph.elementwise import CastOp
from ...dialects.graph.reduce import ReduceOp
from ...dialects.graph.shape import BroadcastToOp, ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from ...dialects.graph.structure import MatchShapeOp, RelayoutOp


class DropIdentity(RewritePattern):
    """move(x) = x, where nothing is moved.

    A reshape, broadcast or match_shape to x's own shape, transposition by the identity, a cast to x's element type, a
    slice of everything, padding by nothing, concatenation of x alone, reduction over no dimension, relayout to x's
    layout.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if len(op.results) != 1 or not op.operands or op.operands[0].type != op.results[0].type:
            return
        if _moves_nothing(op):
            rewriter.replace(op, [], [op.operands[0]])


def _moves_nothing(op: Operation) -> bool:
    """Whether an operation of equal operand and result type gives the operand back."""
    match op:
        case ReshapeOp() | BroadcastToOp() | CastOp() | RelayoutOp() | MatchShapeOp() | PadOp():
            return True
        case TransposeOp():
            permutation = get_ints(op.properties, "permutation")
            return permutation == tuple(range(len(permutation)))
        case SliceOp():
            return all(start == 0 for start in op.starts.exprs) and set(get_ints(op.properties, "steps")) <= {1}
        case ConcatOp():
            return len(op.operands) == 1
        case ReduceOp():
            return not get_ints(op.properties, "axes")
    return False


class MergeReshapes(RewritePattern):
    """reshape(reshape(x)) = reshape(x)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.input.owner, ReshapeOp):
            rewriter.replace(op, ReshapeOp(op.input.owner.input, op.shape.exprs))


class MergeTransposes(RewritePattern):
    """transpose(transpose(x, p), q) = transpose(x, p[q])."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.input.owner, TransposeOp):
            inner = get_ints(op.input.owner.properties, "permutation")
            outer = get_ints(op.properties, "permutation")
            rewriter.replace(op, TransposeOp(op.input.owner.input, [inner[i] for i in outer]))


class TransposeIsReshape(RewritePattern):
    """transpose(x, p) = reshape(x), where dimensions other than 1 keep their order."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        shape = shape_exprs(op.input.type)
        moved = [i for i in get_ints(op.properties, "permutation") if shape[i] != 1]
        if moved == sorted(moved) and layout_of(op.input.type) is None and layout_of(op.result.type) is None:
            rewriter.replace(op, ReshapeOp(op.input, shape_exprs(op.result.type)))


class MergeCasts(RewritePattern):
    """cast(cast(x, B), C) = cast(x, C), where B holds every value of x's type."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.input.owner, CastOp):
            source = op.input.owner.input
            if holds_all_values(tensor_of(source).element_type, tensor_of(op.input).element_type):
                rewriter.replace(op, CastOp(source, op.to))


def holds_all_values(narrow: Attribute, wide: Attribute) -> bool:
    """Whether conversion from ``narrow`` to ``wide`` loses nothing."""
    if narrow == wide:
        return True
    if isinstance(narrow, AnyFloat):
        return isinstance(wide, AnyFloat) and all(a <= b for a, b in zip(_float_bits(narrow), _float_bits(wide)))
    if not isinstance(narrow, IntegerType):
        return False
    signed = narrow.signedness.data is not Signedness.UNSIGNED and narrow != i1
    bits = int(narrow.width.data) - signed
    if isinstance(wide, AnyFloat):
        return bits <= _float_bits(wide)[0]
    if not isinstance(wide, IntegerType) or wide == i1:
        return False
    wide_signed = wide.signedness.data is not Signedness.UNSIGNED
    return (wide_signed or not signed) and bits <= wide.width.data - wide_signed


def _float_bits(type: AnyFloat) -> tuple[int, int]:
    """Bits of the significand and of the exponent."""
    match type:
        case BFloat16Type():
            return 8, 8
        case Float16Type():
            return 11, 5
        case Float32Type():
            return 24, 8
        case Float64Type():
            return 53, 11
    return 0, 0


class MergeSlices(RewritePattern):
    """x[s : : d][t : : e] = x[s + t * d : : d * e]."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if not isinstance(inner, SliceOp):
            return
        inner_steps, steps = get_ints(inner.properties, "steps"), get_ints(op.properties, "steps")
        starts = [s + t * d for s, t, d in zip(inner.starts.exprs, op.starts.exprs, inner_steps)]
        merged = [d * e for d, e in zip(inner_steps, steps)]
        rewriter.replace(op, SliceOp(inner.input, starts, op.sizes.exprs, merged))


class SliceOfConcat(RewritePattern):
    """concat(a, b)[s : s + n] = b[s - len(a) : s - len(a) + n], where the slice lies in one operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        concat = op.input.owner
        if not isinstance(concat, ConcatOp):
            return
        axis = concat.axis_value
        start, size = op.starts.exprs[axis], op.sizes.exprs[axis]
        step = get_ints(op.properties, "steps")[axis]
        if not start.is_const() or not size.is_const() or size == 0:
            return
        first = start.const_value()
        low, high = sorted((first, first + (size.const_value() - 1) * step))
        offset = 0
        for value in concat.inputs:
            extent = shape_exprs(value.type)[axis]
            if not extent.is_const():
                return
            if offset <= low and high < offset + extent.const_value():
                starts = [s - offset if i == axis else s for i, s in enumerate(op.starts.exprs)]
                rewriter.replace(op, SliceOp(value, starts, op.sizes.exprs, get_ints(op.properties, "steps")))
                return
            offset += extent.const_value()


class MergeConcats(RewritePattern):
    """concat(concat(a, b), c) = concat(a, b, c), along one axis, the inner one used once."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConcatOp, rewriter: PatternRewriter) -> None:
        flat: list[SSAValue] = []
        for value in op.inputs:
            inner = value.owner
            merge = isinstance(inner, ConcatOp) and inner.axis_value == op.axis_value and value.has_one_use()
            flat.extend(inner.operands if merge and isinstance(inner, Operation) else [value])
        if len(flat) > len(op.inputs):
            rewriter.replace(op, ConcatOp(flat, op.axis_value))


class SkipBroadcast(RewritePattern):
    """broadcast(x) . y = x . y, where the result keeps its shape: the operation broadcasts by itself."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, BroadcastingOp):
            return
        for index, value in enumerate(op.operands):
            if not isinstance(value.owner, BroadcastToOp):
                continue
            shapes = [shape_exprs(other.type) for other in op.operands]
            shapes[index] = shape_exprs(value.owner.input.type)
            if _try_broadcast(shapes) == shape_exprs(op.results[0].type):
                op.operands[index] = value.owner.input
                rewriter.notify_op_modified(op)


def _try_broadcast(shapes: Sequence[tuple[SymExpr, ...]]) -> tuple[SymExpr, ...] | None:
    try:
        return broadcast_shapes(shapes)
    except VerifyException:
        return None


class MergeBroadcasts(RewritePattern):
    """broadcast(broadcast(x)) = broadcast(x)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastToOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.input.owner, BroadcastToOp):
            rewriter.replace(op, BroadcastToOp(op.input.owner.input, op.shape.exprs))


class MergeRelayouts(RewritePattern):
    """relayout(relayout(x)) = relayout(x)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RelayoutOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.input.owner, RelayoutOp):
            rewriter.replace(op, RelayoutOp(op.input.owner.input, layout_of(op.result.type)))


MOVEMENT_RULES: tuple[type[RewritePattern], ...] = (
    DropIdentity,
    MergeReshapes,
    MergeTransposes,
    TransposeIsReshape,
    MergeCasts,
    MergeSlices,
    SliceOfConcat,
    MergeConcats,
    SkipBroadcast,
    MergeBroadcasts,
    MergeRelayouts,
)
