"""Resizing: small tables of positions and weights per dimension, then gathers (nearest) or weighted sums.

Positions are computed in double precision once per result index of a dimension. Scaling up by a whole factor needs no
table: the nearest element of result index ``o`` is ``o floordiv factor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.symbolic import SymExpr
from ....dialects.graph.base import get_int
from .builder import ComputeBody, TeBuilder
from .elements import Elem, accumulator_type, highest, is_float, lowest
from .reduce import index_value

Exprs = tuple[SymExpr, ...]
WIDE = Float64Type()


def _text(op: Operation, name: str) -> str:
    return cast(StringAttr, op.properties[name]).data


def _factors(op: Operation) -> list[float]:
    return [float(v) for v in cast(Any, op.properties["scales"]).iter_values()]


def lower_resize(op: Operation, te: TeBuilder) -> SSAValue:
    """Each dimension that changes on its own, the first one first; nearest: all at once."""
    x, factors = op.operands[0], _factors(op)
    before, after = shape_exprs(x.type), shape_exprs(op.results[0].type)
    changed = [
        axis
        for axis, (a, b) in enumerate(zip(before, after))
        if a != b or (factors and factors[axis] != 1)
    ]
    if _text(op, "mode") == "nearest":
        return _nearest(op, te, changed)
    element = x.type.element_type  # type: ignore[attr-defined]
    wide = accumulator_type(element) if is_float(element) else Float32Type()
    for axis in changed:
        x = _interpolate(op, te, x, axis, wide)
    return te.compute("resize", op.results[0].type, lambda e, i: _narrow(e, e.read(x, i), element))


def _narrow(e: ComputeBody, value: Elem, type_: Attribute) -> Elem:
    """Back to the operand's type; integers saturate and round to zero."""
    if not is_float(type_) and is_float(value.type):
        value = e.min(e.max(value, float(lowest(type_))), float(highest(type_)))
    return e.cast(value, type_)


def _nearest(op: Operation, te: TeBuilder, changed: Sequence[int]) -> SSAValue:
    x = op.operands[0]
    before = shape_exprs(x.type)
    factors = {axis: _whole_factor(op, axis) for axis in changed}
    tables = {axis: _nearest_table(op, te, axis) for axis in changed if factors[axis] is None}

    def body(e: ComputeBody, i: Exprs) -> Elem:
        at = list(i)
        for axis in changed:
            factor = factors[axis]
            if factor is not None:
                at[axis] = i[axis] // factor
            else:
                at[axis] = e.data_index(e.read(tables[axis], [i[axis]]), before[axis])
        return e.read(x, at)

    return te.compute("resize", op.results[0].type, body)


def _whole_factor(op: Operation, axis: int) -> int | None:
    """The factor s, when the nearest element of result index ``o`` is ``o floordiv s``."""
    size, extent = (shape_exprs(v.type)[axis] for v in (op.operands[0], op.results[0]))
    factors = _factors(op)
    if not size.is_const() or not extent.is_const() or size == 0 or extent.const_value() % size.const_value():
        return None
    factor = extent.const_value() // size.const_value()
    if factors and factors[axis] != factor:
        return None
    coordinates, rounding = _text(op, "coordinates"), _text(op, "rounding")
    if coordinates == "asymmetric":
        return factor if rounding == "floor" else None
    half_pixel = coordinates in ("half_pixel", "half_pixel_symmetric") or (
        coordinates == "pytorch_half_pixel" and extent != 1
    )
    return factor if half_pixel and rounding.startswith("round_prefer") else None


def _nearest_table(op: Operation, te: TeBuilder, axis: int) -> SSAValue:
    size, extent = (shape_exprs(v.type)[axis] for v in (op.operands[0], op.results[0]))
    rounding = _text(op, "rounding")

    def body(e: ComputeBody, i: Exprs) -> Elem:
        x = _position(e, op, axis, i[0])
        if rounding == "round_prefer_floor":
            x = e.unary("ceil", x - 0.5)
        elif rounding == "round_prefer_ceil":
            x = e.unary("floor", x + 0.5)
        else:
            x = e.unary(rounding, x)
        return _clamped(e, x, size)

    return te.compute("nearest", te.type(i64, [extent]), body)


