"""Ops that move elements: each result element is one operand element, found by index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.diagnostics import emit_error
from ....core.symbolic import SymExpr, as_expr, sym_max, sym_min
from ....dialects.graph.base import get_exprs, get_int, get_ints
from .builder import ComputeBody, TeBuilder
from .elements import Elem
from .elementwise import broadcast_read
from .reduce import index_value

Exprs = tuple[SymExpr, ...]


def _move(op: Operation, te: TeBuilder, index: Callable[[Exprs], Sequence[SymExpr]]) -> SSAValue:
    """``result[i] = operand[index(i)]``."""
    name, x = op.name.partition(".")[2], op.operands[0]
    return te.compute(name, op.results[0].type, lambda e, i: e.read(x, index(i)))


def linear_index(index: Sequence[SymExpr], shape: Sequence[SymExpr]) -> SymExpr:
    """The position of ``index`` in row-major order."""
    position = as_expr(0)
    for i, extent in zip(index, shape):
        position = position * extent + i
    return position


def split_index(position: SymExpr, shape: Sequence[SymExpr]) -> list[SymExpr]:
    """The index in ``shape`` of a row-major position."""
    index: list[SymExpr] = []
    for extent in reversed(shape[1:]):
        index.insert(0, position % extent)
        position = position // extent
    return [position, *index] if shape else []


def lower_reshape(op: Operation, te: TeBuilder) -> SSAValue:
    """Runs of dimensions with the same extent product on both sides are split and merged among themselves."""
    before, after = shape_exprs(op.operands[0].type), shape_exprs(op.results[0].type)
    groups = reassociation(before, after)

    def index(i: Exprs) -> list[SymExpr]:
        result: list[SymExpr] = []
        for (a, b), (c, d) in groups:
            result += split_index(linear_index(i[c:d], after[c:d]), before[a:b])
        return result

    return _move(op, te, index)


def reassociation(
    before: Sequence[SymExpr], after: Sequence[SymExpr]
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The shortest runs of dimensions, side by side, whose element counts are equal."""
    groups: list[tuple[tuple[int, int], tuple[int, int]]] = []
    a = c = 0
    while a < len(before) or c < len(after):
        b, d = min(a + 1, len(before)), min(c + 1, len(after))
        while not _same_count(before[a:b], after[c:d]):
            if b == len(before) and d == len(after):
                break
            shorter = d == len(after) or (b < len(before) and _smaller(before[a:b], after[c:d]))
            b, d = (b + 1, d) if shorter else (b, d + 1)
        if b == len(before) or d == len(after):
            # Dimensions of size 1 may be left on either side.
            rest_a, rest_c = before[b:], after[d:]
            if all(x == 1 for x in rest_a) and all(x == 1 for x in rest_c):
                b, d = len(before), len(after)
        groups.append(((a, b), (c, d)))
        a, c = b, d
    return groups


def _count(shape: Sequence[SymExpr]) -> SymExpr:
    count = as_expr(1)
    for extent in shape:
        count = count * extent
    return count


def _same_count(a: Sequence[SymExpr], b: Sequence[SymExpr]) -> bool:
    return _count(a) == _count(b)


def _smaller(a: Sequence[SymExpr], b: Sequence[SymExpr]) -> bool:
    """Whether ``a`` should grow: its count divides the other's, or is the smaller constant."""
    left, right = _count(a), _count(b)
    if left.is_const() and right.is_const():
        return left.const_value() < right.const_value()
    return not left.is_const() < (not right.is_const()) or len(a) <= len(b)


def lower_transpose(op: Operation, te: TeBuilder) -> SSAValue:
    """``result[i...] = x[j...]`` with ``j[permutation[k]] = i[k]``."""
    permutation = get_ints(op.properties, "permutation")
    return _move(op, te, lambda i: [i[permutation.index(d)] for d in range(len(permutation))])


