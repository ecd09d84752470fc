"""Shape arithmetic, evaluated while importing: rules that apply when all inputs are known integers, maybe symbolic.

A rule gives ``None`` when it does not apply; the operator's ordinary rule then emits ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerType, i1, i64

from ...core.symbolic import SymExpr, as_expr, bounds, floordiv, simplify, sym_max, sym_min
from .entries import SYMBOLIC_LIMIT, Entry, object_array, symbolic_entry
from .node import Node
from .tensors import element_type

Array = npt.NDArray[Any]
SymbolicRule = Callable[[Node], Entry | None]


def _known(node: Node) -> list[Array] | None:
    """All inputs as expressions; ``None`` unless each is known and one is symbolic (constants fold elsewhere)."""
    entries = [node.entry(i) for i in range(len(node.proto.input)) if node.has(i)]
    arrays = [e.integers() for e in entries]
    if any(a is None for a in arrays) or all(e.symbolic is None for e in entries):
        return None
    return [a for a in arrays if a is not None]


def _shape(node: Node) -> Entry:
    shape = node.entry(0).shape
    start, end = node.attr("start", 0), node.attr("end", len(shape))
    kept = shape[slice(start, end)]
    return symbolic_entry(object_array(kept, [len(kept)]), i64)


def _size(node: Node) -> Entry:
    total = as_expr(1)
    for dim in node.entry(0).shape:
        total = total * dim
    return symbolic_entry(object_array([total], []), i64)


def _truncating_division(a: SymExpr, b: SymExpr) -> SymExpr:
    """Dimensions are not negative, where rounding to zero is rounding down."""
    return floordiv(a, b)


def _elementwise(function: Callable[[SymExpr, SymExpr], SymExpr]) -> SymbolicRule:
    def rule(node: Node) -> Entry | None:
        known = _known(node)
        if known is None:
            return None
        ranges = node.importer.symbols.ranges()
        result = known[0]
        for other in known[1:]:
            a, b = np.broadcast_arrays(result, other)
            values = [simplify(function(x, y), ranges) for x, y in zip(a.reshape(-1), b.reshape(-1))]
            result = object_array(values, a.shape)
        return symbolic_entry(result, _element(node))

    return rule


def _division(node: Node) -> Entry | None:
    known = _known(node)
    if known is None:
        return None
    ranges = node.importer.symbols.ranges()
    for value in (*known[0].reshape(-1), *known[1].reshape(-1)):
        low, _ = bounds(value, ranges)
        if low is None or low < 0:
            return None
    return _elementwise(_truncating_division)(node)


def _element(node: Node) -> Any:
    return node.entry(0).type.element_type


def _moving(function: Callable[[Node, list[Array]], Array | None]) -> SymbolicRule:
    """A rule that only moves elements of its first input."""

    def rule(node: Node) -> Entry | None:
        known = _known(node)
        if known is None:
            return None
        moved = function(node, known)
        return None if moved is None or moved.size > SYMBOLIC_LIMIT else symbolic_entry(moved, _element(node))

    return rule


def _constant_ints(values: Array) -> list[int] | None:
    flat = [as_expr(v) for v in values.reshape(-1)]
    return [v.const_value() for v in flat] if all(v.is_const() for v in flat) else None


def _gather(node: Node, known: list[Array]) -> Array | None:
    indices = _constant_ints(known[1])
    if indices is None:
        return None
    picks = np.array(indices, np.int64).reshape(known[1].shape)
    axis = node.attr("axis", 0)
    size = known[0].shape[axis]
    if picks.size and (picks.min() < -size or picks.max() >= size):
        return None
    return np.asarray(np.take(known[0], picks, axis=axis), dtype=object)


def _slice(node: Node, known: list[Array]) -> Array | None:
    if node.opset < 10:
        starts, ends = list(node.attr("starts")), list(node.attr("ends"))
        axes, steps = list(node.attr("axes", list(range(len(starts))))), [1] * len(starts)
    else:
        lists = [node.entry(i).integers() if node.has(i) else None for i in range(5)]
        numbers = [None if a is None else _constant_ints(a) for a in lists]
        if numbers[1] is None or numbers[2] is None:
            return None
        starts, ends = numbers[1], numbers[2]
        axes = numbers[3] if numbers[3] is not None else list(range(len(starts)))
        steps = numbers[4] if numbers[4] is not None else [1] * len(starts)
    index: list[slice] = [slice(None)] * known[0].ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        low = end if end >= -known[0].shape[axis] or step > 0 else None
        index[axis] = slice(start, low, step)
    return known[0][tuple(index)]


def _concat(node: Node, known: list[Array]) -> Array:
    return np.concatenate(known, axis=node.attr("axis", 1))


def _axes(node: Node) -> list[int] | None:
    if node.has_attr("axes"):
        return list(node.attr("axes"))
    if not node.has(1):
        return None
    found = node.entry(1).integers()
    return None if found is None else _constant_ints(found)


def _squeeze(node: Node, known: list[Array]) -> Array | None:
    axes = _axes(node)
    return known[0].squeeze() if axes is None else known[0].squeeze(tuple(axes))


def _unsqueeze(node: Node, known: list[Array]) -> Array | None:
    axes = _axes(node)
    return None if axes is None else np.expand_dims(known[0], tuple(axes))


def _reshape(node: Node, known: list[Array]) -> Array | None:
    shape = _constant_ints(known[1]) if len(known) > 1 else list(node.attr("shape"))
    if shape is None or 0 in shape:
        return None
    return known[0].reshape(shape)


def _reduce(function: Callable[[SymExpr, SymExpr], SymExpr], initial: int | None) -> SymbolicRule:
    def rule(node: Node) -> Entry | None:
        known = _known(node)
        if known is None or known[0].ndim != 1 or not known[0].size:
            return None
        total = known[0][0] if initial is None else as_expr(initial)
        for value in known[0][1 if initial is None else 0 :]:
            total = function(total, value)
        shape = [1] if node.attr("keepdims", 1) else []
        return symbolic_entry(object_array([total], shape), _element(node))

    return rule


def _cast(node: Node) -> Entry | None:
    known = _known(node)
    to = element_type(node.attr("to"))
    if known is None or not isinstance(to, IntegerType) or to == i1:
        return None
    return symbolic_entry(known[0], to)


def _equal(node: Node) -> Entry | None:
    """Only decided comparisons: equal expressions, or expressions whose ranges do not meet."""
    known = _known(node)
    if known is None:
        return None
    ranges = node.importer.symbols.ranges()
    a, b = np.broadcast_arrays(known[0], known[1])
    decided: list[bool] = []
    for x, y in zip(a.reshape(-1), b.reshape(-1)):
        low, high = bounds(x - y, ranges)
        if low == high == 0:
            decided.append(True)
        elif (low is not None and low > 0) or (high is not None and high < 0):
            decided.append(False)
        else:
            return None
    return Entry(array=np.array(decided, bool).reshape(a.shape))


def _where(node: Node) -> Entry | None:
    condition = node.entry(0).array
    a, b = node.entry(1).integers(), node.entry(2).integers()
    if condition is None or a is None or b is None:
        return None
    if node.entry(1).symbolic is None and node.entry(2).symbolic is None:
        return None
    return symbolic_entry(np.asarray(np.where(condition, a, b), dtype=object), node.entry(1).type.element_type)


def _expand(node: Node, known: list[Array]) -> Array | None:
    shape = _constant_ints(known[1])
    if shape is None or int(np.prod(shape)) > SYMBOLIC_LIMIT:
        return None
    return np.broadcast_to(known[0], np.broadcast_shapes(known[0].shape, tuple(shape)))


SYMBOLIC_RULES: dict[str, SymbolicRule] = {
    "Shape": _shape,
    "Size": _size,
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _division,
    "Max": _elementwise(lambda a, b: sym_max(a, b)),
    "Min": _elementwise(lambda a, b: sym_min(a, b)),
    "Gather": _moving(_gather),
    "Slice": _moving(_slice),
    "Concat": _moving(_concat),
    "Squeeze": _moving(_squeeze),
    "Unsqueeze": _moving(_unsqueeze),
    "Reshape": _moving(_reshape),
    "Expand": _moving(_expand),
    "ReduceProd": _reduce(lambda a, b: a * b, 1),
    "ReduceSum": _reduce(lambda a, b: a + b, 0),
    "ReduceMax": _reduce(lambda a, b: sym_max(a, b), None),
    "ReduceMin": _reduce(lambda a, b: sym_min(a, b), None),
    "Cast": _cast,
    "Equal": _equal,
    "Where": _where,
}
"""Operator to symbolic rule."""
