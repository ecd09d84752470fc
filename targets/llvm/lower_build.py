"""Building functions of the `llvm` dialect: types, constants and the few instructions that lowering needs often.

A `FunctionBuilder` appends to its current block. Constants and stack buffers go to an entry block of their own, which
branches to the first block of code when the function is finished, so they dominate every use. Operations are made with
`create`, without the constructors' checks: a model has tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...core.diagnostics import Located, emit_error
from .dialect import UNROLL_ATTRIBUTE, SplatOp, lanes

POINTER = llvm.LLVMPointerType()
NO_WRAP = {"overflowFlags": IntegerAttr(1, 32)}
NO_WRAP_AT_ALL = {"overflowFlags": IntegerAttr(3, 32)}
BUFFER_ALIGNMENT = 64
"""Bytes: of kernel arguments by the calling convention, and of stack buffers."""


@cache
def _lowered(type: Attribute) -> Attribute | None:
    match type:
        case IndexType():
            return i64
        case IntegerType():
            return IntegerType(type.width.data)
        case Float16Type() | BFloat16Type() | Float32Type() | Float64Type():
            return type
        case MemRefType():
            return POINTER
        case VectorType() if type.get_num_dims() == 1 and not type.get_num_scalable_dims():
            element = _lowered(type.element_type)
            return None if element is None else VectorType(element, type.get_shape())
    return None


def lowered_type(type: Attribute, where: Located) -> Attribute:
    """The LLVM type of a value: index is i64, integers lose their sign, a memref is a pointer."""
    result = _lowered(type)
    if result is None:
        emit_error(where, f"has type {type}, which this target cannot represent")
    return result


def storage_type(type: Attribute) -> Attribute:
    """The type in memory of a lowered value: booleans take a byte each."""
    if type == i1:
        return i8
    if isinstance(type, VectorType) and type.element_type == i1:
        return VectorType(i8, type.get_shape())
    return type


def element_bytes(type: Attribute) -> int:
    """The size of an element in memory, in bytes."""
    element = storage_type(type.element_type if isinstance(type, VectorType) else type)
    size: int = element.size  # type: ignore[attr-defined]
    return size


def _number_attribute(type: Attribute, value: float | int) -> Attribute:
    element = type.element_type if isinstance(type, VectorType) else type
    scalar: IntegerAttr | FloatAttr
    if isinstance(element, IntegerType):
        scalar = IntegerAttr(int(value), element, truncate_bits=True)
    else:
        scalar = FloatAttr(float(value), element)  # type: ignore[arg-type]
    if isinstance(type, VectorType):
        return DenseIntOrFPElementsAttr.from_list(type, [scalar.value.data])
    return scalar


@lru_cache(maxsize=64)
def _alignment(bytes: int) -> IntegerAttr:
    return IntegerAttr(bytes, i64)


@lru_cache(maxsize=32)
def _predicate(name: str) -> IntegerAttr:
    return IntegerAttr(llvm.ICmpPredicateFlag(name).to_int(), i64)


class FunctionBuilder:
    """One `llvm.func` under construction, and where in it the next operation goes."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[Attribute],
        attributes: Sequence[dict[str, Attribute]],
        linkage: str,
        location: LocationAttr,
    ) -> None:
        self.name = name
        self.location = location
        self.entry = Block(arg_types=arguments)
        self._first = Block()
        self._blocks = [self.entry, self._first]
        self.block = self._first
        self._numbers: dict[tuple[Attribute, float | int, str], SSAValue] = {}
        self._constants: dict[tuple[Attribute, Attribute], SSAValue] = {}
        self._head = (arguments, attributes, linkage)

    @property
    def arguments(self) -> Sequence[SSAValue]:
        return self.entry.args

    def finish(self) -> llvm.FuncOp:
        """The function, after the last block has got its terminator."""
        self.entry.add_op(llvm.BrOp.create(successors=[self._first]))
        arguments, attributes, linkage = self._head
        argument_attributes = ArrayAttr([DictionaryAttr(each) for each in attributes])
        function = llvm.FuncOp(
            self.name,
            llvm.LLVMFunctionType(list(arguments)),
            llvm.LinkageAttr(linkage),
            body=Region(self._blocks),
            other_props={
                "arg_attrs": argument_attributes,
                "no_unwind": UnitAttr(),
                "unnamed_addr": IntegerAttr(0, i64),
            },
        )
        function.location = self.location
        return function

    # Blocks.
    def new_block(self, *types: Attribute) -> Block:
        block = Block(arg_types=types)
        self._blocks.append(block)
        return block

    def enter(self, block: Block) -> None:
        """Continue in the block."""
        self.block = block

    def branch(self, target: Block, *values: SSAValue) -> None:
        self.add(llvm.BrOp.create(operands=values, successors=[target]))

    def branch_if(
        self,
        condition: SSAValue,
        then: Block,
        then_values: Sequence[SSAValue],
        other: Block,
        other_values: Sequence[SSAValue],
        unroll: str | None = None,
    ) -> None:
        op = llvm.CondBrOp(condition, then, then_values, other, other_values)
        if unroll is not None:
            op.attributes[UNROLL_ATTRIBUTE] = StringAttr(unroll)
        self.add(op)

    # Operations.
    def add(self, op: Operation) -> Operation:
        op.location = self.location
        self.block.add_op(op)
        return op

    def make(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        type: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """An operation with one result."""
        op = kind.create(operands=operands, result_types=[type], properties=properties or {})
        return self.add(op).results[0]

    def intrinsic(
        self, name: str, operands: Sequence[SSAValue], type: Attribute, flags: llvm.FastMathAttr | None = None
    ) -> SSAValue:
        """A call of an LLVM intrinsic by its full name."""
        op = llvm.CallIntrinsicOp(name, operands, [type])
        if flags is not None:
            op.properties["fastmathFlags"] = flags
        return self.add(op).results[0]

    def constant(self, type: Attribute, value: float | int) -> SSAValue:
        """A number as a scalar, or in every lane of a vector."""
        # The sign distinguishes the two zeros, which compare equal.
        key = (type, value, str(value))
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self.constant_attribute(_number_attribute(type, value), type)
        return found

    def constant_attribute(self, value: Attribute, type: Attribute) -> SSAValue:
        """A constant given by its attribute."""
        found = self._constants.get((value, type))
        if found is None:
            op = llvm.ConstantOp.create(result_types=[type], properties={"value": value})
            op.location = self.location
            self.entry.add_op(op)
            found = self._constants[value, type] = op.results[0]
        return found

    def integer(self, value: int) -> SSAValue:
        return self.constant(i64, value)

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """An integer comparison by LLVM's name of the predicate."""
        type = lhs.type
        result = VectorType(i1, type.get_shape()) if isinstance(type, VectorType) else i1
        return self.make(llvm.ICmpOp, [lhs, rhs], result, {"predicate": _predicate(predicate)})

    def splat(self, value: SSAValue, type: Attribute) -> SSAValue:
        """The value in every lane of the vector type; a scalar stays."""
        return value if not isinstance(type, VectorType) else self.make(SplatOp, [value], type)

    # Memory.
    def stack_buffer(self, element: Attribute, count: int) -> SSAValue:
        """A buffer for the whole call of the function."""
        op = llvm.AllocaOp(self.integer(1), llvm.LLVMArrayType(IntAttr(count), element), BUFFER_ALIGNMENT)
        op.location = self.location
        self.entry.add_op(op)
        return op.results[0]

    def stack_struct(self, type: llvm.LLVMStructType) -> SSAValue:
        op = llvm.AllocaOp(self.integer(1), type, BUFFER_ALIGNMENT)
        op.location = self.location
        self.entry.add_op(op)
        return op.results[0]

    def element_pointer(self, base: SSAValue, element: Attribute, index: SSAValue) -> SSAValue:
        """The address of base[index]."""
        return self._pointer(base, element, [index], _ONE_DYNAMIC)

    def field_pointer(self, base: SSAValue, type: Attribute, number: int) -> SSAValue:
        """The address of a field of the struct, or of element `number` of an array of 8-byte fields."""
        constants = [0, number] if isinstance(type, llvm.LLVMStructType) else [number]
        return self._pointer(base, type, [], DenseArrayBase.from_list(i32, constants))

    def _pointer(self, base: SSAValue, element: Attribute, indices: Sequence[SSAValue], constants: Any) -> SSAValue:
        properties = {
            "elem_type": element,
            "noWrapFlags": _NO_FLAGS,
            "rawConstantIndices": constants,
            "inbounds": _UNIT,
        }
        return self.make(llvm.GEPOp, [base, *indices], POINTER, properties)

    def load(self, pointer: SSAValue, type: Attribute, alignment: int) -> SSAValue:
        """A value of the lowered type; booleans are read from bytes."""
        stored = storage_type(type)
        properties: dict[str, Attribute] = {"alignment": _alignment(alignment), "ordering": _NOT_ATOMIC}
        value = self.make(llvm.LoadOp, [pointer], stored, properties)
        if stored is type:
            return value
        return self.compare("ne", value, self.constant(stored, 0))

    def store(self, value: SSAValue, pointer: SSAValue, alignment: int) -> None:
        stored = storage_type(value.type)
        if stored is not value.type:
            value = self.make(llvm.ZExtOp, [value], stored)
        properties: dict[str, Attribute] = {"alignment": _alignment(alignment), "ordering": _NOT_ATOMIC}
        self.add(llvm.StoreOp.create(operands=[value, pointer], properties=properties))


_ONE_DYNAMIC = DenseArrayBase.from_list(i32, [llvm.GEP_USE_SSA_VAL])
_NO_FLAGS = IntegerAttr(0, 32)
_UNIT = UnitAttr()
_NOT_ATOMIC = IntegerAttr(0, i64)

__all__ = ["BUFFER_ALIGNMENT", "FunctionBuilder", "element_bytes", "lanes", "lowered_type", "storage_type"]
