"""Arrays in another physical order: what an index map does to a tensor's elements.

Packed weights and physical layouts are both index maps from a logical index to an index in memory. Maps that split and
permute dimensions (all that schedules and layouts use in practice) are a pad, a reshape and a transpose; any other
map is evaluated over the whole index space.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.attributes import IndexMapAttr
from ..core.symbolic import SymExpr
from .exprs import evaluate_exprs

Array = npt.NDArray[Any]
Digit = tuple[int, int, int]
"""Part of an index: (dimension, stride, extent) stands for ``d floordiv stride mod extent``."""


def pack(array: Array, map: IndexMapAttr, shape: Sequence[int]) -> Array:
    """The array of ``shape`` that holds element i of ``array`` at index ``map(i)``, and zero elsewhere."""
    digits = _as_digits(array.shape, map, shape)
    return _scatter(array, map, shape) if digits is None else _permute(array, digits, shape)


def unpack(array: Array, map: IndexMapAttr, shape: Sequence[int]) -> Array:
    """The inverse: the array of logical ``shape`` whose element i is ``array[map(i)]``."""
    return np.ascontiguousarray(array[_indices(map, shape)])


def _permute(array: Array, digits: Sequence[Digit], shape: Sequence[int]) -> Array:
    """Pad each dimension to the product of its digits, split it, and bring the digits into the order of the results."""
    padding: list[tuple[int, int]] = []
    split: list[int] = []
    axes: dict[tuple[int, int], int] = {}
    for dim, size in enumerate(array.shape):
        own = sorted((d for d in digits if d[0] == dim), key=lambda d: -d[1])
        for digit in own:
            axes[digit[:2]] = len(split)
            split.append(digit[2])
        padding.append((0, prod(digit[2] for digit in own) - size))
    if any(after for _, after in padding):
        array = np.pad(array, padding)
    order = [axes[digit[:2]] for digit in digits]
    return np.ascontiguousarray(array.reshape(split).transpose(order)).reshape(tuple(shape))


def _as_digits(source: Sequence[int], map: IndexMapAttr, shape: Sequence[int]) -> list[Digit] | None:
    """The results as digits of the dimensions, if they are that and every dimension is split without gaps."""
    digits: list[Digit] = []
    for result, extent in zip(map.results, shape):
        if result.is_const() and extent == 1:
            continue
        digit = _digit(result, extent, source)
        if digit is None:
            return None
        digits.append(digit)
    for dim, size in enumerate(source):
        stride = 1
        for _, found, extent in sorted(d for d in digits if d[0] == dim):
            if found != stride:
                return None
            stride *= extent
        if stride < size:
            return None
    return digits


def _digit(result: SymExpr, extent: int, source: Sequence[int]) -> Digit | None:
    """``d1``, ``d1 floordiv s``, ``d1 mod e`` or ``d1 floordiv s mod e`` as a digit."""
    modulus = None
    if result.kind == "mod":
        if not result.args[1].is_const():
            return None
        modulus, result = result.args[1].const_value(), result.args[0]
    stride = 1
    if result.kind == "floordiv":
        if not result.args[1].is_const():
            return None
        stride, result = result.args[1].const_value(), result.args[0]
    if result.kind != "sym" or stride < 1:
        return None
    dim = int(result.name[1:])
    if modulus is None:
        return (dim, stride, extent) if extent * stride >= source[dim] else None
    return (dim, stride, modulus) if modulus == extent else None


def _scatter(array: Array, map: IndexMapAttr, shape: Sequence[int]) -> Array:
    packed = np.zeros(tuple(shape), array.dtype)
    packed[_indices(map, array.shape)] = array
    return packed


def _indices(map: IndexMapAttr, shape: Sequence[int]) -> tuple[Array, ...]:
    """The results of a map over a whole index space, as arrays that broadcast."""
    grid = np.ogrid[tuple(slice(size) for size in shape)] if len(shape) else ()
    values = {f"d{dim}": index for dim, index in enumerate(grid)}
    results = evaluate_exprs(map.results, values)
    return tuple(np.broadcast_to(np.asarray(result, np.int64), tuple(shape)) for result in results)
