"""NumPy meaning of ``graph.resize``: one small interpolation matrix, or index list, per resized dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ..dialects.graph.base import get_int
from .graph_windows import number_property

Array = npt.NDArray[Any]


def resize(op: Operation, x: Array, shape: Sequence[int]) -> Array:
    """``x`` interpolated to ``shape`` by the properties of ``op``."""
    mode = _text(op, "mode")
    factors: list[float] = list(cast(Any, op.properties["scales"]).iter_values())
    result = x if mode == "nearest" else _widen(x)
    for axis, (size, extent) in enumerate(zip(x.shape, shape)):
        scale = factors[axis] if factors else extent / size
        if size == extent and scale == 1:
            continue
        positions = _positions(_text(op, "coordinates"), size, extent, scale)
        if mode == "nearest":
            picks = np.clip(_round(_text(op, "rounding"), positions), 0, size - 1)
            result = np.take(result, picks.astype(np.int64), axis=axis)
            continue
        weights = _matrix(op, mode, positions, size).astype(result.dtype)
        result = np.moveaxis(np.tensordot(weights, result, axes=(1, axis)), 0, axis)
    if x.dtype.kind in "iu" and mode != "nearest":
        limits = np.iinfo(x.dtype)
        result = np.clip(np.trunc(result), limits.min, limits.max)
    return np.ascontiguousarray(result).astype(x.dtype, copy=False)


def _text(op: Operation, name: str) -> str:
    return cast(StringAttr, op.properties[name]).data


def _widen(x: Array) -> Array:
    return x if x.dtype.kind == "f" and x.dtype.itemsize > 2 else x.astype(np.float32)


def _positions(coordinates: str, size: int, extent: int, scale: float) -> Array:
    i = np.arange(extent, dtype=np.float64)
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "align_corners":
        # The length that the factor asks for, before it was rounded down to the extent.
        return i * ((size - 1) / (scale * size - 1)) if extent > 1 else i
    if coordinates == "pytorch_half_pixel" and extent == 1:
        return i * 0
    half = (i + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        return half + size / 2 * (1 - extent / (scale * size))
    return half


def _round(rounding: str, x: Array) -> Array:
    if rounding == "round_prefer_floor":
        return np.ceil(x - 0.5)
    if rounding == "round_prefer_ceil":
        return np.floor(x + 0.5)
    return np.floor(x) if rounding == "floor" else np.ceil(x)


def _matrix(op: Operation, mode: str, positions: Array, size: int) -> Array:
    """Row i holds the weights of the operand's elements in result element i; the border repeats."""
    base = np.floor(positions)
    ratio = positions - base
    if mode == "linear":
        first, weights = 0, [1 - ratio, ratio]
    else:
        first, weights = -1, _cubic(ratio, number_property(op, "cubic_a"))
    matrix = np.zeros((len(positions), size))
    exclude = mode == "cubic" and bool(get_int(op.properties, "exclude_outside", 0))
    for offset, weight in enumerate(weights, first):
        index = (base + offset).astype(np.int64)
        inside = (index >= 0) & (index < size)
        value = np.where(inside, weight, 0) if exclude else weight
        np.add.at(matrix, (np.arange(len(positions)), np.clip(index, 0, size - 1)), value)
    return matrix / matrix.sum(axis=1, keepdims=True) if exclude else matrix


def _cubic(t: Array, a: float) -> list[Array]:
    """Keys' kernel at distances 1 + t, t, 1 - t, 2 - t."""

    def near(d: Array) -> Array:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Array) -> Array:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]
