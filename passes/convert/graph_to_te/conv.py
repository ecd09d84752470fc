"""Convolutions: a padded copy where padding is needed, then ``sum`` over channels of the group and the window.

``y[n, m, o...] = sum over c, k... of x[n, g * C + c, o * stride + k * dilation - pad...] * w[m, c, k...]`` with
``g`` the group of output channel ``m``. The padded copy is a compute of its own, so that the convolution's reads
have no guards; a schedule may still inline it. A transposed convolution is the convolution, with the mirrored
window and stride 1, of its input spread out by the stride.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.symbolic import SymExpr, as_expr
from ....dialects.graph.base import get_ints
from ....dialects.graph.nn import ConvOp, ConvTransposeOp
from .builder import ComputeBody, TeBuilder
from .elements import Elem, accumulator_type
from .reduce import cast_result

Exprs = tuple[SymExpr, ...]


@dataclass(frozen=True)
class Window:
    """The window of one op: one entry per spatial dimension."""

    kernel: Exprs
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]

    def position(self, o: Sequence[SymExpr], k: Sequence[SymExpr]) -> Exprs:
        """The padded input position that output ``o`` sees at window index ``k``."""
        return tuple(o * s + k * d for o, k, s, d in zip(o, k, self.strides, self.dilations))

    def needed(self, output: Sequence[SymExpr]) -> Exprs:
        """The extents of the padded input that the outputs read."""
        return tuple(
            e + 1 for e in self.position([x - 1 for x in output], [x - 1 for x in self.kernel])
        )


def pad_window(
    te: TeBuilder, x: SSAValue, window: Window, output: Sequence[SymExpr], fill: float | int
) -> SSAValue:
    """``x`` with ``fill`` around its spatial dimensions, as far as windows reach; ``x`` itself if they stay inside."""
    shape = shape_exprs(x.type)
    needed = window.needed(output)
    if not any(window.begins) and all(_fits(n, size) for n, size in zip(needed, shape[2:])):
        return x
    element = x.type.element_type  # type: ignore[attr-defined]

    def body(e: ComputeBody, i: Exprs) -> Elem:
        at = [i - begin for i, begin in zip(i[2:], window.begins)]
        return e.read(x, [*i[:2], *at], e.constant(fill, element))

    return te.compute("pad", te.type(element, (*shape[:2], *needed), x), body)


def _fits(needed: SymExpr, size: SymExpr) -> bool:
    """``needed <= size``. Symbolic: ``(n - c) floordiv s * s + c <= n`` holds for each c and s > 0."""
    difference = size - needed
    if difference.is_const():
        return difference.const_value() >= 0
    terms, constant = difference.as_linear()
    # size - needed reads as '(n - c) mod s' there, which is not negative.
    return constant >= 0 and all(c > 0 and t.kind == "mod" for t, c in terms.items())


def lower_conv(op: Operation, te: TeBuilder) -> SSAValue:
    conv = cast(ConvOp, op)
    x, w, rank = conv.input, conv.filter, conv.spatial_rank
    filter_shape = shape_exprs(w.type)
    window = Window(
        filter_shape[2:],
        get_ints(op.properties, "strides"),
        get_ints(op.properties, "dilations"),
        get_ints(op.properties, "pads")[:rank],
    )
    result_type = op.results[0].type
    padded = pad_window(te, x, window, shape_exprs(result_type)[2:], 0)
    per_group = filter_shape[0] // conv.group_count

    def weight(e: ComputeBody, m: SymExpr, r: Exprs) -> Elem:
        return e.read(w, [m, *r])

    return _contract(te, op, padded, window, per_group, filter_shape[1], weight)


def lower_conv_transpose(op: Operation, te: TeBuilder) -> SSAValue:
    conv = cast(ConvTransposeOp, op)
    x, w = conv.input, conv.filter
    filter_shape, groups = shape_exprs(w.type), conv.group_count
    ones = (1,) * conv.spatial_rank
    window = Window(filter_shape[2:], ones, get_ints(op.properties, "dilations"), (0,) * len(ones))
    spread = _spread(te, op, window)
    in_channels = shape_exprs(x.type)[1] // groups

    def weight(e: ComputeBody, m: SymExpr, r: Exprs) -> Elem:
        mirrored = [extent - 1 - k for extent, k in zip(window.kernel, r[1:])]
        channel = m // filter_shape[1] * in_channels + r[0]
        return e.read(w, [channel, m % filter_shape[1], *mirrored])

    return _contract(te, op, spread, window, filter_shape[1], in_channels, weight)


def _spread(te: TeBuilder, op: Operation, window: Window) -> SSAValue:
    """The input with ``stride - 1`` zeros between its elements, and zeros around, as far as the window reaches."""
    x = op.operands[0]
    strides, pads = get_ints(op.properties, "strides"), get_ints(op.properties, "pads")
    shape, element = shape_exprs(x.type), x.type.element_type  # type: ignore[attr-defined]
    needed = window.needed(shape_exprs(op.results[0].type)[2:])
    reach = [(k - 1) * d for k, d in zip(window.kernel, window.dilations)]

    def body(e: ComputeBody, i: Exprs) -> Elem:
        at = [i + begin - r for i, begin, r in zip(i[2:], pads, reach)]
        zero = e.constant(0, element)
        value = e.read(x, [*i[:2], *(p // s for p, s in zip(at, strides))], zero)
        for position, stride in zip(at, strides):
            if stride > 1:
                is_input = e.compare("eq", e.index(position % stride), 0)
                value = e.select(is_input, value, zero)
        return value

    return te.compute("spread", te.type(element, (*shape[:2], *needed), x), body)


def _contract(
    te: TeBuilder,
    op: Operation,
    x: SSAValue,
    window: Window,
    per_group: SymExpr,
    channels: SymExpr,
    weight: Callable[[ComputeBody, SymExpr, Exprs], Elem],
) -> SSAValue:
    result_type = op.results[0].type
    element = accumulator_type(result_type.element_type)  # type: ignore[attr-defined]
    grouped = shape_exprs(x.type)[1] != channels

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        n, m, *o = i
        channel = m // per_group * channels + r[0] if grouped else r[0]
        value = e.read(x, [n, channel, *window.position(o, r[1:])])
        return e.cast(value, element) * e.cast(weight(e, m, r), element)

    total_type = te.type(element, shape_exprs(result_type), result_type)
    total = te.compute("conv", total_type, body, [as_expr(channels), *window.kernel], "sum")
    return cast_result(te, total, result_type)

