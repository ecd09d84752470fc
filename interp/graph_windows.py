"""NumPy meaning of convolution, pooling and normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation

from ..dialects.graph.base import get_int, get_ints
from .interpreter import ValueFunction

Array = npt.NDArray[Any]
Ints = Sequence[int]


def _float32(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _windows(x: Array, kernel: Ints, strides: Ints, dilations: Ints, extents: Ints) -> Array:
    """A view ``N x C x extents... x kernel...`` of the (already padded) ``N x C x S...``."""
    step = x.strides
    strided = [step[2 + i] * s for i, s in enumerate(strides)]
    dilated = [step[2 + i] * d for i, d in enumerate(dilations)]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *extents, *kernel), (*step[:2], *strided, *dilated), writeable=False
    )


def _pad(x: Array, low: Ints, high: Ints, value: Any) -> Array:
    if not any(low) and not any(high):
        return np.ascontiguousarray(x)
    return np.pad(x, [(0, 0), (0, 0), *zip(low, high)], constant_values=value)


def _conv(op: Operation, x: Array, w: Array) -> Array:
    """im2col and one matrix product per group."""
    strides, pads, dilations = (get_ints(op.properties, k) for k in ("strides", "pads", "dilations"))
    groups, rank = get_int(op.properties, "groups", 1), x.ndim - 2
    dtype, kernel = x.dtype, w.shape[2:]
    padded = _pad(_float32(x), pads[:rank], pads[rank:], 0)
    extents = [(size - (k - 1) * d - 1) // s + 1 for size, k, d, s in zip(padded.shape[2:], kernel, dilations, strides)]
    view = _windows(padded, kernel, strides, dilations, extents)
    batch, per_group = x.shape[0], x.shape[1] // groups
    # N C O... K... -> N g (C/g K...) (O...)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    columns = view.transpose(order).reshape(batch, groups, per_group * math.prod(kernel), math.prod(extents))
    filters = _float32(w).reshape(groups, w.shape[0] // groups, -1)
    return (filters @ columns).reshape(batch, w.shape[0], *extents).astype(dtype, copy=False)


def _conv_transpose(op: Operation, x: Array, w: Array) -> Array:
    """Adds the product for each kernel position to a strided part of the full output, then cuts off the padding."""
    strides, pads, dilations, extra = (
        get_ints(op.properties, k) for k in ("strides", "pads", "dilations", "output_padding")
    )
    groups, rank, dtype = get_int(op.properties, "groups", 1), x.ndim - 2, x.dtype
    batch, channels, *sizes = x.shape
    kernel, per_group = w.shape[2:], w.shape[1]
    full = [(n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in zip(sizes, strides, kernel, dilations, extra)]
    columns = _float32(x).reshape(batch, groups, channels // groups, -1)
    filters = _float32(w).reshape(groups, channels // groups, per_group, *kernel)
    result = np.zeros((batch, groups, per_group, *full), columns.dtype)
    for position in product(*map(range, kernel)):
        index: Any = (slice(None), slice(None), slice(None), *position)
        part = filters[index].transpose(0, 2, 1) @ columns
        steps = zip(position, dilations, sizes, strides)
        where = [slice(p * d, p * d + (n - 1) * s + 1, s) for p, d, n, s in steps]
        index = (..., *where)
        result[index] += part.reshape(batch, groups, per_group, *sizes)
    result = result.reshape(batch, groups * per_group, *full)
    kept: Any = (..., *(slice(pads[i], full[i] - pads[rank + i]) for i in range(rank)))
    return np.asarray(result[kept]).astype(dtype)


def _pool_geometry(op: Operation, x: Array) -> tuple[list[int], list[int]]:
    """Output extents, and the end padding that covers the last windows."""
    kernel, strides, pads, dilations = (get_ints(op.properties, k) for k in ("kernel", "strides", "pads", "dilations"))
    rank, ceil = x.ndim - 2, get_int(op.properties, "ceil_mode", 0)
    extents, high = [], []
    for i, size in enumerate(x.shape[2:]):
        reach = (kernel[i] - 1) * dilations[i] + 1
        room = size + pads[i] + pads[rank + i] - reach
        extent = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        if ceil:
            extent = min(extent, (size + pads[i] - 1) // strides[i] + 1)
        extents.append(extent)
        high.append(max(0, (extent - 1) * strides[i] + reach - size - pads[i]))
    return extents, high


def _pool_view(op: Operation, x: Array, fill: Any) -> Array:
    kernel, strides, pads, dilations = (get_ints(op.properties, k) for k in ("kernel", "strides", "pads", "dilations"))
    extents, high = _pool_geometry(op, x)
    padded = _pad(x, pads[: x.ndim - 2], high, fill)
    return _windows(padded, kernel, strides, dilations, extents)


def _max_pool(op: Operation, x: Array) -> Array:
    fill = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    return cast(Array, _pool_view(op, x, fill).max(axis=tuple(range(x.ndim, 2 * x.ndim - 2))))


def _avg_pool(op: Operation, x: Array) -> Array:
    axes = tuple(range(x.ndim, 2 * x.ndim - 2))
    rank, pads = x.ndim - 2, get_ints(op.properties, "pads")
    total = _pool_view(op, _float32(x), 0).sum(axis=axes)
    counted = np.ones((1, 1, *x.shape[2:]), total.dtype)
    if get_int(op.properties, "count_include_pad", 0):
        # The padding counts; what ceil_mode adds beyond it does not. A window sees padded input on both sides.
        counted = _padded_ones(op, x, pads, rank)
        strides, dilations, kernel = (get_ints(op.properties, k) for k in ("strides", "dilations", "kernel"))
        extents = _pool_geometry(op, x)[0]
        count = _windows(counted.astype(total.dtype), kernel, strides, dilations, extents).sum(axis=axes)
    else:
        count = _pool_view(op, counted, 0).sum(axis=axes)
    with np.errstate(all="ignore"):
        return cast(Array, (total / count).astype(x.dtype))


def _padded_ones(op: Operation, x: Array, pads: Ints, rank: int) -> Array:
    high = _pool_geometry(op, x)[1]
    inside = np.ones((1, 1, *(n + pads[i] + pads[rank + i] for i, n in enumerate(x.shape[2:]))))
    return _pad(inside, [0] * rank, [max(0, high[i] - pads[rank + i]) for i in range(rank)], 0)


def _softmax(op: Operation, x: Array) -> Array:
    axis = get_int(op.properties, "axis", 0)
    with np.errstate(all="ignore"):
        e = np.exp(_float32(x) - _float32(x).max(axis=axis, keepdims=True, initial=-np.inf))
        return cast(Array, (e / e.sum(axis=axis, keepdims=True)).astype(x.dtype))


def _log_softmax(op: Operation, x: Array) -> Array:
    axis = get_int(op.properties, "axis", 0)
    with np.errstate(all="ignore"):
        shifted = _float32(x) - _float32(x).max(axis=axis, keepdims=True, initial=-np.inf)
        return cast(Array, (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(x.dtype))


def number_property(op: Operation, name: str) -> float:
    """The value of a float property."""
    return float(cast(FloatAttr[Any], op.properties[name]).value.data)


def _lrn(op: Operation, x: Array) -> Array:
    size = get_int(op.properties, "size", 1)
    square = np.square(_float32(x))
    padding = [(0, 0)] * x.ndim
    padding[1] = ((size - 1) // 2, size // 2)
    padded = np.pad(square, padding)
    total = sum(padded[:, i : i + x.shape[1]] for i in range(size))
    base = number_property(op, "bias") + number_property(op, "alpha") / size * total
    return cast(Array, (x / base ** number_property(op, "beta")).astype(x.dtype))


def _batch_norm(op: Operation, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    factor = _float32(scale) / np.sqrt(_float32(variance) + np.float32(number_property(op, "epsilon")))
    centred = _float32(x) - _float32(mean).reshape(shape)
    return (centred * factor.reshape(shape) + _float32(bias).reshape(shape)).astype(x.dtype)


def _normalize(op: Operation, x: Array) -> Array:
    axes, wide = get_ints(op.properties, "axes"), _float32(x)
    centred = wide - wide.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    return cast(Array, (centred / np.sqrt(variance + wide.dtype.type(number_property(op, "epsilon")))).astype(x.dtype))


WINDOW_OPS: dict[str, ValueFunction] = {
    "graph.conv": _conv,
    "graph.conv_transpose": _conv_transpose,
    "graph.max_pool": _max_pool,
    "graph.avg_pool": _avg_pool,
    "graph.softmax": _softmax,
    "graph.log_softmax": _log_softmax,
    "graph.lrn": _lrn,
    "graph.batch_norm": _batch_norm,
    "graph.normalize": _normalize,
}
"""Value functions of windowed and normalising ops."""
