"""ONNX convolutions, pooling, normalisation, softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import SSAValue

from ...core.symbolic import ExprLike, SymExpr, as_expr, ceildiv
from ...dialects.graph import broadcasting as b
from ...dialects.graph import elementwise as e
from ...dialects.graph import nn, reduce
from ...dialects.graph.base import product
from ...dialects.graph.shape import IotaOp
from .errors import ModelError, UnsupportedError
from .node import Node, Result, Rule, shape_of, type_of


def window(node: Node, kernel: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Strides, pads and dilations; ``auto_pad`` resolved."""
    rank = len(kernel)
    strides = list(node.attr("strides", [1] * rank))
    dilations = list(node.attr("dilations", [1] * rank))
    pads = list(node.attr("pads", [0] * 2 * rank))
    mode = node.attr("auto_pad", "NOTSET")
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise ModelError(f"strides, dilations or pads do not have {rank} spatial dimensions")
    if mode in ("NOTSET", ""):
        return strides, pads, dilations
    if mode == "VALID":
        return strides, [0] * 2 * rank, dilations
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"auto_pad '{mode}' does not exist")
    low, high = [], []
    for i, size in enumerate(node.entry(0).shape[2:]):
        total = _same_padding(size, kernel[i], strides[i], dilations[i])
        small, large = total // 2, total - total // 2
        low.append(small if mode == "SAME_UPPER" else large)
        high.append(large if mode == "SAME_UPPER" else small)
    return strides, low + high, dilations


def _same_padding(size: SymExpr, kernel: int, stride: int, dilation: int) -> int:
    """Total padding that makes the output ``ceildiv(size, stride)`` long."""
    reach = (kernel - 1) * dilation + 1
    if stride == 1:
        return reach - 1
    if not size.is_const():
        raise UnsupportedError("auto_pad with strides over a symbolic dimension")
    number = size.const_value()
    return max(0, (ceildiv(number, stride).const_value() - 1) * stride + reach - number)


def add_channel_bias(node: Node, x: SSAValue, bias: SSAValue | None) -> SSAValue:
    """x + bias, the bias along dimension 1"""
    if bias is None:
        return x
    rank = len(shape_of(x))
    return node.emit(b.AddOp(x, node.reshape(bias, (shape_of(bias)[0], *[1] * (rank - 2)))))


def static_kernel(node: Node, filter_shape: Sequence[SymExpr]) -> list[int]:
    kernel = filter_shape[2:]
    if not all(k.is_const() for k in kernel):
        raise UnsupportedError("a filter of unknown size")
    sizes = [k.const_value() for k in kernel]
    given = node.attr("kernel_shape", sizes)
    if list(given) != sizes:
        raise ModelError(f"kernel_shape is {list(given)}, but the filter has {sizes}")
    return sizes


def _conv(node: Node) -> SSAValue:
    strides, pads, dilations = window(node, static_kernel(node, node.entry(1).shape))
    result = node.emit(nn.ConvOp(node[0], node[1], strides, pads, dilations, node.attr("group", 1)))
    return add_channel_bias(node, result, node.optional(2))


