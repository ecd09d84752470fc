"""ONNX operators of one operand, and activations written out in simpler ops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import SSAValue

from ...core.attributes import shape_exprs
from ...dialects.graph import broadcasting as b
from ...dialects.graph import elementwise as e
from .entries import Entry
from .errors import UnsupportedError
from .node import Node, Result, Rule, type_of
from .tensors import element_type


def _unary(op: Callable[[SSAValue], e.UnaryOp]) -> Rule:
    return lambda node: node.emit(op(node[0]))


def _scalar(node: Node, value: float) -> SSAValue:
    return node.constant(value, node[0])


def _reciprocal(node: Node) -> SSAValue:
    return node.emit(b.DivOp(_scalar(node, 1.0), node[0]))


def _leaky(node: Node, slope: SSAValue) -> SSAValue:
    x = node[0]
    negative = node.emit(b.CompareOp(x, _scalar(node, 0), "lt"))
    return node.emit(b.WhereOp(negative, node.emit(b.MulOp(x, slope)), x))


def _leaky_relu(node: Node) -> SSAValue:
    return _leaky(node, _scalar(node, node.attr("alpha", 0.01)))


def _prelu(node: Node) -> SSAValue:
    slope = node[1]
    if node.opset < 7 and len(shape_exprs(slope.type)) == 1 and node.entry(0).rank > 2:
        slope = node.reshape(slope, (*shape_exprs(slope.type), *[1] * (node.entry(0).rank - 2)))
    return _leaky(node, slope)


def _exponential(node: Node, alpha: float, gamma: float) -> SSAValue:
    """gamma * (x if x > 0 else alpha * (e ** x - 1))"""
    x = node[0]
    low = node.emit(b.MulOp(node.emit(e.Expm1Op(x)), _scalar(node, alpha)))
    positive = node.emit(b.CompareOp(x, _scalar(node, 0), "gt"))
    result = node.emit(b.WhereOp(positive, x, low))
    return result if gamma == 1 else node.emit(b.MulOp(result, _scalar(node, gamma)))


def _elu(node: Node) -> SSAValue:
    return _exponential(node, node.attr("alpha", 1.0), 1.0)


def _selu(node: Node) -> SSAValue:
    return _exponential(node, node.attr("alpha", 1.67326319217681884), node.attr("gamma", 1.05070102214813232))


def _celu(node: Node) -> SSAValue:
    """max(x, 0) + min(alpha * (e ** (x / alpha) - 1), 0)"""
    x, alpha = node[0], _scalar(node, node.attr("alpha", 1.0))
    low = node.emit(b.MulOp(node.emit(e.Expm1Op(node.emit(b.DivOp(x, alpha)))), alpha))
    return node.emit(b.AddOp(node.emit(e.ReluOp(x)), node.emit(b.MinOp(low, _scalar(node, 0)))))


def _thresholded_relu(node: Node) -> SSAValue:
    above = node.emit(b.CompareOp(node[0], _scalar(node, node.attr("alpha", 1.0)), "gt"))
    return node.emit(b.WhereOp(above, node[0], _scalar(node, 0)))


def _hard_sigmoid(node: Node, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    """max(0, min(1, alpha * x + beta))"""
    line = node.emit(b.AddOp(node.emit(b.MulOp(x, _scalar(node, alpha))), _scalar(node, beta)))
    return node.emit(b.MaxOp(node.emit(b.MinOp(line, _scalar(node, 1))), _scalar(node, 0)))


def _hard_swish(node: Node) -> SSAValue:
    return node.emit(b.MulOp(node[0], _hard_sigmoid(node, node[0], 1 / 6, 0.5)))


def softplus(node: Node, x: SSAValue) -> SSAValue:
    """log(1 + e ** x) = max(x, 0) + log1p(e ** -|x|)"""
    small = node.emit(e.ExpOp(node.emit(e.NegOp(node.emit(e.AbsOp(x))))))
    return node.emit(b.AddOp(node.emit(e.ReluOp(x)), node.emit(e.Log1pOp(small))))


def _softsign(node: Node) -> SSAValue:
    below = node.emit(b.AddOp(node.emit(e.AbsOp(node[0])), _scalar(node, 1)))
    return node.emit(b.DivOp(node[0], below))


def _mish(node: Node) -> SSAValue:
    return node.emit(b.MulOp(node[0], node.emit(e.TanhOp(softplus(node, node[0])))))


def _swish(node: Node) -> SSAValue:
    """x * sigmoid(alpha * x)"""
    alpha = node.attr("alpha", 1.0)
    inner = node[0] if alpha == 1 else node.emit(b.MulOp(node[0], _scalar(node, alpha)))
    return node.emit(b.MulOp(node[0], node.emit(e.SigmoidOp(inner))))


def _gelu(node: Node) -> SSAValue:
    """0.5 * x * (1 + erf(x / sqrt(2))), or its tanh approximation"""
    x = node[0]
    if node.attr("approximate", "none") == "tanh":
        cube = node.emit(b.MulOp(node.emit(b.MulOp(x, x)), x))
        inner = node.emit(b.AddOp(x, node.emit(b.MulOp(cube, _scalar(node, 0.044715)))))
        bend = node.emit(e.TanhOp(node.emit(b.MulOp(inner, _scalar(node, math.sqrt(2 / math.pi))))))
    else:
        bend = node.emit(e.ErfOp(node.emit(b.MulOp(x, _scalar(node, math.sqrt(0.5))))))
    half = node.emit(b.MulOp(x, _scalar(node, 0.5)))
    return node.emit(b.MulOp(half, node.emit(b.AddOp(bend, _scalar(node, 1)))))


def _shrink(node: Node) -> SSAValue:
    """x - bias above lambd, x + bias below -lambd, else 0"""
    x, limit, bias = node[0], node.attr("lambd", 0.5), node.attr("bias", 0.0)
    above = node.emit(b.CompareOp(x, _scalar(node, limit), "gt"))
    below = node.emit(b.CompareOp(x, _scalar(node, -limit), "lt"))
    low = node.emit(b.AddOp(x, _scalar(node, bias)))
    rest = node.emit(b.WhereOp(below, low, _scalar(node, 0)))
    return node.emit(b.WhereOp(above, node.emit(b.SubOp(x, _scalar(node, bias))), rest))


def _clip(node: Node) -> SSAValue:
    if node.opset < 11:
        low = _scalar(node, node.attr("min", -math.inf)) if node.has_attr("min") else None
        high = _scalar(node, node.attr("max", math.inf)) if node.has_attr("max") else None
    else:
        low, high = node.optional(1), node.optional(2)
    result = node[0]
    if low is not None:
        result = node.emit(b.MaxOp(result, node.reshape(low, ())))
    return result if high is None else node.emit(b.MinOp(result, node.reshape(high, ())))


def _cast(node: Node) -> Result:
    to = node.attr("to") if node.opset >= 6 else _type_by_name(node.attr("to"))
    return node.cast(node[0], element_type(to))


def _type_by_name(name: str) -> int:
    from onnx import TensorProto

    return int(TensorProto.DataType.Value(name))


def _cast_like(node: Node) -> Result:
    return node.cast(node[0], type_of(node[1]).element_type)


def _is_inf(node: Node) -> SSAValue:
    found: list[SSAValue] = []
    for flag, value in (("detect_positive", math.inf), ("detect_negative", -math.inf)):
        if node.attr(flag, 1):
            found.append(node.emit(b.CompareOp(node[0], _scalar(node, value), "eq")))
    if not found:
        nothing = node.constant(np.zeros((), bool))
        return node.broadcast(nothing, node.entry(0).shape)
    return found[0] if len(found) == 1 else node.emit(b.OrOp(*found))


def _area_sinh(node: Node) -> SSAValue:
    """sign(x) * log(|x| + sqrt(x * x + 1)), written with log1p to stay exact near 0"""
    x = node.emit(e.AbsOp(node[0]))
    square = node.emit(b.MulOp(x, x))
    root = node.emit(e.SqrtOp(node.emit(b.AddOp(square, _scalar(node, 1)))))
    inner = node.emit(b.AddOp(x, node.emit(b.DivOp(square, node.emit(b.AddOp(root, _scalar(node, 1)))))))
    return node.emit(b.MulOp(node.emit(e.SignOp(node[0])), node.emit(e.Log1pOp(inner))))


def _area_cosh(node: Node) -> SSAValue:
    """log(x + sqrt(x * x - 1))"""
    x = node[0]
    root = node.emit(e.SqrtOp(node.emit(b.SubOp(node.emit(b.MulOp(x, x)), _scalar(node, 1)))))
    return node.emit(e.LogOp(node.emit(b.AddOp(x, root))))


def _area_tanh(node: Node) -> SSAValue:
    """0.5 * (log1p(x) - log1p(-x))"""
    x = node[0]
    difference = node.emit(b.SubOp(node.emit(e.Log1pOp(x)), node.emit(e.Log1pOp(node.emit(e.NegOp(x))))))
    return node.emit(b.MulOp(difference, _scalar(node, 0.5)))


def _identity(node: Node) -> Entry:
    return node.entry(0)


def _dropout(node: Node) -> list[Result]:
    """At inference the identity; the mask is all true."""
    if node.opset >= 12 and node.has(2):
        training = node.array(2, "training mode")
        if bool(training.reshape(-1)[0]):
            ratio = node.array(1, "ratio").item() if node.has(1) else 0.5
            if ratio != 0:
                raise UnsupportedError("training mode")
    results: list[Result] = [node.entry(0)]
    if len(node.proto.output) > 1 and node.proto.output[1]:
        mask = node.constant(np.ones((), bool) if node.opset >= 10 else np.ones((), np.float32))
        if node.opset < 10:
            mask = node.cast(mask, type_of(node[0]).element_type)
        results.append(node.broadcast(mask, node.entry(0).shape))
    return results


def _sign_safe(op: Callable[[SSAValue], e.UnaryOp]) -> Rule:
    """Ops on floats that ONNX also allows on integers: computed in float32."""

    def rule(node: Node) -> SSAValue:
        x = node[0]
        element = type_of(x).element_type
        if isinstance(element, AnyFloat):
            return node.emit(op(x))
        return node.cast(node.emit(op(node.cast(x, f32))), element)

    return rule


ELEMENTWISE_RULES: dict[str, Rule] = {
    "Neg": _unary(e.NegOp), "Abs": _unary(e.AbsOp), "Sign": _unary(e.SignOp), "Relu": _unary(e.ReluOp),
    "Exp": _unary(e.ExpOp), "Log": _unary(e.LogOp), "Sqrt": _unary(e.SqrtOp), "Sin": _unary(e.SinOp),
    "Cos": _unary(e.CosOp), "Tan": _unary(e.TanOp), "Asin": _unary(e.AsinOp), "Acos": _unary(e.AcosOp),
    "Atan": _unary(e.AtanOp), "Sinh": _unary(e.SinhOp), "Cosh": _unary(e.CoshOp), "Tanh": _unary(e.TanhOp),
    "Erf": _sign_safe(e.ErfOp), "Sigmoid": _unary(e.SigmoidOp), "Ceil": _unary(e.CeilOp),
    "Floor": _unary(e.FloorOp), "Round": _unary(e.RoundOp), "Not": _unary(e.NotOp),
    "BitwiseNot": _unary(e.NotOp), "IsNaN": _unary(e.IsNanOp), "IsInf": _is_inf,
    "Reciprocal": _reciprocal, "LeakyRelu": _leaky_relu, "PRelu": _prelu, "Elu": _elu, "Selu": _selu, "Celu": _celu,
    "ThresholdedRelu": _thresholded_relu, "HardSwish": _hard_swish, "Softsign": _softsign, "Mish": _mish,
    "Swish": _swish, "Gelu": _gelu, "Shrink": _shrink, "Clip": _clip, "Cast": _cast, "CastLike": _cast_like,
    "Asinh": _area_sinh, "Acosh": _area_cosh, "Atanh": _area_tanh, "Identity": _identity, "Dropout": _dropout,
    "HardSigmoid": lambda n: _hard_sigmoid(n, n[0], n.attr("alpha", 0.2), n.attr("beta", 0.5)),
    "Softplus": lambda n: softplus(n, n[0]),
}  # fmt: skip
"""Operator to rule."""
