"""A builder for the ``c`` dialect: appends operations to the current block, and knows C's types of our types.

It also holds the arithmetic that C does not give away for nothing: integers that wrap around are computed in unsigned
types of at least 32 bits, narrow ones are widened and cut off again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure

from ...core.diagnostics import emit_error
from .dialect import ArrayOp, BinaryOp, CallOp, CastOp, ComparisonOp, ConstantOp, LoadOp, SelectOp
from .types import ConstPointerType, PointerType, is_number, is_scalar

UI8 = IntegerType(8, Signedness.UNSIGNED)


def value_type(type: Attribute, op: Operation) -> Attribute:
    """The type that a scalar of loop IR has in C: an index is ``int64_t``; an error names ``op``."""
    if isinstance(type, IndexType):
        return i64
    if not is_scalar(type):
        emit_error(op, f"has a value of type {type}, which portable C lacks")
    return type


def storage_type(type: Attribute, op: Operation) -> Attribute:
    """The type of elements in memory: booleans are bytes, whatever ``bool`` is for the compiler."""
    return UI8 if type == i1 else value_type(type, op)


def pointer_type(type: Attribute, op: Operation, const: bool = False) -> Attribute:
    """The pointer that a memref becomes."""
    assert isinstance(type, MemRefType)
    element = storage_type(type.element_type, op)
    return ConstPointerType(element) if const else PointerType(element)


def width_of(type: Attribute) -> int:
    """Bits of an integer."""
    assert isinstance(type, IntegerType)
    width: int = type.width.data
    return width


def unsigned(type: Attribute) -> IntegerType:
    """The unsigned type that C computes in for integers of this width."""
    return IntegerType(max(32, width_of(type)), Signedness.UNSIGNED)


class Builder:
    """Appends to ``block``; every operation made gets the location ``location``."""

    def __init__(self, block: Block, origin: Operation) -> None:
        self.block = block
        self.location = origin.location

    def add(self, op: Operation) -> Operation:
        """Append an operation."""
        op.location = self.location
        self.block.add_op(op)
        return op

    def value(self, op: Operation) -> SSAValue:
        """Append an operation and give its result."""
        return self.add(op).results[0]

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Append to another block meanwhile."""
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer

    # Values.

    def integer(self, value: int, type: Attribute = i64) -> SSAValue:
        """A literal, as a signed number where the type is signed."""
        if type == i1:
            return self.value(ConstantOp(IntegerAttr(value & 1, i1)))
        assert isinstance(type, IntegerType)
        width = type.width.data
        value &= (1 << width) - 1
        if type.signedness.data is not Signedness.UNSIGNED and value >> (width - 1):
            value -= 1 << width
        return self.value(ConstantOp(IntegerAttr(value, type)))

    def number(self, value: float, type: Attribute) -> SSAValue:
        """A literal of any number type."""
        if isinstance(type, IntegerType):
            return self.integer(int(value), type)
        assert isinstance(type, Float32Type | Float64Type)
        return self.value(ConstantOp(FloatAttr(value, type)))

    def cast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """``(type)value``; what has the type already stays."""
        return value if value.type == type else self.value(CastOp(value, type))

    def call(self, callee: str, arguments: Sequence[SSAValue], result: Attribute) -> SSAValue:
        return self.value(CallOp(callee, arguments, result))

    def compare(self, lhs: SSAValue, operator: str, rhs: SSAValue) -> SSAValue:
        return self.value(ComparisonOp(lhs, operator, rhs))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(SelectOp(condition, a, b))

    def plain(self, lhs: SSAValue, operator: str, rhs: SSAValue) -> SSAValue:
        """``lhs operator rhs`` as C has it: no overflow of signed numbers, no narrow types."""
        return self.value(BinaryOp(lhs, operator, rhs))

    def wrapping(self, lhs: SSAValue, operator: str, rhs: SSAValue) -> SSAValue:
        """``+``, ``-``, ``*``, ``&``, ``|`` or ``^`` of integers of any width, modulo two to the width."""
        type = lhs.type
        wide = unsigned(type)
        return self.cast(self.plain(self.cast(lhs, wide), operator, self.cast(rhs, wide)), type)

    def widened(self, value: SSAValue) -> SSAValue:
        """A narrow integer as ``int32_t``."""
        return self.cast(value, i32) if isinstance(value.type, IntegerType) and width_of(value.type) < 32 else value

    def as_unsigned(self, value: SSAValue) -> SSAValue:
        """The bits of a signed integer as an unsigned number of the same width."""
        return self.cast(value, IntegerType(width_of(value.type), Signedness.UNSIGNED))


def erase_unused(function: Operation) -> None:
    """Erase the operations of a function whose results nobody uses; compilers complain about them."""
    for op in reversed(list(function.walk())):
        silent = op.has_trait(Pure) or isinstance(op, LoadOp | ArrayOp) or (isinstance(op, CallOp) and op.results)
        if silent and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)


__all__ = [
    "UI8",
    "Builder",
    "erase_unused",
    "is_number",
    "pointer_type",
    "storage_type",
    "unsigned",
    "value_type",
    "width_of",
]
