"""Scalar code inside a ``te.compute``: element values with the usual operators, over ``arith`` and ``math``.

A lowering writes ``e.select(x < zero, x * slope, x)``; which op that takes (float, signed or unsigned) is decided
here, once. ``arith`` works on signless integers: an element of an unsigned type is held as a signless value beside
its own type.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

I1 = IntegerType(1)

_UNARY: dict[str, Callable[[SSAValue], Operation]] = {
    "exp": math.ExpOp,
    "log": math.LogOp,
    "sqrt": math.SqrtOp,
    "rsqrt": math.RsqrtOp,
    "tanh": math.TanhOp,
    "erf": math.ErfOp,
    "sin": math.SinOp,
    "cos": math.CosOp,
    "tan": math.TanOp,
    "asin": math.AsinOp,
    "acos": math.AcosOp,
    "atan": math.AtanOp,
    "sinh": math.SinhOp,
    "cosh": math.CoshOp,
    "asinh": math.AsinhOp,
    "acosh": math.AcoshOp,
    "atanh": math.AtanhOp,
    "floor": math.FloorOp,
    "ceil": math.CeilOp,
    "roundeven": math.RoundEvenOp,
    "round": math.RoundOp,
    "trunc": math.TruncOp,
    "log1p": math.Log1pOp,
    "expm1": math.ExpM1Op,
}

# name -> (float, signed, unsigned)
_Binary = Callable[[SSAValue, SSAValue], Operation]
_BINARY: dict[str, tuple[_Binary | None, _Binary, _Binary]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "div": (arith.DivfOp, arith.DivSIOp, arith.DivUIOp),
    "rem": (None, arith.RemSIOp, arith.RemUIOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
    "and": (None, arith.AndIOp, arith.AndIOp),
    "or": (None, arith.OrIOp, arith.OrIOp),
    "xor": (None, arith.XOrIOp, arith.XOrIOp),
    "shl": (None, arith.ShLIOp, arith.ShLIOp),
    "shr": (None, arith.ShRSIOp, arith.ShRUIOp),
}

# name -> (float, signed, unsigned); a comparison with NaN is false, "ne" is true
_COMPARE = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}


def is_float(type_: Attribute) -> bool:
    """Whether the elements are floating point."""
    return isinstance(type_, AnyFloat)


def is_unsigned(type_: Attribute) -> bool:
    """Whether the elements are integers without a sign; ``i1`` counts as one, so that true is 1."""
    return isinstance(type_, IntegerType) and (
        type_.signedness.data is Signedness.UNSIGNED or type_.width.data == 1
    )


def storage_type(type_: Attribute) -> Attribute:
    """The type that ``arith`` computes in: the signless integer of the same width."""
    if isinstance(type_, IntegerType) and type_.signedness.data is not Signedness.SIGNLESS:
        return IntegerType(type_.width.data)
    return type_


def accumulator_type(type_: Attribute) -> Attribute:
    """The type in which sums of such elements are kept: half precision sums in single precision."""
    return Float32Type() if isinstance(type_, Float16Type | BFloat16Type) else type_


def lowest(type_: Attribute) -> float | int:
    """The identity of max."""
    if is_float(type_):
        return -pymath.inf
    assert isinstance(type_, IntegerType)
    width: int = type_.width.data
    return 0 if is_unsigned(type_) else -(1 << (width - 1))


def highest(type_: Attribute) -> float | int:
    """The identity of min."""
    if is_float(type_):
        return pymath.inf
    assert isinstance(type_, IntegerType)
    width: int = type_.width.data
    return (1 << width) - 1 if is_unsigned(type_) else (1 << (width - 1)) - 1


@dataclass(frozen=True, eq=False)
class Elem:
    """One element value; ``type`` tells signedness, ``value`` is of its storage type."""

    code: ElementCode
    value: SSAValue
    type: Attribute

    def __add__(self, other: Operand) -> Elem:
        return self.code.binary("add", self, other)

    def __radd__(self, other: Operand) -> Elem:
        return self.code.binary("add", self.code.like(other, self), self)

    def __sub__(self, other: Operand) -> Elem:
        return self.code.binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Elem:
        return self.code.binary("sub", self.code.like(other, self), self)

    def __mul__(self, other: Operand) -> Elem:
        return self.code.binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Elem:
        return self.code.binary("mul", self.code.like(other, self), self)

    def __truediv__(self, other: Operand) -> Elem:
        return self.code.binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Elem:
        return self.code.binary("div", self.code.like(other, self), self)

    def __and__(self, other: Operand) -> Elem:
        return self.code.binary("and", self, other)

    def __or__(self, other: Operand) -> Elem:
        return self.code.binary("or", self, other)

    def __xor__(self, other: Operand) -> Elem:
        return self.code.binary("xor", self, other)

    def __neg__(self) -> Elem:
        if is_float(self.type):
            return self.code.emit(arith.NegfOp(self.value), self.type)
        return 0 - self

    def __lt__(self, other: Operand) -> Elem:
        return self.code.compare("lt", self, other)

    def __le__(self, other: Operand) -> Elem:
        return self.code.compare("le", self, other)

    def __gt__(self, other: Operand) -> Elem:
        return self.code.compare("gt", self, other)

    def __ge__(self, other: Operand) -> Elem:
        return self.code.compare("ge", self, other)


Operand = Elem | int | float


class ElementCode:
    """Appends element ops to a block; equal constants are made once."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._constants: dict[tuple[str, Attribute], Elem] = {}

    def emit(self, op: Operation, type_: Attribute | None = None) -> Elem:
        """Append ``op``; its result is an element of ``type_`` (default: the result's own type)."""
        self.block.add_op(op)
        return Elem(self, op.results[0], op.results[0].type if type_ is None else type_)

    def constant(self, value: float | int | bool, type_: Attribute) -> Elem:
        """A constant element."""
        key = (repr(value), type_)
        if key not in self._constants:
            storage = storage_type(type_)
            attr: Any
            if isinstance(storage, AnyFloat):
                attr = FloatAttr(float(value), storage)
            else:
                assert isinstance(storage, IntegerType | IndexType)
                attr = IntegerAttr(int(value), storage, truncate_bits=True)
            self._constants[key] = self.emit(arith.ConstantOp(attr), type_)
        return self._constants[key]

    def like(self, value: Operand, other: Elem) -> Elem:
        """``value`` as an element of the other's type."""
        return value if isinstance(value, Elem) else self.constant(value, other.type)

    def binary(self, name: str, a: Elem, b: Operand) -> Elem:
        """An op of ``_BINARY``; max and min hand a NaN on, integer division rounds to zero."""
        b = self.like(b, a)
        assert a.type == b.type, f"{name} of {a.type} and {b.type}"
        made = _BINARY[name][0 if is_float(a.type) else 2 if is_unsigned(a.type) else 1]
        assert made is not None, f"{name} of {a.type}"
        return self.emit(made(a.value, b.value), a.type)

    def max(self, a: Elem, b: Operand) -> Elem:
        """The larger; NaN if one is NaN."""
        return self.binary("max", a, b)

    def min(self, a: Elem, b: Operand) -> Elem:
        """The smaller; NaN if one is NaN."""
        return self.binary("min", a, b)

    def compare(self, name: str, a: Elem, b: Operand) -> Elem:
        """``eq ne lt le gt ge``; with NaN all but ``ne`` are false."""
        b = self.like(b, a)
        assert a.type == b.type, f"comparison of {a.type} and {b.type}"
        kinds = _COMPARE[name]
        if is_float(a.type):
            return self.emit(arith.CmpfOp(a.value, b.value, kinds[0]))
        return self.emit(arith.CmpiOp(a.value, b.value, kinds[2 if is_unsigned(a.type) else 1]))

    def select(self, condition: Elem, a: Operand, b: Operand) -> Elem:
        """``a`` where the condition holds, else ``b``."""
        known = a if isinstance(a, Elem) else b
        assert isinstance(known, Elem)
        a, b = self.like(a, known), self.like(b, known)
        return self.emit(arith.SelectOp(condition.value, a.value, b.value), a.type)

    def unary(self, name: str, x: Elem) -> Elem:
        """A function of ``_UNARY`` on floating-point elements."""
        return self.emit(_UNARY[name](x.value), x.type)

    def abs(self, x: Elem) -> Elem:
        """The absolute value (of the smallest integer: itself)."""
        if is_float(x.type):
            return self.emit(math.AbsFOp(x.value), x.type)
        return x if is_unsigned(x.type) else self.select(x < 0, -x, x)

    def logical_not(self, x: Elem) -> Elem:
        """Negation of an ``i1``."""
        return x ^ self.constant(1, I1)

    def cast(self, x: Elem, type_: Attribute) -> Elem:
        """Convert; float to integer rounds to zero, to ``i1`` is "not zero", integers wrap."""
        if x.type == type_:
            return x
        if type_ == I1:
            return self.compare("ne", x, 0)
        source, target = x.value.type, storage_type(type_)
        made = self._cast_op(x, source, target, type_)
        return Elem(self, x.value, type_) if made is None else self.emit(made, type_)

    @staticmethod
    def _cast_op(x: Elem, source: Attribute, target: Attribute, type_: Attribute) -> Operation | None:
        if isinstance(source, IndexType) or isinstance(target, IndexType):
            if is_float(source) or is_float(target):
                raise TypeError(f"cast of {source} to {target} needs an integer between")
            return arith.IndexCastOp(x.value, target)
        if isinstance(source, AnyFloat) and isinstance(target, AnyFloat):
            if target.bitwidth == source.bitwidth:  # f16 and bf16
                wide = arith.ExtFOp(x.value, Float32Type())
                x.code.block.add_op(wide)
                return arith.TruncFOp(wide.result, target)
            return (arith.ExtFOp if target.bitwidth > source.bitwidth else arith.TruncFOp)(x.value, target)
        if isinstance(source, AnyFloat):
            assert isinstance(target, IntegerType)
            return (arith.FPToUIOp if is_unsigned(type_) else arith.FPToSIOp)(x.value, target)
        assert isinstance(source, IntegerType)
        if isinstance(target, AnyFloat):
            return (arith.UIToFPOp if is_unsigned(x.type) else arith.SIToFPOp)(x.value, target)
        assert isinstance(target, IntegerType)
        if target.width.data == source.width.data:
            return None
        if target.width.data < source.width.data:
            return arith.TruncIOp(x.value, target)
        return (arith.ExtUIOp if is_unsigned(x.type) else arith.ExtSIOp)(x.value, target)

    def from_storage(self, value: SSAValue, type_: Attribute) -> Elem:
        """The element that ``value``, of the tensor's element type, is."""
        if storage_type(type_) == type_:
            return Elem(self, value, type_)
        return self.emit(UnrealizedConversionCastOp.get([value], [storage_type(type_)]), type_)

    def to_storage(self, x: Elem) -> SSAValue:
        """The value of the tensor's element type."""
        if x.value.type == x.type:
            return x.value
        return self.emit(UnrealizedConversionCastOp.get([x.value], [x.type])).value
