"""Pooling: a padded copy where padding is needed, a reduction over the window, for means a division by the count.

``y[n, c, o...] = max over k... of x[n, c, o * stride + k * dilation - pad...]``; padding is the identity of the
combiner, so it never wins. The mean's count is exact: the window positions inside the input (or inside the declared
padding).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.symbolic import SymExpr, as_expr, ceildiv, sym_max, sym_min
from ....dialects.graph.base import get_int, get_ints
from .builder import ComputeBody, TeBuilder
from .conv import Window, pad_window
from .elements import Elem, accumulator_type, lowest
from .reduce import cast_result, index_value

Exprs = tuple[SymExpr, ...]


def _window(op: Operation) -> Window:
    kernel = tuple(as_expr(k) for k in get_ints(op.properties, "kernel"))
    return Window(
        kernel,
        get_ints(op.properties, "strides"),
        get_ints(op.properties, "dilations"),
        get_ints(op.properties, "pads")[: len(kernel)],
    )


def _reduce_window(
    te: TeBuilder, op: Operation, window: Window, element: Attribute, fill: float | int, combine: str
) -> SSAValue:
    x, result_type = op.operands[0], op.results[0].type
    padded = pad_window(te, x, window, shape_exprs(result_type)[2:], fill)

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        return e.cast(e.read(padded, [*i[:2], *window.position(i[2:], r)]), element)

    type_ = te.type(element, shape_exprs(result_type), result_type)
    return te.compute(op.name.partition(".")[2], type_, body, window.kernel, combine)


def lower_max_pool(op: Operation, te: TeBuilder) -> SSAValue:
    element = op.results[0].type.element_type  # type: ignore[attr-defined]
    return _reduce_window(te, op, _window(op), element, lowest(element), "max")


def lower_avg_pool(op: Operation, te: TeBuilder) -> SSAValue:
    window, result_type = _window(op), op.results[0].type
    element = result_type.element_type  # type: ignore[attr-defined]
    wide = accumulator_type(element)
    assert isinstance(wide, AnyFloat)
    total = _reduce_window(te, op, window, wide, 0, "sum")
    counted = _counted_extents(op, window)

    def body(e: ComputeBody, i: Exprs) -> Elem:
        return e.cast(e.read(total, i) / _count(e, i[2:], window, counted, wide), element)

    return cast_result(te, te.compute("mean", result_type, body), result_type)


def _counted_extents(op: Operation, window: Window) -> list[tuple[SymExpr, SymExpr]]:
    """For each spatial dimension the positions that count: from, to (exclusive), in padded coordinates."""
    size = shape_exprs(op.operands[0].type)[2:]
    ends = get_ints(op.properties, "pads")[len(size) :]
    if get_int(op.properties, "count_include_pad", 0):
        return [(as_expr(0), s + b + end) for s, b, end in zip(size, window.begins, ends)]
    return [(as_expr(b), s + b) for s, b in zip(size, window.begins)]


def _count(
    e: ComputeBody,
    o: Exprs,
    window: Window,
    counted: Sequence[tuple[SymExpr, SymExpr]],
    type_: Attribute,
) -> Elem:
    """How many window positions count: ``product of (last - first)`` over the spatial dimensions."""
    known, result = 1, None
    for position, (low, high) in enumerate(counted):
        stride, dilation = window.strides[position], window.dilations[position]
        start = o[position] * stride
        first = ceildiv(sym_max(low - start, 0), dilation)
        last = sym_min(ceildiv(high - start, dilation), window.kernel[position])
        extent = e.simplified(last - first)
        if extent.is_const():
            known *= extent.const_value()
            continue
        factor = index_value(e, extent, type_)
        result = factor if result is None else result * factor
    if result is None:
        return e.constant(known, type_)
    return result if known == 1 else result * known
