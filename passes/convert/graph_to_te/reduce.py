"""Reductions along dimensions: one compute with a combiner, and an epilogue where the meaning needs one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.symbolic import SymExpr, as_expr
from ....dialects.graph.base import get_int, get_ints
from ....dialects.graph.reduce import ArgReduceOp, ReduceOp
from .builder import ComputeBody, TeBuilder
from .elements import I1, Elem, accumulator_type

Exprs = tuple[SymExpr, ...]
Function = Callable[[ComputeBody, Elem], Elem]

_COMBINERS = {
    "graph.reduce_sum": "sum",
    "graph.reduce_mean": "sum",
    "graph.reduce_prod": "prod",
    "graph.reduce_max": "max",
    "graph.reduce_min": "min",
}


def input_index(rank: int, axes: Sequence[int], keep: bool, i: Sequence[SymExpr], r: Sequence[SymExpr]) -> Exprs:
    """The operand's index for result index ``i`` and reduction index ``r``."""
    outer, inner = iter(i), iter(r)
    index: list[SymExpr] = []
    for dim in range(rank):
        if dim in axes:
            index.append(next(inner))
            if keep:
                next(outer)
        else:
            index.append(next(outer))
    return tuple(index)


def cast_result(te: TeBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """``value`` with the element type of ``type_``: nothing, or an elementwise conversion."""
    if value.type == type_:
        return value
    element = type_.get_element_type()  # type: ignore[attr-defined]
    return te.compute("cast", type_, lambda e, i: e.cast(e.read(value, i), element))


def reduce_dims(
    te: TeBuilder, x: SSAValue, axes: Sequence[int], combine: str, name: str, function: Function | None = None
) -> SSAValue:
    """Combines ``function(x)`` along ``axes``, which stay as dimensions of size 1, in the accumulator's type."""
    shape = shape_exprs(x.type)
    element = accumulator_type(x.type.element_type)  # type: ignore[attr-defined]
    kept = tuple(as_expr(1) if d in axes else extent for d, extent in enumerate(shape))

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        value = e.cast(e.read(x, input_index(len(shape), axes, True, i, r)), element)
        return value if function is None else function(e, value)

    reduce = [shape[d] for d in axes]
    return te.compute(name, te.type(element, kept), body, reduce, combine)


def count_of(e: ComputeBody, extents: Sequence[SymExpr], type_: Attribute) -> Elem:
    """The number of elements in ``extents``, as a float."""
    count = as_expr(1)
    for extent in extents:
        count = count * extent
    if count.is_const():
        return e.constant(count.const_value(), type_)
    return index_value(e, count, type_)


def index_value(e: ComputeBody, expr: SymExpr, type_: Attribute) -> Elem:
    """An index expression as an element."""
    expr = e.simplified(expr)
    if expr.is_const():
        return e.constant(expr.const_value(), type_)
    value = e.cast(e.index(expr), i64)
    return value if type_ == i64 else e.cast(value, type_)


def lower_reduce(op: Operation, te: TeBuilder) -> SSAValue:
    reduce = cast(ReduceOp, op)
    x, result_type = reduce.input, op.results[0].type
    axes, keep = get_ints(op.properties, "axes"), bool(get_int(op.properties, "keep_dims", 0))
    shape, element = shape_exprs(x.type), x.type.element_type  # type: ignore[attr-defined]
    combine = _COMBINERS[op.name]
    if element == I1:
        combine = {"max": "or", "min": "and"}[combine]
    if not axes:
        return te.compute("copy", result_type, lambda e, i: e.read(x, i))
    wide = accumulator_type(element) if combine in ("sum", "prod") else element

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        return e.cast(e.read(x, input_index(len(shape), axes, keep, i, r)), wide)

    total_type = te.type(wide, shape_exprs(result_type), result_type)
    total = te.compute(op.name.partition(".")[2], total_type, body, [shape[d] for d in axes], combine)
    if op.name == "graph.reduce_mean":
        assert isinstance(wide, AnyFloat)

        def mean(e: ComputeBody, i: Exprs) -> Elem:
            return e.cast(e.read(total, i) / count_of(e, [shape[d] for d in axes], wide), element)

        return te.compute("mean", result_type, mean)
    return cast_result(te, total, result_type)


def lower_arg_reduce(op: Operation, te: TeBuilder) -> SSAValue:
    """``argmax``: a (value, index) pair; the last of equal elements is the first of the reversed dimension."""
    reduce = cast(ArgReduceOp, op)
    x, result_type = reduce.input, op.results[0].type
    axis, keep = get_int(op.properties, "axis", 0), bool(get_int(op.properties, "keep_dims", 0))
    last = bool(get_int(op.properties, "last_index", 0))
    shape, element = shape_exprs(x.type), x.type.element_type  # type: ignore[attr-defined]
    extent = shape[axis]

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> tuple[Elem, Elem]:
        position = extent - 1 - r[0] if last else r[0]
        value = e.read(x, input_index(len(shape), [axis], keep, i, (position,)))
        return value, e.cast(e.index(r[0]), i64)

    value_type = te.type(element, shape_exprs(result_type), result_type)
    name = op.name.partition(".")[2]
    _, index = te.compute_many(name, [value_type, result_type], body, [extent], name)
    if not last:
        return index

    def mirror(e: ComputeBody, i: Exprs) -> Elem:
        return index_value(e, extent - 1, i64) - e.read(index, i)

    return te.compute("last_index", result_type, mirror)


