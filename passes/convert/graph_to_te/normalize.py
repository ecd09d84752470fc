"""Softmax and normalisations: reductions kept as dimensions of size 1, then elementwise computes that read them."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.symbolic import SymExpr
from ....dialects.graph.base import get_int, get_ints
from ....dialects.graph.nn import AxisOp, BatchNormOp, LrnOp
from .builder import ComputeBody, TeBuilder
from .elements import Elem, accumulator_type
from .elementwise import broadcast_read
from .reduce import count_of, reduce_dims

Exprs = tuple[SymExpr, ...]


def _number(attr: FloatAttr) -> float:
    return float(attr.value.data)


def lower_softmax(op: Operation, te: TeBuilder) -> SSAValue:
    """``exp(x - max) / sum(exp(x - max))``; the exponentials are a tensor of their own, which two computes read."""
    x, result_type = op.operands[0], op.results[0].type
    axis, element = cast(AxisOp, op).axis_value, result_type.element_type  # type: ignore[attr-defined]
    wide = accumulator_type(element)
    largest = reduce_dims(te, x, [axis], "max", "max")

    def exponential(e: ComputeBody, i: Exprs) -> Elem:
        return e.unary("exp", e.cast(e.read(x, i), wide) - broadcast_read(e, largest, i))

    powers = te.compute("exp", te.type(wide, shape_exprs(x.type), x), exponential)
    total = reduce_dims(te, powers, [axis], "sum", "sum")

    def quotient(e: ComputeBody, i: Exprs) -> Elem:
        return e.cast(e.read(powers, i) / broadcast_read(e, total, i), element)

    return te.compute("softmax", result_type, quotient)


def lower_log_softmax(op: Operation, te: TeBuilder) -> SSAValue:
    """``(x - max) - log(sum(exp(x - max)))``."""
    x, result_type = op.operands[0], op.results[0].type
    axis, element = cast(AxisOp, op).axis_value, result_type.element_type  # type: ignore[attr-defined]
    wide = accumulator_type(element)
    largest = reduce_dims(te, x, [axis], "max", "max")

    def centred(e: ComputeBody, i: Exprs) -> Elem:
        return e.cast(e.read(x, i), wide) - broadcast_read(e, largest, i)

    shifted = te.compute("shifted", te.type(wide, shape_exprs(x.type), x), centred)
    total = reduce_dims(te, shifted, [axis], "sum", "sum", lambda e, value: e.unary("exp", value))
    log_type = te.type(wide, shape_exprs(total.type), total)
    log = te.compute("log", log_type, lambda e, i: e.unary("log", e.read(total, i)))

    def difference(e: ComputeBody, i: Exprs) -> Elem:
        return e.cast(e.read(shifted, i) - broadcast_read(e, log, i), element)

    return te.compute("log_softmax", result_type, difference)


def lower_normalize(op: Operation, te: TeBuilder) -> SSAValue:
    """``(x - mean) / sqrt(mean((x - mean)**2) + epsilon)``: mean and deviation in two passes, which does not cancel."""
    x, result_type = op.operands[0], op.results[0].type
    axes, epsilon = get_ints(op.properties, "axes"), op.properties["epsilon"]
    assert isinstance(epsilon, FloatAttr)
    shape, element = shape_exprs(x.type), result_type.element_type  # type: ignore[attr-defined]
    wide = accumulator_type(element)
    extents = [shape[axis] for axis in axes]
    total = reduce_dims(te, x, axes, "sum", "sum")
    row_type = te.type(wide, shape_exprs(total.type), total)
    mean = te.compute("mean", row_type, lambda e, i: e.read(total, i) / count_of(e, extents, wide))

    def centred(e: ComputeBody, i: Exprs) -> Elem:
        return e.cast(e.read(x, i), wide) - broadcast_read(e, mean, i)

    centre = te.compute("centred", te.type(wide, shape, x), centred)
    squares = reduce_dims(te, centre, axes, "sum", "squares", lambda e, value: value * value)

    def deviation(e: ComputeBody, i: Exprs) -> Elem:
        variance = e.read(squares, i) / count_of(e, extents, wide)
        return 1 / e.unary("sqrt", variance + _number(epsilon))

    scale = te.compute("scale", row_type, deviation)

    def body(e: ComputeBody, i: Exprs) -> Elem:
        return e.cast(e.read(centre, i) * broadcast_read(e, scale, i), element)

    return te.compute("normalize", result_type, body)


def lower_batch_norm(op: Operation, te: TeBuilder) -> SSAValue:
    """``(x - mean[c]) * factor[c] + bias[c]``, ``factor = scale / sqrt(variance + epsilon)`` in its own compute."""
    norm = cast(BatchNormOp, op)
    epsilon = _number(norm.epsilon)
    element = norm.scale.type.element_type  # type: ignore[attr-defined]

    def per_channel(e: ComputeBody, i: Exprs) -> Elem:
        return e.read(norm.scale, i) / e.unary("sqrt", e.read(norm.variance, i) + epsilon)

    factor = te.compute("factor", te.type(element, shape_exprs(norm.scale.type)), per_channel)

    def body(e: ComputeBody, i: Exprs) -> Elem:
        channel = [i[1]]
        centred = e.read(norm.input, i) - e.read(norm.mean, channel)
        return centred * e.read(factor, channel) + e.read(norm.bias, channel)

    return te.compute("batch_norm", op.results[0].type, body)


def lower_lrn(op: Operation, te: TeBuilder) -> SSAValue:
    """``x / (bias + alpha / size * sum of squares of neighbouring channels) ** beta``."""
    lrn = cast(LrnOp, op)
    x, size = lrn.input, get_int(op.properties, "size", 1)
    shape, element = shape_exprs(x.type), op.results[0].type.element_type  # type: ignore[attr-defined]
    wide = accumulator_type(element)

    def squares(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        channel = i[1] + r[0] - (size - 1) // 2
        value = e.cast(e.read(x, [i[0], channel, *i[2:]], e.constant(0, element)), wide)
        return value * value

    total = te.compute("squares", te.type(wide, shape, op.results[0].type), squares, [size], "sum")

    def body(e: ComputeBody, i: Exprs) -> Elem:
        base = e.read(total, i) * (_number(lrn.alpha) / size) + _number(lrn.bias)
        scale = constant_power(e, base, _number(lrn.beta), wide)
        return e.cast(e.cast(e.read(x, i), wide) / scale, element)

    return te.compute("lrn", op.results[0].type, body)


def constant_power(e: ComputeBody, base: Elem, exponent: float, type_: Attribute) -> Elem:
    """``base ** exponent``; quarters up to 1 are square roots, which are exact to the last digits and fast."""
    if exponent == 1:
        return base
    if exponent in (0.5, 0.75):
        root = e.unary("sqrt", base)
        return root if exponent == 0.5 else root * e.unary("sqrt", root)
    return e.emit(math.PowFOp(base.value, e.constant(exponent, type_).value), type_)
