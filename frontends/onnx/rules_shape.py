"""ONNX operators that move elements or make tensors: reshapes, slices, padding, generators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...core.symbolic import ExprLike, SymExpr, as_expr, bounds, ceildiv, floordiv, simplify, sym_max, sym_min
from ...dialects.graph import broadcasting as b
from ...dialects.graph import shape as s
from ...dialects.graph.base import broadcast_dims, product
from .entries import Entry
from .errors import ModelError, UnsupportedError
from .node import Array, Node, Result, Rule, shape_of
from .symbols import LIMIT
from .tensors import element_type


def _reshape(node: Node) -> SSAValue:
    shape = node.entry(0).shape
    wanted = [as_expr(v) for v in node.attr("shape")] if node.opset < 5 else node.exprs(1, "a shape")
    if not node.attr("allowzero", 0):
        if any(v == 0 and i >= len(shape) for i, v in enumerate(wanted)):
            raise ModelError("a 0 in the shape copies a dimension that the input does not have")
        wanted = [shape[i] if v == 0 else v for i, v in enumerate(wanted)]
    return node.reshape(node[0], resolve_minus_one(node, shape, wanted))


def resolve_minus_one(node: Node, shape: Sequence[SymExpr], wanted: Sequence[SymExpr]) -> list[SymExpr]:
    """Replaces the one -1 by what is left of the element count."""
    unknown = [i for i, v in enumerate(wanted) if v == -1]
    if not unknown:
        return list(wanted)
    if len(unknown) > 1:
        raise ModelError("the shape has more than one -1")
    rest = product([v for v in wanted if v != -1])
    if rest == 0:
        raise ModelError("a -1 beside a 0 in the shape is ambiguous")
    total = product(shape)
    if total.is_const() and rest.is_const() and total.const_value() % rest.const_value():
        raise ModelError(f"{total} elements do not fill a shape of rows of {rest}")
    value = simplify(floordiv(total, rest), node.importer.symbols.ranges())
    return [value if i == unknown[0] else v for i, v in enumerate(wanted)]


def _flatten(node: Node) -> SSAValue:
    shape = node.entry(0).shape
    axis = node.attr("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return node.reshape(node[0], (product(shape[:axis]), product(shape[axis:])))


def axes_of(node: Node, index: int, rank: int) -> list[int] | None:
    """Axes from the attribute (old opsets) or an input, counted from the front."""
    if node.has_attr("axes"):
        axes = list(node.attr("axes"))
    elif node.has(index):
        axes = node.ints(index, "axes")
    else:
        return None
    for axis in axes:
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} is out of range for rank {rank}")
    return [a % rank for a in axes]


def _squeeze(node: Node) -> SSAValue:
    shape = node.entry(0).shape
    axes = axes_of(node, 1, len(shape))
    if axes is None:
        if not all(d.is_const() for d in shape):
            raise UnsupportedError("squeezing all ones of a symbolic shape")
        axes = [i for i, d in enumerate(shape) if d == 1]
    for axis in axes:
        if shape[axis].is_const() and shape[axis] != 1:
            raise ModelError(f"dimension {axis} of size {shape[axis]} cannot be squeezed")
    return node.reshape(node[0], [d for i, d in enumerate(shape) if i not in axes])


def _unsqueeze(node: Node) -> SSAValue:
    shape = list(node.entry(0).shape)
    count = len(node.attr("axes")) if node.has_attr("axes") else len(node.exprs(1, "axes"))
    axes = axes_of(node, 1, len(shape) + count)
    assert axes is not None
    for axis in sorted(axes):
        shape.insert(axis, as_expr(1))
    return node.reshape(node[0], shape)


def _transpose(node: Node) -> Result:
    rank = node.entry(0).rank
    permutation = list(node.attr("perm", list(reversed(range(rank)))))
    if permutation == list(range(rank)):
        return node.entry(0)
    return node.emit(s.TransposeOp(node[0], permutation))


def _concat(node: Node) -> SSAValue:
    axis = node.attr("axis", 1) % max(node.entry(0).rank, 1)
    values = node.values()
    if len(values) == 1:
        return values[0]
    # Dimensions that must be equal, and are not provably so, are checked at run time.
    for i, dim in enumerate(shape_of(values[0])):
        if i != axis:
            values = [_claim_dim(node, v, i, dim) for v in values]
    return node.emit(s.ConcatOp(values, axis))


def _claim_dim(node: Node, value: SSAValue, index: int, dim: SymExpr) -> SSAValue:
    shape = list(shape_of(value))
    if len(shape) <= index or (shape[index].is_const() and dim.is_const()):
        return value
    shape[index] = dim
    return node.claim(value, shape)


LARGE = (1 << 31) - 1
"""Exporters write this and more for "to the end"."""


def slice_bounds(node: Node, dim: SymExpr, start: SymExpr, end: SymExpr, step: int) -> tuple[SymExpr, SymExpr]:
    """Start and size of a slice by ONNX's (NumPy's) rules: negative positions count from the end, all are clamped."""
    ranges = node.importer.symbols.ranges()

    def place(position: SymExpr, low: ExprLike, high: ExprLike) -> SymExpr:
        least, most = bounds(position, ranges)
        if (most is not None and most < 0) or position == -dim - 1:
            position = position + dim
        elif least is None or least < 0:
            # The quotient is -1 for negative positions and 0 for others.
            position = position - dim * floordiv(position, LIMIT)
        return simplify(sym_min(sym_max(position, low), high), ranges)

    if end.is_const() and end.const_value() >= LARGE:
        end = dim
    if start.is_const() and abs(start.const_value()) >= LARGE:
        start = dim if start.const_value() > 0 else as_expr(0)
    if end.is_const() and end.const_value() <= -LARGE:
        end = -dim - 1
    if step > 0:
        first, last = place(start, 0, dim), place(end, 0, dim)
        size = ceildiv(last - first, step)
    else:
        first, last = place(start, 0, dim - 1), place(end, -1, dim - 1)
        size = ceildiv(first - last, -step)
    return first, simplify(sym_max(size, 0), ranges)


def _slice(node: Node) -> Result:
    shape = node.entry(0).shape
    if node.opset < 10:
        starts, ends = [as_expr(v) for v in node.attr("starts")], [as_expr(v) for v in node.attr("ends")]
        axes, steps = list(node.attr("axes", list(range(len(starts))))), [1] * len(starts)
    else:
        starts, ends = node.exprs(1, "starts"), node.exprs(2, "ends")
        axes = node.ints(3, "axes") if node.has(3) else list(range(len(starts)))
        steps = node.ints(4, "steps") if node.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError("starts, ends, axes and steps differ in length")
    first: list[SymExpr] = [as_expr(0)] * len(shape)
    sizes, strides = list(shape), [1] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step == 0 or not -len(shape) <= axis < len(shape):
            raise ModelError(f"step {step} of axis {axis} is not valid")
        axis %= len(shape)
        first[axis], sizes[axis] = slice_bounds(node, shape[axis], start, end, step)
        strides[axis] = step
    if all(f == 0 for f in first) and tuple(sizes) == shape and all(v == 1 for v in strides):
        return node.entry(0)
    first = [as_expr(0) if size == 0 else f for f, size in zip(first, sizes)]
    return node.emit(s.SliceOp(node[0], first, sizes, strides))


def part(node: Node, value: SSAValue, axis: int, start: ExprLike, size: ExprLike) -> SSAValue:
    """``size`` elements from ``start`` along one dimension."""
    shape = shape_of(value)
    starts: list[ExprLike] = [0] * len(shape)
    sizes: list[ExprLike] = list(shape)
    starts[axis], sizes[axis] = start, size
    return node.emit(s.SliceOp(value, starts, sizes, [1] * len(shape)))


def _split(node: Node) -> list[Result]:
    shape = node.entry(0).shape
    axis = node.attr("axis", 0) % len(shape)
    count = len(node.proto.output)
    if node.has_attr("split"):
        sizes = [as_expr(v) for v in node.attr("split")]
    elif node.has(1):
        sizes = node.exprs(1, "sizes of parts")
    else:
        whole = ceildiv(shape[axis], node.attr("num_outputs", count))
        sizes = [whole] * (count - 1)
        sizes.append(shape[axis] - whole * (count - 1))
    if len(sizes) != count:
        raise ModelError(f"{len(sizes)} sizes for {count} parts")
    total = sum(sizes, start=as_expr(0))
    if total.is_const() and shape[axis].is_const() and total != shape[axis]:
        raise ModelError(f"the parts have {total} elements, the dimension {shape[axis]}")
    results: list[Result] = []
    start = as_expr(0)
    for size in sizes:
        results.append(part(node, node[0], axis, start, size))
        start = start + size
    return results


def _pad(node: Node) -> Result:
    rank = node.entry(0).rank
    mode = node.attr("mode", "constant")
    x = node[0]
    if node.opset < 11:
        amounts = list(node.attr("pads" if node.opset >= 2 else "paddings"))
        value = node.constant(node.attr("value", 0.0), x)
    else:
        amounts = node.ints(1, "amounts of padding")
        value = node.reshape(node[2], ()) if node.has(2) else node.constant(0, x)
    axes = [a % rank for a in node.ints(3, "axes")] if node.has(3) else list(range(rank))
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = amounts[i], amounts[len(axes) + i]
    x = _crop(node, x, low, high)
    low, high = [max(0, v) for v in low], [max(0, v) for v in high]
    if not any(low) and not any(high):
        return x
    return node.emit(s.PadOp(x, value, low, high, mode))


def _crop(node: Node, x: SSAValue, low: Sequence[int], high: Sequence[int]) -> SSAValue:
    """Negative padding cuts off."""
    starts = [max(0, -v) for v in low]
    ends = [max(0, -v) for v in high]
    if not any(starts) and not any(ends):
        return x
    sizes = [d - (a + c) for d, a, c in zip(shape_of(x), starts, ends)]
    return node.emit(s.SliceOp(x, starts, sizes, [1] * len(sizes)))


def _expand(node: Node) -> SSAValue:
    """Broadcasts both ways: a 1 in the wanted shape keeps the dimension."""
    shape, wanted = node.entry(0).shape, node.exprs(1, "a shape")
    rank = max(len(shape), len(wanted))
    left = [as_expr(1)] * (rank - len(shape)) + list(shape)
    right = [as_expr(1)] * (rank - len(wanted)) + wanted
    # A symbolic dimension that is neither 1 nor provably the wanted one is claimed to be, and checked at run time.
    unclear = [1 not in (x, y) and x != y and not (x.is_const() and y.is_const()) for x, y in zip(left, right)]
    left = [y if odd else x for x, y, odd in zip(left, right, unclear)]
    value = node.claim(node[0], left[rank - len(shape) :])
    return node.broadcast(value, [broadcast_dims(x, y) for x, y in zip(left, right)])


def _tile(node: Node) -> SSAValue:
    """[d0, d1] by [r0, r1]: reshape to [1, d0, 1, d1], broadcast to [r0, d0, r1, d1], reshape."""
    shape = node.entry(0).shape
    if node.opset < 6:
        raise UnsupportedError("this version of the operator")
    repeats = node.exprs(1, "repeats")
    spread = [d for dim in shape for d in (as_expr(1), dim)]
    wide = [d for r, dim in zip(repeats, shape) for d in (r, dim)]
    value = node.broadcast(node.reshape(node[0], spread), wide)
    return node.reshape(value, [r * d for r, d in zip(repeats, shape)])


def _constant(node: Node) -> Result:
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64)):  # fmt: skip
        if node.has_attr(name):
            return np.asarray(node.attr(name), dtype)
    if node.has_attr("value"):
        return node.importer.tensor(node.attr("value"))
    raise UnsupportedError("a constant that is no tensor of numbers")


SPLAT_LIMIT = 1024
"""Larger tensors of equal elements are broadcasts, so that neither text nor table holds them."""


def _constant_of_shape(node: Node) -> Result:
    value: Array = np.zeros(1, np.float32)
    if node.has_attr("value"):
        value = node.importer.tensor(node.attr("value"))
    shape = node.exprs(0, "a shape")
    if all(d.is_const() for d in shape):
        sizes = [d.const_value() for d in shape]
        if int(np.prod(sizes, dtype=object)) <= SPLAT_LIMIT:
            return np.full(sizes, value.reshape(-1)[0])
    return node.broadcast(node.constant(value.reshape(-1)[0]), shape)


def _range(node: Node) -> SSAValue:
    """start + delta * [0, 1, ...]; the length is known from constants or symbols."""
    start, limit, delta = (node.entry(i).integers() for i in range(3))
    if start is not None and limit is not None and delta is not None:
        low, high, step = (as_expr(v.reshape(-1)[0]) for v in (start, limit, delta))
        if not step.is_const() or step == 0:
            raise UnsupportedError("a step that is symbolic or 0")
        number = step.const_value()
        length = ceildiv(high - low, number) if number > 0 else ceildiv(low - high, -number)
        length = simplify(sym_max(length, 0), node.importer.symbols.ranges())
    else:
        first, last, size = (float(node.array(i, "bounds").reshape(-1)[0]) for i in range(3))
        length = as_expr(max(0, int(np.ceil((last - first) / size))))
    element = node.entry(0).type.element_type
    ramp = node.emit(s.IotaOp([length], 0, element))
    scaled = node.emit(b.MulOp(ramp, node.reshape(node[2], ())))
    return node.emit(b.AddOp(scaled, node.reshape(node[0], ())))


def _grid(node: Node, shape: Sequence[ExprLike], axis: int) -> SSAValue:
    """Indices along one of the last two dimensions, for masks of matrices."""
    return node.emit(s.IotaOp(list(shape)[-2:], axis, i64))


def _eye_like(node: Node) -> SSAValue:
    shape = node.entry(0).shape
    element = element_type(node.attr("dtype")) if node.has_attr("dtype") else node.entry(0).type.element_type
    shifted = node.emit(b.AddOp(_grid(node, shape, 0), node.constant(np.int64(node.attr("k", 0)))))
    return node.cast(node.emit(b.CompareOp(_grid(node, shape, 1), shifted, "eq")), element)


def _trilu(node: Node) -> SSAValue:
    """Keeps column >= row + k (upper) or column <= row + k (lower)."""
    x = node[0]
    offset = node.reshape(node[1], ()) if node.has(1) else node.constant(np.int64(0))
    shifted = node.emit(b.AddOp(_grid(node, shape_of(x), 0), offset))
    predicate = "ge" if node.attr("upper", 1) else "le"
    kept = node.emit(b.CompareOp(_grid(node, shape_of(x), 1), shifted, predicate))
    return node.emit(b.WhereOp(kept, x, node.constant(0, x)))


def _depth_to_space(node: Node) -> SSAValue:
    x, size = node[0], node.attr("blocksize")
    n, c, h, w = shape_of(x)
    depth = floordiv(c, size * size)
    if node.attr("mode", "DCR") == "DCR":
        split, order = (n, size, size, depth, h, w), [0, 3, 4, 1, 5, 2]
    else:
        split, order = (n, depth, size, size, h, w), [0, 1, 4, 2, 5, 3]
    moved = node.emit(s.TransposeOp(node.reshape(x, split), order))
    return node.reshape(moved, (n, depth, h * size, w * size))


def _space_to_depth(node: Node) -> SSAValue:
    x, size = node[0], node.attr("blocksize")
    n, c, h, w = shape_of(x)
    split = (n, c, floordiv(h, size), size, floordiv(w, size), size)
    order = [0, 3, 5, 1, 2, 4] if node.attr("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    moved = node.emit(s.TransposeOp(node.reshape(x, split), order))
    return node.reshape(moved, (n, c * size * size, floordiv(h, size), floordiv(w, size)))


def _shape(node: Node) -> Entry:
    raise AssertionError("Shape is always known")


SHAPE_RULES: dict[str, Rule] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "Expand": _expand,
    "Tile": _tile,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "EyeLike": _eye_like,
    "Trilu": _trilu,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Shape": _shape,
    "Size": _shape,
}
"""Operator to rule."""
