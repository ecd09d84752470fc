"""The `tllvm` dialect: the operations of LLVM IR that xDSL's `llvm` dialect lacks.

A kernel for LLVM is a module of xDSL's own `llvm` dialect wherever that has the operation. It has no vector
`fcmp` and `select`, no `extractelement`, no masked or gathering memory access, no conversions between
floats and unsigned integers, and no vector math; those are here, under another name, since two dialects of
one name clash. `emit.py` turns both into LLVM IR text, one line per operation or nearly so.

A branch that closes a loop may carry the attribute `tllvm.unroll`: `"full"` or `"disable"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I1,
    AnyFloatConstr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.llvm import ALL_FCMP_FLAGS, LLVMPointerType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    irdl_to_attr_constraint,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

MASK = irdl_to_attr_constraint(I1) | irdl_to_attr_constraint(VectorType[I1])

UNROLL_ATTRIBUTE = "tllvm.unroll"
UNROLL_KINDS = ("full", "disable")

CAST_KINDS = ("uitofp", "fptosi", "fptoui")
FCMP_PREDICATES = tuple(flag.value.lstrip("_") for flag in ALL_FCMP_FLAGS)


def lanes(type: Attribute) -> int:
    """How many elements a value of the type has: 1 for scalars."""
    return type.get_shape()[0] if isinstance(type, VectorType) else 1


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """The scalar or vector type of the same shape with another element."""
    return VectorType(element, type.get_shape()) if isinstance(type, VectorType) else element


@irdl_op_definition
class FCmpOp(IRDLOperation):
    """Compares floats, lane by lane: `a: T, b: T -> i1` or a vector of it. The predicates are LLVM's
    (`oeq`, `ult`...).

    Example: `%c = tllvm.fcmp "olt", %a, %b : vector<16xf32> -> vector<16xi1>`
    """

    name = "tllvm.fcmp"
    T: ClassVar = VarConstraint("T", AnyFloatConstr | VectorType.constr(AnyFloatConstr))
    predicate = prop_def(StringAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(MASK)
    traits = traits_def(Pure())
    assembly_format = "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    def __init__(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(
            operands=[lhs, rhs],
            properties={"predicate": StringAttr(predicate)},
            result_types=[with_element(lhs.type, i1)],
        )

    def verify_(self) -> None:
        if self.predicate.data not in FCMP_PREDICATES:
            raise VerifyException(f"unknown predicate '{self.predicate.data}'")
        if self.result.type != with_element(self.lhs.type, i1):
            raise VerifyException(f"result is {self.result.type}, expected {with_element(self.lhs.type, i1)}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Chooses lane by lane: `condition: i1 or vector<Nxi1>, a: T, b: T -> T`.

    Example: `%r = tllvm.select %c, %a, %b : vector<16xi1>, vector<16xf32>`
    """

    name = "tllvm.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    condition = operand_def(MASK)
    true_value = operand_def(T)
    false_value = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $true_value `,` $false_value attr-dict `:` type($condition) `,` type($result)"

    def __init__(self, condition: SSAValue, true_value: SSAValue, false_value: SSAValue) -> None:
        super().__init__(operands=[condition, true_value, false_value], result_types=[true_value.type])

    def verify_(self) -> None:
        condition, result = self.condition.type, self.result.type
        if isinstance(condition, VectorType) and lanes(condition) != lanes(result):
            raise VerifyException(f"{condition} cannot choose between values of {result}")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A vector all of whose lanes are the scalar: `value: T -> vector<NxT>`.

    Example: `%v = tllvm.splat %x : f32 -> vector<16xf32>`
    """

    name = "tllvm.splat"
    value = operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, count: int) -> None:
        super().__init__(operands=[value], result_types=[VectorType(value.type, [count])])

    def verify_(self) -> None:
        result = self.result.type
        if not isinstance(result, VectorType) or result.element_type != self.value.type:
            raise VerifyException(f"cannot splat {self.value.type} into {result}")


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """One lane of a vector: `vector: vector<NxT>, index: i64 -> T`; an index out of range gives poison.

    Example: `%x = tllvm.extractelement %v, %i : vector<16xf32>, i64 -> f32`
    """

    name = "tllvm.extractelement"
    vector = operand_def(VectorType)
    index = operand_def(IntegerType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$vector `,` $index attr-dict `:` type($vector) `,` type($index) `->` type($result)"

    def __init__(self, vector: SSAValue, index: SSAValue) -> None:
        assert isinstance(vector.type, VectorType)
        super().__init__(operands=[vector, index], result_types=[vector.type.element_type])


@irdl_op_definition
class CastOp(IRDLOperation):
    """A conversion between floats and integers that xDSL's llvm lacks, lane by lane: `uitofp`, `fptosi`,
    `fptoui`.

    The two conversions to integers saturate, and NaN becomes 0, so that no input gives poison.

    Example: `%i = tllvm.cast "fptosi", %x : vector<16xf32> -> vector<16xi32>`
    """

    name = "tllvm.cast"
    kind = prop_def(StringAttr)
    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$kind `,` $value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, kind: str, value: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[value], properties={"kind": StringAttr(kind)}, result_types=[result_type])

    def verify_(self) -> None:
        if self.kind.data not in CAST_KINDS:
            raise VerifyException(f"unknown cast '{self.kind.data}', expected one of {', '.join(CAST_KINDS)}")
        if lanes(self.value.type) != lanes(self.result.type):
            raise VerifyException(f"cannot cast {self.value.type} to {self.result.type}")


@irdl_op_definition
class MathOp(IRDLOperation):
    """A function of `math.py`, lane by lane: `operands: T... -> T`, one operand or two as the function has.

    Example: `%y = tllvm.math "exp", %x : vector<16xf32> -> vector<16xf32>`
    """

    name = "tllvm.math"
    function = prop_def(StringAttr)
    arguments = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$function `,` $arguments attr-dict `:` type($arguments) `->` type($result)"

    def __init__(self, function: str, arguments: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[arguments],
            properties={"function": StringAttr(function)},
            result_types=[arguments[0].type],
        )

    def verify_(self) -> None:
        for argument in self.arguments:
            if argument.type != self.result.type:
                raise VerifyException(f"argument is {argument.type}, expected {self.result.type}")


@irdl_op_definition
class MaskedLoadOp(IRDLOperation):
    """Loads consecutive elements where the mask is set, else takes `default`'s: `ptr, vector<Nxi1>,
    vector<NxT>`.

    Memory behind lanes that are not set is not touched. `alignment` is in bytes.

    Example: `%v = tllvm.masked_load %p, %mask, %zero {alignment = 4 : i64} : vector<16xi1>, vector<16xf32>`
    """

    name = "tllvm.masked_load"
    pointer = operand_def(LLVMPointerType)
    mask = operand_def(VectorType[I1])
    default = operand_def(VectorType)
    alignment = prop_def(IntegerAttr)
    result = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, pointer: SSAValue, mask: SSAValue, default: SSAValue, alignment: int) -> None:
        super().__init__(
            operands=[pointer, mask, default],
            properties={"alignment": IntegerAttr(alignment, i64)},
            result_types=[default.type],
        )

    def verify_(self) -> None:
        if self.default.type != self.result.type or lanes(self.mask.type) != lanes(self.result.type):
            raise VerifyException("mask, default and result disagree")


@irdl_op_definition
class MaskedStoreOp(IRDLOperation):
    """Stores consecutive elements where the mask is set: `ptr, vector<Nxi1>, vector<NxT>`.

    Memory behind lanes that are not set is not touched. `alignment` is in bytes.

    Example: `tllvm.masked_store %v, %p, %mask {alignment = 4 : i64} : vector<16xf32>, vector<16xi1>`
    """

    name = "tllvm.masked_store"
    value = operand_def(VectorType)
    pointer = operand_def(LLVMPointerType)
    mask = operand_def(VectorType[I1])
    alignment = prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: SSAValue, pointer: SSAValue, mask: SSAValue, alignment: int) -> None:
        super().__init__(operands=[value, pointer, mask], properties={"alignment": IntegerAttr(alignment, i64)})

    def verify_(self) -> None:
        if lanes(self.mask.type) != lanes(self.value.type):
            raise VerifyException("mask and value disagree")


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Loads `base[index]` for each lane of `indices` where the mask is set, else takes `default`'s lane.

    `base: ptr, indices: vector<Nxi64>, mask: vector<Nxi1>, default: vector<NxT> -> vector<NxT>`. Indices
    count elements.

    Example: `%v = tllvm.gather %p, %i, %mask, %zero : vector<16xi64>, vector<16xf32>`
    """

    name = "tllvm.gather"
    base = operand_def(LLVMPointerType)
    indices = operand_def(VectorType)
    mask = operand_def(VectorType[I1])
    default = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, base: SSAValue, indices: SSAValue, mask: SSAValue, default: SSAValue) -> None:
        super().__init__(operands=[base, indices, mask, default], result_types=[default.type])

    def verify_(self) -> None:
        counts = {lanes(value.type) for value in (self.indices, self.mask, self.default)}
        if self.default.type != self.result.type or len(counts) != 1:
            raise VerifyException("indices, mask, default and result disagree")


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Stores lane by lane to `base[index]` where the mask is set, in lane order; indices count elements.

    Example: `tllvm.scatter %v, %p, %i, %mask : vector<16xf32>, vector<16xi64>`
    """

    name = "tllvm.scatter"
    value = operand_def(VectorType)
    base = operand_def(LLVMPointerType)
    indices = operand_def(VectorType)
    mask = operand_def(VectorType[I1])
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: SSAValue, base: SSAValue, indices: SSAValue, mask: SSAValue) -> None:
        super().__init__(operands=[value, base, indices, mask])

    def verify_(self) -> None:
        if len({lanes(value.type) for value in (self.value, self.indices, self.mask)}) != 1:
            raise VerifyException("value, indices and mask disagree")


TLLVM = Dialect(
    "tllvm",
    [
        FCmpOp,
        SelectOp,
        SplatOp,
        ExtractElementOp,
        CastOp,
        MathOp,
        MaskedLoadOp,
        MaskedStoreOp,
        GatherOp,
        ScatterOp,
    ],
)
