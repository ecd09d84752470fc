"""Data-dependent moves. Gathers read at index values; everything else is a reduction over the candidates.

Indices count from the end when negative, and are clamped into the tensor, so that no value of theirs leads outside of
memory. Scatters, running sums and top-k compare each result position with all candidates: more work than a sequential
algorithm, but a plain reduction that any schedule can run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import StringAttr, i64
from xdsl.ir import Operation, SSAValue

from ....core.attributes import SymExprAttr, shape_exprs
from ....core.symbolic import SymExpr, as_expr
from ....dialects.graph.base import get_int
from .builder import ComputeBody, TeBuilder
from .elements import Elem, highest, is_float, lowest
from .reduce import cast_result, index_value
from .shape import linear_index, split_index

Exprs = tuple[SymExpr, ...]


def wrapped(e: ComputeBody, index: Elem, extent: SymExpr) -> Elem:
    """The index as i64, negative ones counted from the end."""
    value = e.cast(index, i64)
    return e.select(value < 0, value + index_value(e, extent, i64), value)


def gather_index(e: ComputeBody, index: Elem, extent: SymExpr) -> SymExpr:
    """The index as an index expression that stays inside ``extent``."""
    last = index_value(e, extent - 1, i64)
    value = e.min(e.max(wrapped(e, index, extent), 0), last)
    return e.data_index(value, extent)


def lower_gather(op: Operation, te: TeBuilder) -> SSAValue:
    """``result[a..., i..., b...] = data[a..., indices[i...], b...]``."""
    data, indices = op.operands
    axis, extents = get_int(op.properties, "axis", 0), shape_exprs(data.type)
    rank = len(shape_exprs(indices.type))

    def body(e: ComputeBody, i: Exprs) -> Elem:
        at = gather_index(e, e.read(indices, i[axis : axis + rank]), extents[axis])
        return e.read(data, [*i[:axis], at, *i[axis + rank :]])

    return te.compute("gather", op.results[0].type, body)


def lower_gather_elements(op: Operation, te: TeBuilder) -> SSAValue:
    """``result[i...] = data[i... with indices[i...] at axis]``."""
    data, indices = op.operands
    axis, extents = get_int(op.properties, "axis", 0), shape_exprs(data.type)

    def body(e: ComputeBody, i: Exprs) -> Elem:
        at = gather_index(e, e.read(indices, i), extents[axis])
        return e.read(data, [*i[:axis], at, *i[axis + 1 :]])

    return te.compute("gather_elements", op.results[0].type, body)


def lower_gather_nd(op: Operation, te: TeBuilder) -> SSAValue:
    """``result[b..., i..., r...] = data[b..., indices[b..., i..., 0], ..., r...]``."""
    data, indices = op.operands
    batch, extents = get_int(op.properties, "batch_dims", 0), shape_exprs(data.type)
    *outer, depth = shape_exprs(indices.type)

    def body(e: ComputeBody, i: Exprs) -> Elem:
        tuple_at = i[: len(outer)]
        at = [
            gather_index(e, e.read(indices, [*tuple_at, k]), extents[batch + k])
            for k in range(depth.const_value())
        ]
        return e.read(data, [*i[:batch], *at, *i[len(outer) :]])

    return te.compute("gather_nd", op.results[0].type, body)


Candidate = Callable[[ComputeBody, Exprs, Exprs], tuple[Elem, Sequence[SymExpr]]]
"""For result index and candidate: whether it is written there, and the index of its update."""


def lower_scatter_elements(op: Operation, te: TeBuilder) -> SSAValue:
    """Candidates are the positions along ``axis`` of the indices."""
    _, indices, _ = op.operands
    axis, extents = get_int(op.properties, "axis", 0), shape_exprs(op.results[0].type)

    def candidate(e: ComputeBody, i: Exprs, r: Exprs) -> tuple[Elem, Sequence[SymExpr]]:
        at = [*i[:axis], r[0], *i[axis + 1 :]]
        nowhere = e.constant(lowest(i64), i64)
        element = indices.type.element_type  # type: ignore[attr-defined]
        if element == i64:
            target = wrapped(e, e.read(indices, at, nowhere), extents[axis])
        else:
            inside = e.read(indices, at, e.constant(lowest(element), element))
            target = wrapped(e, inside, extents[axis])
        return e.compare("eq", target, index_value(e, i[axis], i64)), at

    return _scatter(op, te, candidate, [shape_exprs(indices.type)[axis]])


def lower_scatter_nd(op: Operation, te: TeBuilder) -> SSAValue:
    """Candidates are all index tuples."""
    _, indices, _ = op.operands
    *outer, depth = shape_exprs(indices.type)
    extents, count = shape_exprs(op.results[0].type), depth.const_value()

    def candidate(e: ComputeBody, i: Exprs, r: Exprs) -> tuple[Elem, Sequence[SymExpr]]:
        hit: Elem | None = None
        for k in range(count):
            target = wrapped(e, e.read(indices, [*r, k]), extents[k])
            same = e.compare("eq", target, index_value(e, i[k], i64))
            hit = same if hit is None else hit & same
        assert hit is not None
        return hit, [*r, *i[count:]]

    return _scatter(op, te, candidate, outer)


_SCATTER = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _scatter(op: Operation, te: TeBuilder, candidate: Candidate, depths: Sequence[SymExpr]) -> SSAValue:
    """With a reduction: the combined updates of a position, then its old element. Without: the last candidate wins."""
    data, _, updates = op.operands
    reduction = cast(StringAttr, op.properties["reduction"]).data
    result_type = op.results[0].type
    element, shape = result_type.element_type, shape_exprs(result_type)  # type: ignore[attr-defined]
    if reduction == "none":
        return _scatter_last(op, te, candidate, depths)
    identity = {"add": 0, "mul": 1, "max": lowest(element), "min": highest(element)}[reduction]

    def combined(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        neutral = e.constant(identity, element)
        hit, at = candidate(e, i, r)
        return e.select(hit, e.read(updates, at, neutral), neutral)

    total = te.compute("updates", te.type(element, shape, result_type), combined, depths, _SCATTER[reduction])
    name = {"add": "add", "mul": "mul", "max": "max", "min": "min"}[reduction]
    return te.compute(
        "scatter", result_type, lambda e, i: e.binary(name, e.read(data, i), e.read(total, i))
    )


def _scatter_last(op: Operation, te: TeBuilder, candidate: Candidate, depths: Sequence[SymExpr]) -> SSAValue:
    data, _, updates = op.operands
    result_type = op.results[0].type
    count = as_expr(1)
    for extent in depths:
        count = count * extent

    def position(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        hit, _ = candidate(e, i, r)
        return e.select(hit, index_value(e, linear_index(r, depths), i64), -1)

    type_ = te.type(i64, shape_exprs(result_type), result_type)
    last = te.compute("last", type_, position, depths, "max")

    def body(e: ComputeBody, i: Exprs) -> Elem:
        winner = e.read(last, i)
        at = e.data_index(e.max(winner, 0), count)
        _, where = candidate(e, i, tuple(split_index(at, depths)))
        default = e.read(data, i)
        return e.select(winner < 0, default, e.read(updates, where, default))

    return te.compute("scatter", result_type, body)


def lower_cumsum(op: Operation, te: TeBuilder) -> SSAValue:
    """``result[i] = sum over r of x[i - r]`` as far as that is inside; ``reverse`` looks ahead."""
    (x,) = op.operands
    axis, shape = get_int(op.properties, "axis", 0), shape_exprs(x.type)
    skip = 1 if get_int(op.properties, "exclusive", 0) else 0
    ahead = bool(get_int(op.properties, "reverse", 0))
    element = x.type.element_type  # type: ignore[attr-defined]

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        distance = r[0] + skip
        at = i[axis] + distance if ahead else i[axis] - distance
        return e.read(x, [*i[:axis], at, *i[axis + 1 :]], e.constant(0, element))

    total = te.compute("cumsum", te.type(element, shape, op.results[0].type), body, [shape[axis]], "sum")
    return cast_result(te, total, op.results[0].type)


def lower_topk(op: Operation, te: TeBuilder) -> Sequence[SSAValue]:
    """The rank of an element is the number of elements that come before it; position k takes the element of rank k."""
    (x,) = op.operands
    axis, shape = get_int(op.properties, "axis", 0), shape_exprs(x.type)
    order = "gt" if get_int(op.properties, "largest", 1) else "lt"
    assert isinstance(op.properties["k"], SymExprAttr)

    def at(i: Exprs, position: SymExpr) -> list[SymExpr]:
        return [*i[:axis], position, *i[axis + 1 :]]

    def comes_before(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        mine, other = e.read(x, i), e.read(x, at(i, r[0]))
        before, same = _order(e, order, other, mine)
        earlier = e.compare("lt", e.index(r[0]), e.index(i[axis]))
        return e.cast(before | (same & earlier), i64)

    rank = te.compute("rank", te.type(i64, shape, x), comes_before, [shape[axis]], "sum")

    def chosen(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        hit = e.compare("eq", e.read(rank, at(i, r[0])), index_value(e, i[axis], i64))
        return e.select(hit, index_value(e, r[0], i64), 0)

    index = te.compute("topk_index", op.results[1].type, chosen, [shape[axis]], "sum")

    def value(e: ComputeBody, i: Exprs) -> Elem:
        return e.read(x, at(i, gather_index(e, e.read(index, i), shape[axis])))

    return te.compute("topk", op.results[0].type, value), index


def _order(e: ComputeBody, order: str, a: Elem, b: Elem) -> tuple[Elem, Elem]:
    """Whether ``a`` comes before ``b``, and whether they are equal; a NaN counts as larger than all numbers."""
    before, same = e.compare(order, a, b), e.compare("eq", a, b)
    if not is_float(a.type):
        return before, same
    a_nan, b_nan = e.compare("ne", a, a), e.compare("ne", b, b)
    first, second = (a_nan, b_nan) if order == "gt" else (b_nan, a_nan)
    return before | (first & e.logical_not(second)), same | (a_nan & b_nan)
