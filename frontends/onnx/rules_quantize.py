"""ONNX quantisation: scales and zero points per tensor, per axis or per block, written out in ordinary arithmetic."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, i32
from xdsl.ir import Attribute, SSAValue

from ...core.symbolic import SymExpr
from ...dialects.graph import broadcasting as b
from ...dialects.graph import elementwise as e
from ...dialects.graph import nn, reduce
from ...dialects.graph.base import product
from .errors import UnsupportedError
from .node import Node, Result, Rule, is_unsigned, shape_of, type_of
from .rules_linear import centred, matmul
from .rules_nn import add_channel_bias, static_kernel, window
from .tensors import element_type


def _spread(node: Node, parameter: SSAValue, x: SSAValue) -> SSAValue:
    """A scale or zero point in a shape that broadcasts with the tensor."""
    shape, own = shape_of(x), shape_of(parameter)
    if len(own) == 0 or product(own) == 1:
        return node.reshape(parameter, ())
    axis = node.attr("axis", 1) % len(shape)
    block = node.attr("block_size", 0)
    if not block:
        return node.reshape(parameter, [own[0] if i == axis else 1 for i in range(len(shape))])
    split: list[SymExpr | int] = [*own[: axis + 1], 1, *own[axis + 1 :]]
    wide: list[SymExpr | int] = [*own[: axis + 1], block, *own[axis + 1 :]]
    return node.reshape(node.broadcast(node.reshape(parameter, split), wide), shape)


def _limits(element: Attribute) -> tuple[int, int]:
    assert isinstance(element, IntegerType)
    width = element.width.data
    return (0, (1 << width) - 1) if is_unsigned(element) else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def _saturate(node: Node, x: SSAValue, element: Attribute) -> SSAValue:
    """Clamps floats to the range of an integer type and converts."""
    low, high = _limits(element)
    clamped = node.emit(b.MinOp(node.emit(b.MaxOp(x, node.constant(low, x))), node.constant(high, x)))
    return node.cast(clamped, element)


def quantize(node: Node, x: SSAValue, scale: SSAValue, zero: SSAValue | None, element: Attribute) -> SSAValue:
    """saturate(round(x / scale) + zero)"""
    rounded = node.emit(e.RoundOp(node.emit(b.DivOp(x, scale))))
    if zero is not None:
        rounded = node.emit(b.AddOp(rounded, node.cast(zero, type_of(rounded).element_type)))
    return _saturate(node, rounded, element)


def dequantize(node: Node, x: SSAValue, scale: SSAValue, zero: SSAValue | None) -> SSAValue:
    """(x - zero) * scale"""
    element = type_of(scale).element_type
    wide = node.cast(x, i32)
    if zero is not None:
        wide = node.emit(b.SubOp(wide, node.cast(zero, i32)))
    return node.emit(b.MulOp(node.cast(wide, element), scale))


def _quantize_linear(node: Node) -> SSAValue:
    x = node[0]
    zero = _spread(node, node[2], x) if node.has(2) else None
    if zero is not None:
        element: Attribute = type_of(zero).element_type
    else:
        element = element_type(node.attr("output_dtype", 2))
    if not isinstance(element, IntegerType):
        raise UnsupportedError(f"quantisation to {element}")
    if not isinstance(type_of(x).element_type, AnyFloat):
        x = node.cast(x, f32)
    return quantize(node, x, node.cast(_spread(node, node[1], x), type_of(x).element_type), zero, element)


def _dequantize_linear(node: Node) -> SSAValue:
    x = node[0]
    if not isinstance(type_of(x).element_type, IntegerType):
        raise UnsupportedError(f"dequantisation of {type_of(x).element_type}")
    zero = _spread(node, node[2], x) if node.has(2) else None
    return dequantize(node, x, _spread(node, node[1], x), zero)


def _qlinear_matmul(node: Node) -> SSAValue:
    """The integer product scaled by scale_a * scale_b / scale_y."""
    a = centred(node, node[0], node[2], len(shape_of(node[0])) - 2)
    c = centred(node, node[3], node[5], len(shape_of(node[3])) - 1)
    return _requantize(node, matmul(node, a, c), node[1], node[4], node[6], node[7])


def _requantize(
    node: Node, total: SSAValue, left: SSAValue, right: SSAValue, scale: SSAValue, zero: SSAValue
) -> SSAValue:
    if any(len(shape_of(p)) > 1 or product(shape_of(p)) != 1 for p in (left, scale, zero)):
        raise UnsupportedError("scales per row")
    factor = node.emit(b.MulOp(node.reshape(left, ()), right if shape_of(right) else node.reshape(right, ())))
    real = node.emit(b.MulOp(node.cast(total, type_of(factor).element_type), factor))
    element = type_of(zero).element_type
    return quantize(node, real, node.reshape(scale, ()), node.reshape(zero, ()), element)


def _conv_integer(node: Node) -> SSAValue:
    strides, pads, dilations = window(node, static_kernel(node, node.entry(1).shape))
    x = centred(node, node[0], node.optional(2), -1)
    w = centred(node, node[1], node.optional(3), 0)
    return node.emit(nn.ConvOp(x, w, strides, pads, dilations, node.attr("group", 1)))


def _qlinear_conv(node: Node) -> SSAValue:
    strides, pads, dilations = window(node, static_kernel(node, node.entry(3).shape))
    x = centred(node, node[0], node[2], -1)
    w = centred(node, node[3], node[5], 0)
    total = node.emit(nn.ConvOp(x, w, strides, pads, dilations, node.attr("group", 1)))
    total = add_channel_bias(node, total, node.optional(8))
    right = node[4]
    if len(shape_of(right)) == 1 and product(shape_of(right)) != 1:
        right = node.reshape(right, (shape_of(right)[0], *[1] * (len(shape_of(total)) - 2)))
    return _requantize(node, total, node[1], right, node[6], node[7])


def _dynamic_quantize(node: Node) -> list[Result]:
    """Scale and zero point from the extreme values, widened to hold 0."""
    x = node[0]
    axes = list(range(len(shape_of(x))))
    none = node.constant(0, x)
    high = node.emit(b.MaxOp(node.emit(reduce.ReduceMaxOp(x, axes)), none))
    low = node.emit(b.MinOp(node.emit(reduce.ReduceMinOp(x, axes)), none))
    element = element_type(2)
    scale = node.emit(b.DivOp(node.emit(b.SubOp(high, low)), node.constant(255, x)))
    nothing = node.emit(b.CompareOp(scale, none, "eq"))
    divisor = node.emit(b.WhereOp(nothing, node.constant(1, x), scale))
    shift = node.emit(e.RoundOp(node.emit(b.DivOp(node.emit(e.NegOp(low)), divisor))))
    zero = _saturate(node, shift, element)
    return [quantize(node, x, divisor, zero, element), scale, zero]


QUANTIZE_RULES: dict[str, Rule] = {
    "QuantizeLinear": _quantize_linear,
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": _qlinear_conv,
    "ConvInteger": _conv_integer,
}
"""Operator to rule."""
