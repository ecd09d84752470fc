"""Element arithmetic: `arith`, `math` and `vector` operations as LLVM instructions.

`ELEMENT_OPS` is one table from operation name to a function `(builder, op, operands) -> result`, over lowered scalar
or vector values. Everything that may be fused carries LLVM's `contract` flag; other fast-math flags come only from the
operation's own `fastmath` attribute. Where LLVM leaves a result undefined that the reference interpreter defines
(division by zero, conversions out of range), the instructions here define it.

Deliberately elsewhere: memory and control flow (`lower.py`), what `exp` is (`math.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, llvm, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.dialects.llvm import FastMathAttr
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from ...core.diagnostics import emit_error
from .dialect import CastOp, ExtractElementOp, FCmpOp, MathOp, SelectOp, lanes
from .emit_types import mangled
from .lower_build import FunctionBuilder, lowered_type
from .lower_float import extend_float, in_single, truncate_float
from .lower_index import floor_division

Lowering = Callable[[FunctionBuilder, Any, Sequence[SSAValue]], SSAValue]

_CONTRACT = FastMathAttr((FastMathFlag.ALLOW_CONTRACT,))
_NO_SIGNED_ZEROS = FastMathAttr((FastMathFlag.NO_SIGNED_ZEROS,))
_REASSOCIATE = FastMathAttr((FastMathFlag.REASSOC,))


def _flags(op: Operation, *, contract: bool = False) -> FastMathAttr:
    own = op.properties.get("fastmath")
    flags = set(own.data) if isinstance(own, arith.FastMathFlagsAttr) else set()
    if not flags:
        return _CONTRACT if contract else _NO_FLAGS
    if contract:
        flags.add(FastMathFlag.ALLOW_CONTRACT)
    return FastMathAttr(tuple(flag for flag in FastMathFlag if flag in flags))


_NO_FLAGS = FastMathAttr(None)


def _result(op: Operation) -> Attribute:
    return lowered_type(op.results[0].type, op)


def _same(kind: type[Operation]) -> Lowering:
    """The instruction of the same operands."""
    return lambda build, op, args: build.make(kind, args, _result(op))


def _wrapping(kind: type[Operation]) -> Lowering:
    zero = {"overflowFlags": IntegerAttr(0, 32)}
    return lambda build, op, args: build.make(kind, args, _result(op), zero)


def _float(kind: type[Operation], contract: bool = False) -> Lowering:
    def lower(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        return build.make(kind, args, _result(op), {"fastmathFlags": _flags(op, contract=contract)})

    return lower


def _intrinsic(name: str, *flags_of: str) -> Lowering:
    def lower(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        result = _result(op)
        return build.intrinsic(f"llvm.{name}.{mangled(result)}", args, result)

    return lower


def _extremum(name: str) -> Lowering:
    """maximumf and minimumf give NaN if an operand is NaN, as NumPy's maximum does; the sign of zero is left open."""

    def lower(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        result = _result(op)
        return build.intrinsic(f"llvm.{name}.{mangled(result)}", args, result, _NO_SIGNED_ZEROS)

    return lower


def _math(name: str) -> Lowering:
    return lambda build, op, args: build.add(MathOp(name, args)).results[0]


def _select(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    return build.make(SelectOp, args, _result(op))


def _compare_integers(build: FunctionBuilder, op: arith.CmpiOp, args: Sequence[SSAValue]) -> SSAValue:
    return build.compare(_CMPI[op.predicate.value.data], args[0], args[1])


def _compare_floats(build: FunctionBuilder, op: arith.CmpfOp, args: Sequence[SSAValue]) -> SSAValue:
    return build.add(FCmpOp(_CMPF[op.predicate.value.data], args[0], args[1])).results[0]


_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = tuple(flag.value.lstrip("_") for flag in llvm.ALL_FCMP_FLAGS)


def _divide(kind: str, signed: bool) -> Lowering:
    """Integer division and remainder, `kind` is div, rem or floor.

    A divisor of 0 gives 0, and the smallest integer divided by -1 wraps around: both would trap. A constant divisor
    other than these needs no test.
    """

    def lower(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        a, b = args
        type = a.type
        if _is_harmless(b):
            return _plain_division(build, kind, signed, a, b)
        zero, one = build.constant(type, 0), build.constant(type, 1)
        unusable = build.compare("eq", b, zero)
        result_if_zero = zero
        if signed:
            minus = build.compare("eq", b, build.constant(type, -1))
            negated = zero if kind == "rem" else build.make(llvm.SubOp, [zero, a], type)
            either = build.make(llvm.OrOp, [unusable, minus], unusable.type)
        else:
            either, minus, negated = unusable, None, zero
        safe = build.make(SelectOp, [either, one, b], type)
        result = _plain_division(build, kind, signed, a, safe)
        if minus is not None:
            result = build.make(SelectOp, [minus, negated, result], type)
        return build.make(SelectOp, [unusable, result_if_zero, result], type)

    return lower


def _plain_division(build: FunctionBuilder, kind: str, signed: bool, a: SSAValue, b: SSAValue) -> SSAValue:
    if kind == "floor":
        return floor_division(build, a, b)
    kinds: dict[str, tuple[type[Operation], type[Operation]]] = {
        "div": (llvm.UDivOp, llvm.SDivOp),
        "rem": (llvm.URemOp, llvm.SRemOp),
    }
    return build.make(kinds[kind][signed], [a, b], a.type)


def _is_harmless(value: SSAValue) -> bool:
    owner = value.owner
    if not isinstance(owner, llvm.ConstantOp):
        return False
    if isinstance(owner.value, IntegerAttr):
        return owner.value.value.data not in (0, -1)
    if not isinstance(owner.value, DenseIntOrFPElementsAttr):
        return False
    return all(number not in (0, -1) for number in owner.value.get_values())


def _ceil_divide(signed: bool) -> Lowering:
    """-((-a) floordiv b) for signed numbers, (a + b - 1) / b without overflow for unsigned ones."""

    def lower(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        a, b = args
        type = a.type
        zero = build.constant(type, 0)
        if signed:
            negative = build.make(llvm.SubOp, [zero, a], type)
            quotient = _divide("floor", True)(build, op, [negative, b])
            return build.make(llvm.SubOp, [zero, quotient], type)
        quotient = _divide("div", False)(build, op, [a, b])
        remainder = _divide("rem", False)(build, op, [a, b])
        more = build.compare("ne", remainder, zero)
        return build.make(llvm.AddOp, [quotient, build.make(llvm.ZExtOp, [more], type)], type)

    return lower


def _shift(kind: type[Operation], name: str) -> Lowering:
    """A shift by the width or more gives what shifting bit by bit gives: 0, or the sign."""

    def lower(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        value, amount = args
        type = value.type
        element = type.element_type if isinstance(type, VectorType) else type
        assert isinstance(element, IntegerType)
        limit = build.constant(type, element.width.data - 1)
        inside = build.compare("ule", amount, limit)
        clamped = build.make(SelectOp, [inside, amount, limit], type)
        result = build.make(kind, [value, clamped], type)
        if name == "ashr":
            return result
        return build.make(SelectOp, [inside, result, build.constant(type, 0)], type)

    return lower


def _cast(kind: type[Operation]) -> Lowering:
    return lambda build, op, args: _resized(build, args[0], _result(op), kind)


def _resized(build: FunctionBuilder, value: SSAValue, type: Attribute, kind: type[Operation]) -> SSAValue:
    return value if value.type == type else build.make(kind, [value], type)


def _index_cast(signed: bool) -> Lowering:
    """Index is i64; to a wider integer by extension, to a narrower one by truncation."""

    def lower(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        type = _result(op)
        if args[0].type == type:
            return args[0]
        if _width(type) < _width(args[0].type):
            return build.make(llvm.TruncOp, args, type)
        return build.make(llvm.SExtOp if signed else llvm.ZExtOp, args, type)

    return lower


def _width(type: Attribute) -> int:
    element = type.element_type if isinstance(type, VectorType) else type
    assert isinstance(element, IntegerType)
    width: int = element.width.data
    return width


def _conversion(kind: str) -> Lowering:
    """`fptosi` and `fptoui` saturate, NaN gives 0."""
    return lambda build, op, args: build.add(CastOp(kind, args[0], _result(op))).results[0]


def _same_bits(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    """An unrealized cast between integers that differ in signedness only."""
    if len(args) != 1 or len(op.results) != 1 or args[0].type != _result(op):
        emit_error(op, "changes more than signedness and has no meaning for this target")
    return args[0]


def _constant(build: FunctionBuilder, op: arith.ConstantOp, args: Sequence[SSAValue]) -> SSAValue:
    type = _result(op)
    if isinstance(op.value, IntegerAttr | FloatAttr):
        return build.constant(type, op.value.value.data)
    return build.constant_attribute(op.value, type)


def _reciprocal_root(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    type = _result(op)
    root = build.make(llvm.FSqrtOp, args, type, {"fastmathFlags": _NO_FLAGS})
    return build.make(llvm.FDivOp, [build.constant(type, 1.0), root], type, {"fastmathFlags": _NO_FLAGS})


def _absolute_integer(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    type = _result(op)
    return build.intrinsic(f"llvm.abs.{mangled(type)}", [args[0], build.constant(i1, 0)], type)


def _integer_power(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    """x**y by squaring, for each bit of y; a negative y gives 1 / x**-y, which is 0 unless x is 1 or -1."""
    base, exponent = args
    type = base.type
    zero, one = build.constant(type, 0), build.constant(type, 1)
    result = one
    for bit in range(_width(type) - 1):
        test = build.make(llvm.AndOp, [exponent, build.constant(type, 1 << bit)], type)
        set_ = build.compare("ne", test, zero)
        product = build.make(llvm.MulOp, [result, base], type)
        result = build.make(SelectOp, [set_, product, result], type)
        base = build.make(llvm.MulOp, [base, base], type)
    x = args[0]
    odd = build.compare("ne", build.make(llvm.AndOp, [exponent, one], type), zero)
    sign = build.make(SelectOp, [odd, x, one], type)
    unit = build.make(
        llvm.OrOp, [build.compare("eq", x, one), build.compare("eq", x, build.constant(type, -1))], odd.type
    )
    inverse = build.make(SelectOp, [unit, sign, zero], type)
    return build.make(SelectOp, [build.compare("slt", exponent, zero), inverse, result], type)


def _broadcast(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    if isinstance(args[0].type, VectorType):
        emit_error(op, f"broadcasts a {args[0].type}, expected a scalar")
    return build.splat(args[0], _result(op))


def _fma(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    type = _result(op)
    return build.intrinsic(f"llvm.fmuladd.{mangled(type)}", args, type)


def _extract(build: FunctionBuilder, op: vector.ExtractOp, args: Sequence[SSAValue]) -> SSAValue:
    index = _position(build, op, args[1:])
    return build.make(ExtractElementOp, [args[0], index], _result(op))


def _insert(build: FunctionBuilder, op: vector.InsertOp, args: Sequence[SSAValue]) -> SSAValue:
    index = _position(build, op, args[2:])
    return build.make(llvm.InsertElementOp, [args[1], args[0], index], _result(op))


def _position(build: FunctionBuilder, op: vector.ExtractOp | vector.InsertOp, dynamic: Sequence[SSAValue]) -> SSAValue:
    static = list(op.static_position.iter_values())
    if len(static) != 1:
        emit_error(op, f"has {len(static)} positions, expected 1")
    return dynamic[0] if dynamic else build.constant(i64, static[0])


def _shuffle(build: FunctionBuilder, op: vector.ShuffleOp, args: Sequence[SSAValue]) -> SSAValue:
    mask = DenseArrayBase.from_list(i32, list(op.mask.get_values()))
    return build.make(llvm.ShuffleVectorOp, args, _result(op), {"mask": mask})


def _bitcast(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
    return _resized(build, args[0], _result(op), llvm.BitcastOp)


def _mask(build: FunctionBuilder, op: vector.CreateMaskOp, args: Sequence[SSAValue]) -> SSAValue:
    """Lanes 0 up to the given number: the lane's number is compared with it."""
    result = _result(op)
    if len(args) != 1:
        emit_error(op, f"has {len(args)} dimensions, expected 1")
    numbers = lane_numbers(build, lanes(result))
    return build.compare("slt", numbers, build.splat(args[0], numbers.type))


def lane_numbers(build: FunctionBuilder, count: int) -> SSAValue:
    """The vector 0, 1, 2, ..."""
    type = VectorType(i64, [count])
    return build.constant_attribute(DenseIntOrFPElementsAttr.from_list(type, list(range(count))), type)


def _reduction(build: FunctionBuilder, op: vector.ReductionOp, args: Sequence[SSAValue]) -> SSAValue:
    """Combines the lanes in any order: who asks for a vector reduction asks for that."""
    kind = op.kind.data.value
    source, result = args[0], _result(op)
    name, combine = _REDUCTIONS[kind]
    symbol = f"llvm.vector.reduce.{name}.{mangled(source.type)}"
    if kind in ("add", "mul") and not isinstance(result, IntegerType):
        start = args[1] if len(args) > 1 else build.constant(result, 0.0 if kind == "add" else 1.0)
        return build.intrinsic(
            f"llvm.vector.reduce.f{kind}.{mangled(source.type)}", [start, source], result, _REASSOCIATE
        )
    value = build.intrinsic(symbol, [source], result)
    if len(args) == 1:
        return value
    if isinstance(combine, str):
        return build.intrinsic(f"llvm.{combine}.{mangled(result)}", [args[1], value], result)
    return build.make(combine, [args[1], value], result)


_REDUCTIONS: dict[str, tuple[str, str | type[Operation]]] = {
    "add": ("add", llvm.AddOp),
    "mul": ("mul", llvm.MulOp),
    "and": ("and", llvm.AndOp),
    "or": ("or", llvm.OrOp),
    "xor": ("xor", llvm.XOrOp),
    "minsi": ("smin", "smin"),
    "maxsi": ("smax", "smax"),
    "minui": ("umin", "umin"),
    "maxui": ("umax", "umax"),
    "minnumf": ("fmin", "minnum"),
    "maxnumf": ("fmax", "maxnum"),
    "minimumf": ("fminimum", "minimum"),
    "maximumf": ("fmaximum", "maximum"),
}

_MATH_FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "exp2"),
    *("expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
)

_ALL_TYPES: dict[str, Lowering] = {
    "arith.constant": _constant,
    "arith.addf": _float(llvm.FAddOp, contract=True),
    "arith.subf": _float(llvm.FSubOp, contract=True),
    "arith.mulf": _float(llvm.FMulOp, contract=True),
    "arith.divf": _float(llvm.FDivOp),
    "arith.negf": _float(llvm.FNegOp),
    "arith.remf": _float(llvm.FRemOp),
    "arith.maximumf": _extremum("maximum"),
    "arith.minimumf": _extremum("minimum"),
    "arith.maxnumf": _extremum("maxnum"),
    "arith.minnumf": _extremum("minnum"),
    "arith.addi": _wrapping(llvm.AddOp),
    "arith.subi": _wrapping(llvm.SubOp),
    "arith.muli": _wrapping(llvm.MulOp),
    "arith.divsi": _divide("div", True),
    "arith.divui": _divide("div", False),
    "arith.remsi": _divide("rem", True),
    "arith.remui": _divide("rem", False),
    "arith.floordivsi": _divide("floor", True),
    "arith.ceildivsi": _ceil_divide(True),
    "arith.ceildivui": _ceil_divide(False),
    "arith.andi": _same(llvm.AndOp),
    "arith.ori": _same(llvm.OrOp),
    "arith.xori": _same(llvm.XOrOp),
    "arith.shli": _shift(llvm.ShlOp, "shl"),
    "arith.shrsi": _shift(llvm.AShrOp, "ashr"),
    "arith.shrui": _shift(llvm.LShrOp, "lshr"),
    "arith.maxsi": _intrinsic("smax"),
    "arith.minsi": _intrinsic("smin"),
    "arith.maxui": _intrinsic("umax"),
    "arith.minui": _intrinsic("umin"),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.extf": extend_float,
    "arith.truncf": truncate_float,
    "arith.extsi": _cast(llvm.SExtOp),
    "arith.extui": _cast(llvm.ZExtOp),
    "arith.trunci": _cast(llvm.TruncOp),
    "arith.sitofp": _cast(llvm.SIToFPOp),
    "arith.uitofp": _conversion("uitofp"),
    "arith.fptosi": _conversion("fptosi"),
    "arith.fptoui": _conversion("fptoui"),
    "arith.bitcast": _bitcast,
    "arith.index_cast": _index_cast(True),
    "arith.index_castui": _index_cast(False),
    "builtin.unrealized_conversion_cast": _same_bits,
    "math.absf": _intrinsic("fabs"),
    "math.absi": _absolute_integer,
    "math.ceil": _intrinsic("ceil"),
    "math.floor": _intrinsic("floor"),
    "math.trunc": _intrinsic("trunc"),
    "math.round": _intrinsic("round"),
    "math.roundeven": _intrinsic("roundeven"),
    "math.sqrt": _intrinsic("sqrt"),
    "math.rsqrt": _reciprocal_root,
    "math.copysign": _intrinsic("copysign"),
    "math.fma": _fma,
    "math.ipowi": _integer_power,
    "math.powf": _math("pow"),
    "vector.broadcast": _broadcast,
    "vector.fma": _fma,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.shuffle": _shuffle,
    "vector.bitcast": _bitcast,
    "vector.create_mask": _mask,
    "vector.reduction": _reduction,
    **{f"math.{name}": _math(name) for name in _MATH_FUNCTIONS},
}

_AS_THEY_ARE = frozenset(
    {
        *("arith.constant", "arith.select", "arith.extf", "arith.truncf", "arith.bitcast"),
        *(f"vector.{name}" for name in ("broadcast", "extract", "insert", "shuffle", "bitcast")),
    }
)
"""Operations that hand their operands on, or convert them by themselves."""

ELEMENT_OPS: dict[str, Lowering] = {
    name: lower if name in _AS_THEY_ARE else in_single(lower) for name, lower in _ALL_TYPES.items()
}
