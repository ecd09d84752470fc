"""Floating point that not every processor has instructions for: `bf16` arithmetic and conversions to halves.

LLVM turns what a processor lacks into calls of its compiler runtime (`__truncsfbf2`, `__truncdfhf2`), which emitted
code does not have. So arithmetic on `bf16` is single precision with every result rounded, and conversions are written
out in integers; results are the same bits on all machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    VectorType,
    f32,
    i1,
    i16,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from .dialect import FCmpOp, SelectOp
from .emit_types import mangled
from .lower_build import FunctionBuilder, lowered_type

Lowering = Callable[[FunctionBuilder, Any, Sequence[SSAValue]], SSAValue]
_WRAPS = {"overflowFlags": IntegerAttr(0, 32)}


def element(type: Attribute) -> Attribute:
    """The type of the lanes of a vector, or the scalar type itself."""
    return type.element_type if isinstance(type, VectorType) else type


def like(type: Attribute, wanted: Attribute) -> Attribute:
    """`wanted` in as many lanes as `type` has."""
    return VectorType(wanted, type.get_shape()) if isinstance(type, VectorType) else wanted


def in_single(lower: Lowering) -> Lowering:
    """The lowering, with `bf16` operands extended and a `bf16` result rounded; other types are left to it."""

    def lower_widened(build: FunctionBuilder, op: Operation, args: Sequence[SSAValue]) -> SSAValue:
        types = [*(arg.type for arg in args), op.results[0].type]
        if not any(isinstance(element(type), BFloat16Type) for type in types):
            return lower(build, op, args)
        wide = [_extended(build, arg) for arg in args]
        result = op.results[0].type
        if not isinstance(element(result), BFloat16Type):
            return lower(build, op, wide)
        view = type(op).create(
            operands=op.operands, result_types=[like(result, f32)], properties=op.properties, attributes=op.attributes
        )
        view.location = op.location
        value = round_to_bf16(build, lower(build, view, wide))
        view.erase()
        return value

    return lower_widened


def _extended(build: FunctionBuilder, value: SSAValue) -> SSAValue:
    """A `bf16` as the upper half of a single. LLVM would compute `floor(fpext x)` as `fpext(floor x)`: in `bf16`."""
    if not isinstance(element(value.type), BFloat16Type):
        return value
    wide = like(value.type, i32)
    bits = build.make(llvm.BitcastOp, [value], like(value.type, i16))
    upper = build.make(llvm.ShlOp, [build.make(llvm.ZExtOp, [bits], wide), build.constant(wide, 16)], wide, _WRAPS)
    return build.make(llvm.BitcastOp, [upper], like(value.type, f32))


def extend_float(build: FunctionBuilder, op: arith.ExtFOp, args: Sequence[SSAValue]) -> SSAValue:
    """`arith.extf`."""
    value, result = _extended(build, args[0]), lowered_type(op.results[0].type, op)
    return value if value.type == result else build.make(llvm.FPExtOp, [value], result)


def truncate_float(build: FunctionBuilder, op: arith.TruncFOp, args: Sequence[SSAValue]) -> SSAValue:
    """`arith.truncf`; doubles become halves by way of single precision."""
    (value,), result = args, lowered_type(op.results[0].type, op)
    if value.type == result:
        return value
    half = isinstance(element(result), Float16Type | BFloat16Type)
    if half and isinstance(element(value.type), Float64Type):
        value = _round_to_odd_single(build, value)
    if isinstance(element(result), BFloat16Type):
        return round_to_bf16(build, value)
    return build.make(llvm.FPTruncOp, [value], result)


def round_to_bf16(build: FunctionBuilder, x: SSAValue) -> SSAValue:
    """The upper half of a single, rounded to nearest, ties to even; a NaN stays one.

    Adding 0x7fff, and 1 if the upper half is odd, carries into the upper half where it has to be rounded up.
    """
    type = like(x.type, i32)
    sixteen, one = build.constant(type, 16), build.constant(type, 1)
    bits = build.make(llvm.BitcastOp, [x], type)
    odd = build.make(llvm.AndOp, [build.make(llvm.LShrOp, [bits, sixteen], type), one], type)
    bias = build.make(llvm.AddOp, [odd, build.constant(type, 0x7FFF)], type, _WRAPS)
    rounded = build.make(llvm.AddOp, [bits, bias], type, _WRAPS)
    quiet = build.make(llvm.OrOp, [bits, build.constant(type, 0x400000)], type)
    is_nan = build.add(FCmpOp("uno", x, x)).results[0]
    chosen = build.make(SelectOp, [is_nan, quiet, rounded], type)
    upper = build.make(llvm.LShrOp, [chosen, sixteen], type)
    narrow = build.make(llvm.TruncOp, [upper], like(x.type, i16))
    return build.make(llvm.BitcastOp, [narrow], like(x.type, BFloat16Type()))


def _round_to_odd_single(build: FunctionBuilder, x: SSAValue) -> SSAValue:
    """The double as single precision: itself where it is one, else the neighbour whose last bit is set.

    Rounding that to a type of 22 bits of precision or less gives what rounding the double directly gives (Boldo and
    Melquiond, *Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd*, 2008). The
    nearest single is taken, and where it is even and not exact, the next one on the other side of the double.
    """
    wide, bits = x.type, like(x.type, i32)
    near = build.make(llvm.FPTruncOp, [x], like(x.type, Float32Type()))
    again = build.make(llvm.FPExtOp, [near], wide)
    inexact = build.add(FCmpOp("one", again, x)).results[0]
    outward = build.add(FCmpOp("olt", _magnitude(build, again), _magnitude(build, x))).results[0]
    number = build.make(llvm.BitcastOp, [near], bits)
    last = build.make(llvm.AndOp, [number, build.constant(bits, 1)], bits)
    even = build.compare("eq", last, build.constant(bits, 0))
    step = build.make(SelectOp, [outward, build.constant(bits, 1), build.constant(bits, -1)], bits)
    moved = build.make(llvm.AddOp, [number, step], bits, _WRAPS)
    moves = build.make(llvm.AndOp, [inexact, even], like(x.type, i1))
    return build.make(llvm.BitcastOp, [build.make(SelectOp, [moves, moved, number], bits)], near.type)


def _magnitude(build: FunctionBuilder, x: SSAValue) -> SSAValue:
    return build.intrinsic(f"llvm.fabs.{mangled(x.type)}", [x], x.type)
