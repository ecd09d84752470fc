"""ONNX operators whose indices are data: gathers, scatters, sorting, one-hot; and resizing."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import SSAValue

from ...core.symbolic import SymExpr, as_expr, floordiv
from ...dialects.graph import broadcasting as b
from ...dialects.graph import indexing as x
from ...dialects.graph import shape as s
from ...dialects.graph.base import product
from .errors import ModelError, UnsupportedError
from .node import Node, Result, Rule, is_unsigned, shape_of, type_of


def _axis(node: Node, default: int = 0) -> int:
    rank, axis = node.entry(0).rank, node.attr("axis", default)
    if not -rank <= axis < rank:
        raise ModelError(f"axis {axis} is out of range for rank {rank}")
    return int(axis) % rank


def _gather(node: Node) -> SSAValue:
    return node.emit(x.GatherOp(node[0], node[1], _axis(node)))


def _gather_elements(node: Node) -> SSAValue:
    return node.emit(x.GatherElementsOp(node[0], node[1], _axis(node)))


def _gather_nd(node: Node) -> SSAValue:
    return node.emit(x.GatherNdOp(node[0], node[1], node.attr("batch_dims", 0)))


def _scatter_elements(node: Node) -> SSAValue:
    op = x.ScatterElementsOp(node[0], node[1], node[2], _axis(node), node.attr("reduction", "none"))
    return node.emit(op)


def _scatter_nd(node: Node) -> SSAValue:
    return node.emit(x.ScatterNdOp(node[0], node[1], node[2], node.attr("reduction", "none")))


def _cumsum(node: Node) -> SSAValue:
    axis = node.ints(1, "an axis")[0] % node.entry(0).rank
    flags = bool(node.attr("exclusive", 0)), bool(node.attr("reverse", 0))
    return node.emit(x.CumsumOp(node[0], axis, *flags))


def _topk(node: Node) -> list[Result]:
    k = as_expr(node.attr("k")) if node.opset < 10 else node.exprs(1, "a count")[0]
    op = x.TopKOp(node[0], k, _axis(node, -1), bool(node.attr("largest", 1)))
    node.emit(op)
    return [op.values, op.indices]


def _nonzero(node: Node) -> SSAValue:
    return node.emit(x.NonZeroOp(node[0], node.fresh_symbol("nonzero")))


def _compress(node: Node) -> SSAValue:
    value, axis = node[0], 0
    if node.has_attr("axis"):
        axis = _axis(node)
    else:
        value = node.reshape(value, (product(shape_of(value)),))
    return node.emit(x.CompressOp(value, node[1], axis, node.fresh_symbol("kept")))


def _one_hot(node: Node) -> SSAValue:
    """values[1] where the index (counted from the end if negative) equals the position, else values[0]"""
    indices, depth = node[0], _depth(node)
    rank = len(shape_of(indices))
    axis = node.attr("axis", -1)
    axis = axis + rank + 1 if axis < 0 else axis
    element = type_of(indices).element_type
    if not isinstance(element, IntegerType) or is_unsigned(element):
        indices = node.cast(indices, i64)
    element = type_of(indices).element_type
    size = node.constant(depth, indices)
    negative = node.emit(b.CompareOp(indices, node.constant(0, indices), "lt"))
    wrapped = node.emit(b.WhereOp(negative, node.emit(b.AddOp(indices, size)), indices))
    shape = list(shape_of(indices))
    column = node.reshape(wrapped, [*shape[:axis], 1, *shape[axis:]])
    positions = node.reshape(
        node.emit(s.IotaOp([depth], 0, element)), [depth if i == axis else 1 for i in range(rank + 1)]
    )
    hot = node.emit(b.CompareOp(column, positions, "eq"))
    off, on = (node.reshape(_element(node, node[2], i), ()) for i in (0, 1))
    return node.emit(b.WhereOp(hot, on, off))


def _depth(node: Node) -> int:
    return int(node.array(1, "a depth").reshape(-1)[0])


def _element(node: Node, vector: SSAValue, index: int) -> SSAValue:
    return node.emit(s.SliceOp(vector, [index], [1], [1]))


def _resize(node: Node) -> Result:
    """All versions; in opset 10 coordinates are asymmetric and rounded down."""
    modern = node.opset >= 11
    scales_at, sizes_at = (2, 3) if modern else (1, 9)
    if node.attr("antialias", 0):
        raise UnsupportedError("antialiasing")
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel") if modern else "asymmetric"
    if coordinates not in s.COORDINATES:
        raise UnsupportedError(f"coordinate transformation {coordinates}")
    shape, scales = _resized_shape(node, scales_at, sizes_at)
    if shape == node.entry(0).shape and all(f == 1 for f in scales):
        return node.entry(0)
    return node.emit(
        s.ResizeOp(
            node[0],
            shape,
            node.attr("mode", "nearest").lower(),
            coordinates,
            node.attr("nearest_mode", "round_prefer_floor") if modern else "floor",
            scales,
            node.attr("cubic_coeff_a", -0.75),
            bool(node.attr("exclude_outside", 0)),
        )
    )


def _resized_shape(node: Node, scales_at: int, sizes_at: int) -> tuple[tuple[SymExpr, ...], list[float]]:
    shape = node.entry(0).shape
    axes = [a % len(shape) for a in node.attr("axes", list(range(len(shape))))]
    result = list(shape)
    if node.has(sizes_at) and node.entry(sizes_at).shape[0] != 0:
        sizes = node.exprs(sizes_at, "sizes")
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            return _keep_ratio(node, axes, sizes, policy)
        for axis, size in zip(axes, sizes):
            result[axis] = size
        return tuple(result), []
    factors = [1.0] * len(shape)
    given = node.array(scales_at, "scales").reshape(-1)
    if len(given) != len(axes):
        raise ModelError(f"{len(given)} scales for {len(axes)} dimensions")
    for axis, factor in zip(axes, given):
        factors[axis] = float(factor)
        result[axis] = _scaled(shape[axis], float(factor))
    return tuple(result), factors


def _scaled(size: SymExpr, factor: float) -> SymExpr:
    """floor(size * factor)"""
    if size.is_const():
        return as_expr(int(np.floor(size.const_value() * factor)))
    numerator, denominator = float(factor).as_integer_ratio()
    if denominator > 1 << 12:
        raise UnsupportedError(f"scale {factor} of a symbolic dimension")
    return floordiv(size * numerator, denominator)


def _keep_ratio(
    node: Node, axes: list[int], sizes: list[SymExpr], policy: str
) -> tuple[tuple[SymExpr, ...], list[float]]:
    shape = node.entry(0).shape
    if not all(shape[a].is_const() and v.is_const() for a, v in zip(axes, sizes)):
        raise UnsupportedError("keeping the aspect ratio of symbolic dimensions")
    ratios = [v.const_value() / shape[a].const_value() for a, v in zip(axes, sizes)]
    factor = min(ratios) if policy == "not_larger" else max(ratios)
    result, factors = list(shape), [1.0] * len(shape)
    for axis in axes:
        result[axis] = as_expr(int(np.floor(shape[axis].const_value() * factor + 0.5)))
        factors[axis] = factor
    return tuple(result), factors


def _upsample(node: Node) -> SSAValue:
    """Resize by factors with asymmetric coordinates rounded down."""
    if node.has_attr("scales"):
        factors = [float(v) for v in node.attr("scales")]
    elif node.has_attr("height_scale"):
        factors = [1.0, 1.0, node.attr("height_scale"), node.attr("width_scale")]
    else:
        factors = [float(v) for v in node.array(1, "scales").reshape(-1)]
    shape = [_scaled(d, f) for d, f in zip(node.entry(0).shape, factors)]
    mode = node.attr("mode", "nearest").lower().replace("bilinear", "linear")
    return node.emit(s.ResizeOp(node[0], shape, mode, "asymmetric", "floor", factors))


def _reverse_sequence(node: Node) -> SSAValue:
    """element t of batch b comes from position length[b] - 1 - t while t < length[b], else from t"""
    value, lengths = node[0], node.cast(node[1], i64)
    shape = shape_of(value)
    batch, time = node.attr("batch_axis", 1) % len(shape), node.attr("time_axis", 0) % len(shape)
    column = node.reshape(lengths, [shape[i] if i == batch else 1 for i in range(len(shape))])
    steps = node.emit(s.IotaOp(list(shape), time, i64))
    back = node.emit(b.SubOp(node.emit(b.SubOp(column, node.constant(np.int64(1)))), steps))
    inside = node.emit(b.CompareOp(steps, column, "lt"))
    return node.emit(x.GatherElementsOp(value, node.emit(b.WhereOp(inside, back, steps)), time))


INDEXING_RULES: dict[str, Rule] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "CumSum": _cumsum,
    "TopK": _topk,
    "NonZero": _nonzero,
    "Compress": _compress,
    "OneHot": _one_hot,
    "Resize": _resize,
    "Upsample": _upsample,
    "ReverseSequence": _reverse_sequence,
}
"""Operator to rule."""