def lower_copy(op: Operation, te: TeBuilder) -> SSAValue:
    """The same elements (in another layout, say)."""
    return _move(op, te, lambda i: i)


def lower_broadcast_to(op: Operation, te: TeBuilder) -> SSAValue:
    x = op.operands[0]
    return te.compute("broadcast", op.results[0].type, lambda e, i: broadcast_read(e, x, i))


def lower_slice(op: Operation, te: TeBuilder) -> SSAValue:
    """``result[i...] = x[start + i * step...]``."""
    starts, steps = get_exprs(op.properties, "starts"), get_ints(op.properties, "steps")
    return _move(op, te, lambda i: [start + k * step for k, start, step in zip(i, starts, steps)])


def lower_concat(op: Operation, te: TeBuilder) -> SSAValue:
    """Reads chained by their defaults: the first operand's, outside of it the second's, and so on."""
    axis = get_int(op.properties, "axis", 0)
    element = op.results[0].type.element_type  # type: ignore[attr-defined]
    offsets = [as_expr(0)]
    for operand in op.operands[:-1]:
        offsets.append(offsets[-1] + shape_exprs(operand.type)[axis])

    def body(e: ComputeBody, i: Exprs) -> Elem:
        value = e.constant(0, element)
        for operand, offset in reversed(list(zip(op.operands, offsets))):
            value = e.read(operand, [*i[:axis], i[axis] - offset, *i[axis + 1 :]], value)
        return value

    return te.compute("concat", op.results[0].type, body)


def lower_pad(op: Operation, te: TeBuilder) -> SSAValue:
    """Constant: ``value`` outside. reflect, edge, wrap: an index expression folds the outside back in."""
    x, value = op.operands
    mode = cast(StringAttr, op.properties["mode"]).data
    shape, low = shape_exprs(x.type), get_ints(op.properties, "low")
    high = get_ints(op.properties, "high")

    def body(e: ComputeBody, i: Exprs) -> Elem:
        at = [k - before for k, before in zip(i, low)]
        if mode == "constant":
            return e.read(x, at, e.read(value, []))
        padded = [any(pair) for pair in zip(low, high)]
        return e.read(x, [_fold(mode, k, n) if p else k for k, n, p in zip(at, shape, padded)])

    return te.compute("pad", op.results[0].type, body)


def _fold(mode: str, k: SymExpr, extent: SymExpr) -> SymExpr:
    if mode == "edge":
        return sym_min(sym_max(k, 0), extent - 1)
    if mode == "wrap":
        return k % extent
    return sym_min(sym_max(k, -k), 2 * (extent - 1) - sym_max(k, -k))


def lower_iota(op: Operation, te: TeBuilder) -> SSAValue:
    """``result[i...] = i[axis]``."""
    axis, element = get_int(op.properties, "axis", 0), op.properties["element"]
    return te.compute("iota", op.results[0].type, lambda e, i: index_value(e, i[axis], element))


def lower_dims(op: Operation, te: TeBuilder) -> SSAValue:
    """A vector of symbolic values: selected by the index."""
    values = get_exprs(op.properties, "values")

    def body(e: ComputeBody, i: Exprs) -> Elem:
        result = e.constant(0, i64)
        for position, value in enumerate(values):
            chosen = e.compare("eq", e.index(i[0]), position)
            result = e.select(chosen, index_value(e, value, i64), result)
        return result

    return te.compute("dims", op.results[0].type, body)


def lower_constant(op: Operation, te: TeBuilder) -> SSAValue:
    """A splat becomes an element constant; other data must come in as an operand of the kernel."""
    value, type_ = op.properties["value"], op.results[0].type
    if not isinstance(value, DenseIntOrFPElementsAttr) or not value.is_splat():
        emit_error(op, "inside a kernel must be a splat, other constants are operands of the kernel")
    number = value.get_values()[0]
    element = type_.get_element_type()  # type: ignore[attr-defined]
    return te.compute("constant", type_, lambda e, i: e.constant(number, element))