def _conv_transpose(node: Node) -> SSAValue:
    kernel = static_kernel(node, node.entry(1).shape)
    rank = len(kernel)
    strides, dilations = list(node.attr("strides", [1] * rank)), list(node.attr("dilations", [1] * rank))
    extra = list(node.attr("output_padding", [0] * rank))
    pads = list(node.attr("pads", [0] * 2 * rank))
    mode = node.attr("auto_pad", "NOTSET")
    shape = node.attr("output_shape", [])
    if len(shape) or mode in ("SAME_UPPER", "SAME_LOWER"):
        sizes = node.entry(0).shape[2:]
        totals = []
        for i, size in enumerate(sizes):
            wanted = as_expr(shape[-rank:][i]) if len(shape) else size * strides[i]
            total = (size - 1) * strides[i] + extra[i] + (kernel[i] - 1) * dilations[i] + 1 - wanted
            if not total.is_const():
                raise UnsupportedError("an output shape over a symbolic dimension")
            totals.append(total.const_value())
        # A negative total lengthens the output at its end.
        extra = [x + max(0, -t) for x, t in zip(extra, totals)]
        totals = [max(0, t) for t in totals]
        small = [t // 2 for t in totals]
        large = [t - s for t, s in zip(totals, small)]
        pads = small + large if mode == "SAME_UPPER" else large + small
    elif mode == "VALID":
        pads = [0] * 2 * rank
    op = nn.ConvTransposeOp(node[0], node[1], strides, pads, dilations, extra, node.attr("group", 1))
    return add_channel_bias(node, node.emit(op), node.optional(2))


def _max_pool(node: Node) -> SSAValue:
    kernel = list(node.attr("kernel_shape"))
    strides, pads, dilations = window(node, kernel)
    if len(node.proto.output) > 1 and node.proto.output[1]:
        raise UnsupportedError("output 1 (indices)")
    return node.emit(nn.MaxPoolOp(node[0], kernel, strides, pads, dilations, bool(node.attr("ceil_mode", 0))))


def _average_pool(node: Node) -> SSAValue:
    kernel = list(node.attr("kernel_shape"))
    strides, pads, dilations = window(node, kernel)
    return node.emit(_avg_pool(node, node[0], kernel, strides, pads, dilations, node.attr("count_include_pad", 0)))


def _avg_pool(
    node: Node,
    x: SSAValue,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    include: int,
) -> nn.AvgPoolOp:
    ceil = bool(node.attr("ceil_mode", 0))
    return nn.AvgPoolOp(x, kernel, strides, pads, dilations, ceil, count_include_pad=bool(include))


def _power(node: Node, x: SSAValue, p: float) -> SSAValue:
    if p == 1:
        return x
    return node.emit(b.MulOp(x, x)) if p == 2 else node.emit(b.PowOp(x, node.constant(p, x)))


def _lp_pool(node: Node) -> SSAValue:
    """(mean of |x| ** p over the window * window size) ** (1 / p)"""
    kernel, p = list(node.attr("kernel_shape")), float(node.attr("p", 2))
    strides, pads, dilations = window(node, kernel)
    powered = _power(node, node.emit(e.AbsOp(node[0])), p)
    mean = node.emit(_avg_pool(node, powered, kernel, strides, pads, dilations, 1))
    total = node.emit(b.MulOp(mean, node.constant(float(math.prod(kernel)), mean)))
    return _power(node, total, 1 / p)


def _spatial_axes(node: Node) -> list[int]:
    return list(range(2, node.entry(0).rank))


def _global_lp_pool(node: Node) -> SSAValue:
    p = float(node.attr("p", 2))
    powered = _power(node, node.emit(e.AbsOp(node[0])), p)
    return _power(node, node.emit(reduce.ReduceSumOp(powered, _spatial_axes(node), True)), 1 / p)


def _lrn(node: Node) -> SSAValue:
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    return node.emit(nn.LrnOp(node[0], node.attr("size"), alpha, beta, bias))


def _batch_norm(node: Node) -> Result:
    if node.attr("training_mode", 0) or sum(1 for o in node.proto.output if o) > 1:
        raise UnsupportedError("training mode")
    x = node[0]
    element = type_of(x).element_type
    parameters = [node.cast(node[i], element) for i in range(1, 5)]
    if node.entry(0).rank == 1:
        raise UnsupportedError("an input of rank 1")
    scale, bias, mean, variance = parameters
    return node.emit(nn.BatchNormOp(x, scale, bias, mean, variance, node.attr("epsilon", 1e-5)))


def _scale_and_shift(node: Node, x: SSAValue, scale: SSAValue, bias: SSAValue | None) -> SSAValue:
    scaled = node.emit(b.MulOp(x, scale))
    return scaled if bias is None else node.emit(b.AddOp(scaled, bias))


def _instance_norm(node: Node) -> SSAValue:
    x = node[0]
    normal = node.emit(nn.NormalizeOp(x, _spatial_axes(node), node.attr("epsilon", 1e-5)))
    column: list[ExprLike] = [shape_of(x)[1], *[1] * (len(shape_of(x)) - 2)]
    return _scale_and_shift(node, normal, node.reshape(node[1], column), node.reshape(node[2], column))


def _layer_norm(node: Node) -> list[Result]:
    x = node[0]
    element, rank = type_of(x).element_type, len(shape_of(x))
    axes = list(range(node.attr("axis", -1) % rank, rank))
    epsilon = node.attr("epsilon", 1e-5)
    wide = node.cast(x, f32) if node.attr("stash_type", 1) == 1 and _is_half(node) else x
    normal = node.emit(nn.NormalizeOp(wide, axes, epsilon))
    result: Result = _scale_and_shift(node, node.cast(normal, element), node[1], node.optional(2))
    if not any(node.proto.output[1:]):
        return [result]
    mean = node.emit(reduce.ReduceMeanOp(wide, axes, True))
    centred = node.emit(b.SubOp(wide, mean))
    variance = node.emit(reduce.ReduceMeanOp(node.emit(b.MulOp(centred, centred)), axes, True))
    inverse = node.emit(e.RsqrtOp(node.emit(b.AddOp(variance, node.constant(epsilon, variance)))))
    return [result, mean, inverse]


def _is_half(node: Node) -> bool:
    element = type_of(node[0]).element_type
    return isinstance(element, AnyFloat) and element.size == 2


def _group_norm(node: Node) -> SSAValue:
    """Normalises over each group of channels; before opset 21 scale and bias belong to groups."""
    x, groups = node[0], node.attr("num_groups")
    shape, element = shape_of(x), type_of(node[0]).element_type
    half = _is_half(node)
    grouped = node.reshape(node.cast(x, f32) if half else x, (shape[0], groups, shape[1] // groups, *shape[2:]))
    normal = node.emit(nn.NormalizeOp(grouped, list(range(2, len(shape) + 1)), node.attr("epsilon", 1e-5)))
    if node.opset < 21:
        column = (groups, *[1] * (len(shape) - 1))
        normal = node.cast(normal, element)
        scaled = _scale_and_shift(node, normal, node.reshape(node[1], column), node.reshape(node[2], column))
        return node.reshape(scaled, shape)
    column = (shape[1], *[1] * (len(shape) - 2))
    normal = node.reshape(node.cast(normal, element), shape)
    return _scale_and_shift(node, normal, node.reshape(node[1], column), node.reshape(node[2], column))


def _rms_norm(node: Node) -> SSAValue:
    """x / sqrt(mean(x * x) + epsilon) * scale"""
    x = node[0]
    element, rank = type_of(x).element_type, len(shape_of(x))
    axes = list(range(node.attr("axis", -1) % rank, rank))
    wide = node.cast(x, f32) if node.attr("stash_type", 1) == 1 else x
    mean = node.emit(reduce.ReduceMeanOp(node.emit(b.MulOp(wide, wide)), axes, True))
    factor = node.emit(e.RsqrtOp(node.emit(b.AddOp(mean, node.constant(node.attr("epsilon", 1e-5), mean)))))
    normal = node.cast(node.emit(b.MulOp(wide, factor)), element)
    return node.emit(b.MulOp(normal, node[1]))


def _mean_variance(node: Node) -> SSAValue:
    axes = sorted(a % node.entry(0).rank for a in node.attr("axes", [0, 2, 3]))
    return node.emit(nn.NormalizeOp(node[0], axes, 1e-9))


def _lp_normalization(node: Node) -> SSAValue:
    x, p = node[0], node.attr("p", 2)
    axis = node.attr("axis", -1) % node.entry(0).rank
    total = node.emit(reduce.ReduceSumOp(_power(node, node.emit(e.AbsOp(x)), p), [axis], True))
    norm = node.emit(e.SqrtOp(total)) if p == 2 else total
    nothing = node.emit(b.CompareOp(norm, node.constant(0, norm), "eq"))
    return node.emit(b.DivOp(x, node.emit(b.WhereOp(nothing, node.constant(1, norm), norm))))


def _half_softmax(node: Node, x: SSAValue, axis: int, make: type[nn.AxisOp]) -> SSAValue:
    """ONNX defines the operator by a body of simpler ones, so a half-precision result is rounded after each step."""
    shifted = node.emit(b.SubOp(x, node.emit(reduce.ReduceMaxOp(x, [axis], True))))
    powers = node.emit(e.ExpOp(shifted))
    total = node.emit(reduce.ReduceSumOp(powers, [axis], True))
    if make is nn.SoftmaxOp:
        return node.emit(b.DivOp(powers, total))
    return node.emit(b.SubOp(shifted, node.emit(e.LogOp(total))))


def _on_axis(node: Node, make: type[nn.AxisOp]) -> SSAValue:
    """Before opset 13 the operand is flattened to a matrix at ``axis`` first."""
    x = node[0]
    rank = len(shape_of(x))
    if node.opset >= 13:
        axis = node.attr("axis", -1) % max(rank, 1)
        return _half_softmax(node, x, axis, make) if _is_half(node) else node.emit(make(x, axis))
    axis = node.attr("axis", 1)
    axis = axis % rank if axis < 0 else axis
    if axis == rank - 1:
        return node.emit(make(x, axis))
    shape = shape_of(x)
    flat = node.reshape(x, (product(shape[:axis]), product(shape[axis:])))
    return node.reshape(node.emit(make(flat, 1)), shape)


def _hardmax(node: Node) -> SSAValue:
    """1 at the first maximum along the axis, 0 elsewhere"""
    x = node[0]
    shape = shape_of(x)
    axis = node.attr("axis", -1 if node.opset >= 13 else 1) % max(len(shape), 1)
    flat = x
    if node.opset < 13 and axis != len(shape) - 1:
        flat = node.reshape(x, (product(shape[:axis]), product(shape[axis:])))
        axis = 1
    best = node.emit(reduce.ArgMaxOp(flat, axis, True))
    index = node.emit(IotaOp(shape_of(flat), axis, type_of(best).element_type))
    hot = node.cast(node.emit(b.CompareOp(index, best, "eq")), type_of(x).element_type)
    return node.reshape(hot, shape)


def _global(make: type[reduce.ReduceOp]) -> Rule:
    return lambda node: node.emit(make(node[0], _spatial_axes(node), True))


NN_RULES: dict[str, Rule] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global(reduce.ReduceMeanOp),
    "GlobalMaxPool": _global(reduce.ReduceMaxOp),
    "GlobalLpPool": _global_lp_pool,
    "LRN": _lrn,
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "GroupNormalization": _group_norm,
    "RMSNormalization": _rms_norm,
    "MeanVarianceNormalization": _mean_variance,
    "LpNormalization": _lp_normalization,
    "Softmax": lambda n: _on_axis(n, nn.SoftmaxOp),
    "LogSoftmax": lambda n: _on_axis(n, nn.LogSoftmaxOp),
    "Hardmax": _hardmax,
}
"""Operator to rule."""
