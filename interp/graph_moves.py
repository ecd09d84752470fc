"""NumPy meaning of ops that move elements; those whose shapes may be symbolic are in ``graph_structure``."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ..core.diagnostics import emit_error
from ..dialects.graph.base import get_int, get_ints
from .interpreter import ValueFunction

Array = npt.NDArray[Any]


def _transpose(op: Operation, x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(get_ints(op.properties, "permutation")))


def _concat(op: Operation, *arrays: Array) -> Array:
    return np.concatenate(arrays, axis=get_int(op.properties, "axis", 0))


def _pad(op: Operation, x: Array, value: Array) -> Array:
    amounts = list(zip(get_ints(op.properties, "low"), get_ints(op.properties, "high")))
    mode = cast(StringAttr, op.properties["mode"]).data
    if mode == "constant":
        return np.pad(x, amounts, constant_values=value.item())
    return np.pad(x, amounts, mode=cast(Any, mode))


def checked_indices(op: Operation, indices: Array, size: int) -> Array:
    """Indices counted from the front; an index out of range is a diagnostic."""
    wrong = indices[(indices < -size) | (indices >= size)]
    if wrong.size:
        emit_error(op, f"index {wrong.flat[0]} is out of range for dimension of size {size}")
    return np.where(indices < 0, indices + size, indices)


def _gather(op: Operation, data: Array, indices: Array) -> Array:
    axis = get_int(op.properties, "axis", 0)
    return np.take(data, checked_indices(op, indices, data.shape[axis]), axis=axis)


def _elementwise_index(op: Operation, indices: Array, size: int, axis: int) -> tuple[Array, ...]:
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = checked_indices(op, indices, size)
    return tuple(grid)


def _gather_elements(op: Operation, data: Array, indices: Array) -> Array:
    axis = get_int(op.properties, "axis", 0)
    return data[_elementwise_index(op, indices, data.shape[axis], axis)]


def _tuple_index(op: Operation, shape: tuple[int, ...], indices: Array) -> tuple[Array, ...]:
    return tuple(checked_indices(op, indices[..., k], shape[k]) for k in range(indices.shape[-1]))


def _gather_nd(op: Operation, data: Array, indices: Array) -> Array:
    batch = get_int(op.properties, "batch_dims", 0)
    lead = data.shape[:batch]
    rows = data.reshape(-1, *data.shape[batch:]) if batch else data[None]
    picks = indices.reshape(rows.shape[0], *indices.shape[batch:])
    parts = [row[_tuple_index(op, row.shape, pick)] for row, pick in zip(rows, picks)]
    if not parts:
        return np.zeros((*indices.shape[:-1], *data.shape[batch + indices.shape[-1] :]), data.dtype)
    return np.stack(parts).reshape(*lead, *parts[0].shape)


def _combine(op: Operation, result: Array, where: tuple[Array, ...], updates: Array) -> Array:
    reduction = cast(StringAttr, op.properties["reduction"]).data
    if reduction == "none":
        result[where] = updates
        return result
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    functions[reduction].at(result, where, updates)
    return result


def _scatter_elements(op: Operation, data: Array, indices: Array, updates: Array) -> Array:
    axis = get_int(op.properties, "axis", 0)
    return _combine(op, data.copy(), _elementwise_index(op, indices, data.shape[axis], axis), updates)


def _scatter_nd(op: Operation, data: Array, indices: Array, updates: Array) -> Array:
    return _combine(op, data.copy(), _tuple_index(op, data.shape, indices), updates)


def _cumsum(op: Operation, x: Array) -> Array:
    axis = get_int(op.properties, "axis", 0)
    if get_int(op.properties, "reverse", 0):
        x = np.flip(x, axis)
    total = np.cumsum(x, axis=axis, dtype=x.dtype)
    if get_int(op.properties, "exclusive", 0):
        total = total - x
    return np.ascontiguousarray(np.flip(total, axis) if get_int(op.properties, "reverse", 0) else total)


MOVE_OPS: dict[str, ValueFunction] = {
    "graph.transpose": _transpose,
    "graph.concat": _concat,
    "graph.pad": _pad,
    "graph.gather": _gather,
    "graph.gather_elements": _gather_elements,
    "graph.gather_nd": _gather_nd,
    "graph.scatter_elements": _scatter_elements,
    "graph.scatter_nd": _scatter_nd,
    "graph.cumsum": _cumsum,
    "graph.relayout": lambda op, x: x,
}
"""Value functions of moves with known shapes."""