def _clamped(e: ComputeBody, x: Elem, size: SymExpr) -> Elem:
    """A whole number as an index inside ``size``."""
    last = index_value(e, size - 1, WIDE)
    return e.cast(e.min(e.max(x, 0.0), last), i64)


def _position(e: ComputeBody, op: Operation, axis: int, o: SymExpr) -> Elem:
    """Where result index ``o`` lies in the operand, as ``coordinates`` says."""
    size, extent = (shape_exprs(v.type)[axis] for v in (op.operands[0], op.results[0]))
    factors, coordinates = _factors(op), _text(op, "coordinates")
    i, n, m = (index_value(e, expr, WIDE) for expr in (o, size, extent))
    scale = e.constant(factors[axis], WIDE) if factors else m / n
    if coordinates == "asymmetric":
        return i / scale
    one_element = e.compare("eq", m, 1)
    if coordinates == "align_corners":
        # The length that the factor asks for, before it was rounded down to the extent.
        return e.select(one_element, i, i * ((n - 1) / (scale * n - 1)))
    half = (i + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        return half + n / 2 * (1 - m / (scale * n))
    return e.select(one_element, 0, half) if coordinates == "pytorch_half_pixel" else half


def _interpolate(op: Operation, te: TeBuilder, x: SSAValue, axis: int, wide: Attribute) -> SSAValue:
    """``sum over taps of weight[o, tap] * x[..., index[o, tap], ...]`` along one dimension."""
    size, extent = (shape_exprs(v.type)[axis] for v in (op.operands[0], op.results[0]))
    taps = 2 if _text(op, "mode") == "linear" else 4

    def index(e: ComputeBody, i: Exprs) -> Elem:
        base = e.unary("floor", _position(e, op, axis, i[0]))
        offset = index_value(e, i[1] + (1 - taps // 2), WIDE)
        return _clamped(e, base + offset, size)

    indices = te.compute("taps", te.type(i64, [extent, taps]), index)
    weights = te.compute(
        "weights", te.type(wide, [extent, taps]), lambda e, i: e.cast(_weight(e, op, axis, i, taps), wide)
    )
    shape = list(shape_exprs(x.type))
    shape[axis] = extent

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        at = e.data_index(e.read(indices, [i[axis], r[0]]), size)
        value = e.cast(e.read(x, [*i[:axis], at, *i[axis + 1 :]]), wide)
        return value * e.read(weights, [i[axis], r[0]])

    return te.compute("interpolate", te.type(wide, shape), body, [taps], "sum")


def _weight(e: ComputeBody, op: Operation, axis: int, i: Exprs, taps: int) -> Elem:
    position = _position(e, op, axis, i[0])
    base = e.unary("floor", position)
    ratio = position - base
    if taps == 2:
        return e.select(e.compare("eq", e.index(i[1]), 0), 1 - ratio, ratio)
    if not get_int(op.properties, "exclude_outside", 0):
        return _select_tap(e, i[1], _cubic_weights(e, op, ratio))
    size = index_value(e, shape_exprs(op.operands[0].type)[axis], WIDE)
    weights = [
        e.select((base + (tap - 1.0) >= 0.0) & (base + (tap - 1.0) < size), weight, 0)
        for tap, weight in enumerate(_cubic_weights(e, op, ratio))
    ]
    total = weights[0] + weights[1] + weights[2] + weights[3]
    return _select_tap(e, i[1], weights) / total


def _select_tap(e: ComputeBody, tap: SymExpr, weights: Sequence[Elem]) -> Elem:
    result = weights[-1]
    for position, weight in enumerate(weights[:-1]):
        result = e.select(e.compare("eq", e.index(tap), position), weight, result)
    return result


def _cubic_weights(e: ComputeBody, op: Operation, t: Elem) -> list[Elem]:
    """Keys' kernel at distances 1 + t, t, 1 - t, 2 - t."""
    a = float(cast(FloatAttr, op.properties["cubic_a"]).value.data)

    def near(d: Elem) -> Elem:
        return (d * (a + 2) - (a + 3)) * d * d + 1

    def far(d: Elem) -> Elem:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
