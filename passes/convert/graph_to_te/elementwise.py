"""Elementwise ops: element ``i`` of the result from the elements of the operands at the broadcast index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import math
from xdsl.dialects.builtin import Float64Type, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.symbolic import SymExpr
from ....dialects.graph.broadcasting import CompareOp, ModOp
from ....dialects.graph.elementwise import CastOp
from .builder import ComputeBody, TeBuilder
from .elements import I1, Elem, accumulator_type, is_float, is_unsigned

Function = Callable[..., Elem]


def broadcast_read(e: ComputeBody, tensor: SSAValue, index: Sequence[SymExpr]) -> Elem:
    """The element that ``index`` of the result sees: aligned at the last dimension, dimensions of size 1 stretched."""
    shape = shape_exprs(tensor.type)
    aligned = index[len(index) - len(shape) :]
    return e.read(tensor, [0 if extent == 1 else i for extent, i in zip(shape, aligned)])


def map_elements(op: Operation, te: TeBuilder, function: Function) -> SSAValue:
    """One compute: ``function(e, *elements)`` of the broadcast operands."""

    def body(e: ComputeBody, i: Sequence[SymExpr]) -> Elem:
        return function(e, *(broadcast_read(e, operand, i) for operand in op.operands))

    return te.compute(op.name.partition(".")[2], op.results[0].type, body)


def lower_elementwise(op: Operation, te: TeBuilder) -> SSAValue:
    """All ops whose meaning depends on nothing but their name: ``_FUNCTIONS``."""
    return map_elements(op, te, _FUNCTIONS[op.name])


def lower_compare(op: Operation, te: TeBuilder) -> SSAValue:
    predicate = cast(CompareOp, op).predicate.data
    return map_elements(op, te, lambda e, a, b: e.compare(predicate, a, b))


def lower_cast(op: Operation, te: TeBuilder) -> SSAValue:
    to = cast(CastOp, op).to
    return map_elements(op, te, lambda e, x: e.cast(x, to))


def lower_mod(op: Operation, te: TeBuilder) -> SSAValue:
    """Truncated: ``a - b * trunc(a / b)``; else the result has the divisor's sign."""
    truncated = cast(ModOp, op).is_truncated

    def function(e: ComputeBody, a: Elem, b: Elem) -> Elem:
        rest = float_remainder(e, a, b) if is_float(a.type) else e.binary("rem", a, b)
        if truncated or is_unsigned(a.type):
            return rest
        wrong_sign = e.compare("ne", rest, 0) & ((rest < 0) ^ (b < 0))
        return e.select(wrong_sign, rest + b, rest)

    return map_elements(op, te, function)


def float_remainder(e: ComputeBody, a: Elem, b: Elem) -> Elem:
    """``fmod``: sign of ``a``. Computed in double precision with one fused step, exact for quotients below 2**53."""
    wide = Float64Type()
    x, y = e.abs(e.cast(a, wide)), e.abs(e.cast(b, wide))
    quotient = e.unary("floor", x / y)
    rest = e.emit(math.FmaOp((-quotient).value, y.value, x.value))
    rest = e.select(rest < 0, rest + y, rest)
    rest = e.select(rest >= y, rest - y, rest)
    finite = e.compare("eq", y, float("inf")) & (x < float("inf"))
    rest = e.select(finite, x, rest)
    signed = e.emit(math.CopySignOp(rest.value, e.cast(a, wide).value))
    # The remainder of halves is a half: no rounding on the way, and processors convert in these steps.
    return e.cast(e.cast(signed, accumulator_type(a.type)), a.type)


def integer_power(e: ComputeBody, base: Elem, exponent: Elem) -> Elem:
    """Square and multiply over the exponent's bits, wrapping; a negative exponent truncates ``1 / base ** n``."""
    type_ = cast(IntegerType, base.type)
    one = e.constant(1, type_)
    result, square = one, base
    for bit in range(type_.width.data - (0 if is_unsigned(type_) else 1)):
        is_set = e.compare("ne", exponent & (1 << bit), 0)
        result = e.select(is_set, result * square, result)
        square = square * square
    if is_unsigned(type_):
        return result
    unit = e.compare("eq", base * base, 1) & (base < 2) & (base > -2)
    parity = e.select(e.compare("ne", exponent & 1, 0), base, one)
    return e.select(exponent < 0, e.select(unit, parity, 0), result)


def _power(e: ComputeBody, base: Elem, exponent: Elem) -> Elem:
    if not is_float(base.type):
        return integer_power(e, base, exponent)
    return e.emit(math.PowFOp(base.value, exponent.value), base.type)


def _relu(e: ComputeBody, x: Elem) -> Elem:
    """``x < 0 ? 0 : x``: keeps NaN, and is one instruction where max of the machine is."""
    return e.select(x < 0, 0, x) if is_float(x.type) else e.max(x, 0)


def _sign(e: ComputeBody, x: Elem) -> Elem:
    if is_unsigned(x.type):
        return e.min(x, 1)
    return e.select(x > 0, 1, e.select(x < 0, -1, x))


def sigmoid(e: ComputeBody, x: Elem) -> Elem:
    """``1 / (1 + e ** -x)``."""
    return 1 / (e.unary("exp", -x) + 1)


def _not(e: ComputeBody, x: Elem) -> Elem:
    return x ^ (1 if x.type == I1 else -1)


def _shift_left(e: ComputeBody, x: Elem, count: Elem) -> Elem:
    """0 for counts of the width and more, where the machine's shift has no meaning."""
    width = _width(x.type)
    return e.select(e.compare("lt", count, width), e.binary("shl", x, e.min(count, width - 1)), 0)


def _shift_right(e: ComputeBody, x: Elem, count: Elem) -> Elem:
    width = _width(x.type)
    shifted = e.binary("shr", x, e.min(count, width - 1))
    return e.select(e.compare("lt", count, width), shifted, 0) if is_unsigned(x.type) else shifted


def _width(type_: Attribute) -> int:
    assert isinstance(type_, IntegerType)
    width: int = type_.width.data
    return width


def _unary(name: str) -> Function:
    return lambda e, x: e.unary(name, x)


def _binary(name: str) -> Function:
    return lambda e, a, b: e.binary(name, a, b)


_FUNCTIONS: dict[str, Function] = {
    "graph.neg": lambda e, x: -x,
    "graph.abs": lambda e, x: e.abs(x),
    "graph.sign": _sign,
    "graph.relu": _relu,
    "graph.sigmoid": sigmoid,
    "graph.round": _unary("roundeven"),
    "graph.not": _not,
    "graph.is_nan": lambda e, x: e.compare("ne", x, x),
    **{
        f"graph.{name}": _unary(name)
        for name in (
            *("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "erf", "ceil", "floor"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
        )
    },
    **{f"graph.{name}": _binary(name) for name in ("add", "sub", "mul", "div", "max", "min", "and", "or", "xor")},
    "graph.pow": _power,
    "graph.shift_left": _shift_left,
    "graph.shift_right": _shift_right,
    "graph.where": lambda e, c, a, b: e.select(c, a, b),
}
