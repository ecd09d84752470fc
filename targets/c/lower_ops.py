"""Element arithmetic: ``arith`` and ``math`` operations in the ``c`` dialect.

``ELEMENT_OPS`` is one table from operation name to a function ``(builder, op, operands) -> result``, over scalars.
Where C leaves a result undefined (overflow, division by zero, shifts too far, conversions out of range), the code here
defines it, as the LLVM target does; longer pieces are functions of ``library.py``.

Deliberately elsewhere: memory and control flow (``lower.py``), index expressions (``lower_index.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerAttr, IntegerType, Signedness, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...core.diagnostics import emit_error
from .build import Builder, unsigned, value_type, width_of
from .dialect import LogicalNotOp, NegateOp
from .library import type_suffix

Lowering = Callable[[Builder, Any, Sequence[SSAValue]], SSAValue]


def _result(op: Operation) -> Attribute:
    return value_type(op.results[0].type, op)


def _constant(build: Builder, op: arith.ConstantOp, args: Sequence[SSAValue]) -> SSAValue:
    if not isinstance(op.value, IntegerAttr | FloatAttr):
        emit_error(op, f"has the value {op.value}, expected a scalar")
    return build.number(op.value.value.data, _result(op))


def _float(operator: str) -> Lowering:
    return lambda build, op, args: build.plain(args[0], operator, args[1])


def _wrapping(operator: str, logical: str) -> Lowering:
    """Integers modulo two to their width; on booleans the ``logical`` operator."""

    def lower(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        if args[0].type != i1:
            return build.wrapping(args[0], operator, args[1])
        return build.compare(args[0], "!=", args[1]) if logical == "!=" else build.plain(args[0], logical, args[1])

    return lower


def _helper(name: str, *, read_unsigned: bool = False) -> Lowering:
    """A function of the library for each type; ``read_unsigned`` reads the operands as unsigned numbers."""

    def lower(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        if args[0].type == i1:
            emit_error(op, "has no meaning for booleans in C")
        type = args[0].type
        given = [build.as_unsigned(arg) for arg in args] if read_unsigned else list(args)
        suffix = type_suffix(given[0].type)
        return build.cast(build.call(f"tw_{name}_{suffix}", given, given[0].type), type)

    return lower


def _extremum(name: str, operator: str, logical: str, *, read_unsigned: bool = False) -> Lowering:
    """The smaller or larger of two integers."""
    helper = _helper(name, read_unsigned=read_unsigned)

    def lower(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        return build.plain(args[0], logical, args[1]) if args[0].type == i1 else helper(build, op, args)

    return lower


def _library(name: str) -> Lowering:
    """A function of ``math.h``, which has a name for each type."""

    def lower(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        type = _result(op)
        return build.call(f"{name}f" if isinstance(type, Float32Type) else name, args, type)

    return lower


def _compare_integers(build: Builder, op: arith.CmpiOp, args: Sequence[SSAValue]) -> SSAValue:
    predicate = op.predicate.value.data
    if predicate >= 6 and args[0].type != i1:
        args = [build.as_unsigned(arg) for arg in args]
    return build.compare(args[0], _CMPI[predicate], args[1])


_CMPI = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


def _compare_floats(build: Builder, op: arith.CmpfOp, args: Sequence[SSAValue]) -> SSAValue:
    """Comparisons of C are the ordered ones; an unordered one is the opposite ordered one, negated."""
    a, b = args
    predicate = op.predicate.value.data
    if predicate in (0, 15):
        return build.integer(int(predicate == 15), i1)
    if predicate in _ORDERED:
        return build.compare(a, _ORDERED[predicate], b)
    if predicate in _NEGATED:
        return build.value(LogicalNotOp(build.compare(a, _NEGATED[predicate], b)))
    if predicate in (6, 8):  # one, ueq
        either = build.plain(build.compare(a, "<", b), "||", build.compare(a, ">", b))
        return either if predicate == 6 else build.value(LogicalNotOp(either))
    operator, logical = ("==", "&&") if predicate == 7 else ("!=", "||")  # ord, uno
    return build.plain(build.compare(a, operator, a), logical, build.compare(b, operator, b))


_ORDERED = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
_NEGATED = {9: "<=", 10: "<", 11: ">=", 12: ">"}


def _select(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    return build.select(*args)


def _negate(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    return build.value(NegateOp(args[0]))


# Conversions.


def _float_to_float(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    return build.cast(args[0], _result(op))


def _from_integer(signed: bool) -> Lowering:
    """To a float or a wider integer; true is -1 for the signed conversions."""

    def lower(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        type, value = _result(op), args[0]
        if value.type == i1:
            return build.select(value, build.number(-1 if signed else 1, type), build.number(0, type))
        return build.cast(value if signed else build.as_unsigned(value), type)

    return lower


def _truncate(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    type, value = _result(op), args[0]
    if type != i1:
        return build.cast(value, type)
    wide = unsigned(value.type)
    low = build.plain(build.cast(value, wide), "&", build.integer(1, wide))
    return build.compare(low, "!=", build.integer(0, wide))


def _index_cast(signed: bool) -> Lowering:
    extend = _from_integer(signed)

    def lower(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        type = _result(op)
        if args[0].type == type:
            return args[0]
        narrower = width_of(type) < width_of(args[0].type)
        return _truncate(build, op, args) if narrower else extend(build, op, args)

    return lower


def _to_integer(signed: bool) -> Lowering:
    """Cut off to zero; out of range gives the nearest number, NaN gives 0."""

    def lower(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        type, source = _result(op), type_suffix(args[0].type)
        if type == i1:
            return build.compare(args[0], "!=", build.number(0.0, args[0].type))
        exact = type if signed else IntegerType(width_of(type), Signedness.UNSIGNED)
        return build.cast(build.call(f"tw_{source}_to_{type_suffix(exact)}", args, exact), type)

    return lower


def _bitcast(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    type, value = _result(op), args[0]
    if isinstance(type, IntegerType) and isinstance(value.type, IntegerType):
        return build.cast(value, type)
    if type == value.type:
        return value
    return build.call(f"tw_bits_{type_suffix(value.type)}_{type_suffix(type)}", [value], type)


def _same_bits(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    """An unrealized cast between integers that differ in signedness only."""
    types = [value.type for value in (*args, *op.results)]
    integers = [type for type in types if isinstance(type, IntegerType)]
    if len(integers) != 2 or len(types) != 2 or width_of(types[0]) != width_of(types[1]):
        emit_error(op, "changes more than signedness and has no meaning for this target")
    return build.cast(args[0], _result(op))


# Functions.


def _reciprocal_root(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    return build.plain(build.number(1.0, args[0].type), "/", _library("sqrt")(build, op, args))


def _multiply_add(build: Builder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    """Rounded twice, as the interpreter does: a fused operation is slow where there is no instruction for it."""
    return build.plain(build.plain(args[0], "*", args[1]), "+", args[2])


_MATH_FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf"),
    *("exp", "exp2", "expm1", "floor", "log", "log10", "log1p", "log2", "round", "sin", "sinh", "sqrt", "tan"),
    *("tanh", "trunc"),
)

ELEMENT_OPS: dict[str, Lowering] = {
    "arith.constant": _constant,
    "arith.addf": _float("+"),
    "arith.subf": _float("-"),
    "arith.mulf": _float("*"),
    "arith.divf": _float("/"),
    "arith.negf": _negate,
    "arith.remf": _library("fmod"),
    "arith.maximumf": _helper("maximum"),
    "arith.minimumf": _helper("minimum"),
    "arith.maxnumf": _library("fmax"),
    "arith.minnumf": _library("fmin"),
    "arith.addi": _wrapping("+", "!="),
    "arith.subi": _wrapping("-", "!="),
    "arith.muli": _wrapping("*", "&&"),
    "arith.divsi": _helper("div"),
    "arith.divui": _helper("div", read_unsigned=True),
    "arith.remsi": _helper("rem"),
    "arith.remui": _helper("rem", read_unsigned=True),
    "arith.floordivsi": _helper("floordiv"),
    "arith.ceildivsi": _helper("ceildiv"),
    "arith.ceildivui": _helper("ceildiv", read_unsigned=True),
    "arith.andi": _wrapping("&", "&&"),
    "arith.ori": _wrapping("|", "||"),
    "arith.xori": _wrapping("^", "!="),
    "arith.shli": _helper("shl", read_unsigned=True),
    "arith.shrsi": _helper("shr"),
    "arith.shrui": _helper("shr", read_unsigned=True),
    "arith.maxsi": _extremum("max", ">", "||"),
    "arith.minsi": _extremum("min", "<", "&&"),
    "arith.maxui": _extremum("max", ">", "||", read_unsigned=True),
    "arith.minui": _extremum("min", "<", "&&", read_unsigned=True),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.extf": _float_to_float,
    "arith.truncf": _float_to_float,
    "arith.extsi": _from_integer(True),
    "arith.extui": _from_integer(False),
    "arith.trunci": _truncate,
    "arith.sitofp": _from_integer(True),
    "arith.uitofp": _from_integer(False),
    "arith.fptosi": _to_integer(True),
    "arith.fptoui": _to_integer(False),
    "arith.bitcast": _bitcast,
    "arith.index_cast": _index_cast(True),
    "arith.index_castui": _index_cast(False),
    "builtin.unrealized_conversion_cast": _same_bits,
    "math.absf": _library("fabs"),
    "math.absi": _helper("abs"),
    "math.fma": _multiply_add,
    "math.ipowi": _helper("pow"),
    "math.powf": _library("pow"),
    "math.roundeven": _library("nearbyint"),
    "math.rsqrt": _reciprocal_root,
    **{f"math.{name}": _library(name) for name in _MATH_FUNCTIONS},
}

__all__ = ["ELEMENT_OPS", "i32", "i64"]
