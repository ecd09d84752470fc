"""The ``c`` dialect: one operation per construct of C that the target writes, with C's types and C's rules.

Types are builtin's: ``i32`` is ``int32_t``, ``ui32`` is ``uint32_t``, ``i1`` is ``bool``, ``f32`` is ``float``, ``f64``
is ``double``; beside them ``!c.ptr<f32>`` (``float *``), ``!c.const_ptr<f32>`` (``const float *``), both with ``none``
for ``void``, and ``!c.size`` (``size_t``). C promotes narrow integers and converts silently; here nothing does:
arithmetic exists on ``i32``, ``i64``, ``ui32``, ``ui64`` and floats only, operands and result have one type, and every
conversion is a ``c.cast``. Signed arithmetic must not overflow, as in C; what wraps around is computed unsigned.

A function's body is one block of structured code. Values are immutable; ``emit.py`` decides which are variables.

Here: values, memory and calls. Elsewhere: types (``types.py``), functions and control flow (``structure.py``), the
pretty form (``syntax.py``), the functions that ``c.call`` may name beside those of the module (``library.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    FlatSymbolRefAttrConstr,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NoneType,
    StringAttr,
    SymbolRefAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    ParamAttrConstraint,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from .structure import BreakOp, ForeverOp, ForOp, FuncOp, IfOp, ReturnOp, TableOp
from .types import ConstPointerType, Pointer, PointerType, SizeType, is_arithmetic, is_number, is_scalar

FLOAT_OPERATORS = ("+", "-", "*", "/")
INTEGER_OPERATORS = (*FLOAT_OPERATORS, "%", "&", "|", "^", "<<", ">>")
LOGICAL_OPERATORS = ("&&", "||")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def _element(pointer: SSAValue) -> Attribute:
    return cast(Pointer, pointer.type).element


@irdl_op_definition
class AddressOfOp(IRDLOperation):
    """The address of a table's first element.

    Example: ``%w = c.address_of @weight_0 : !c.const_ptr<f32>``
    """

    name = "c.address_of"
    table = prop_def(FlatSymbolRefAttrConstr)
    result = result_def(ConstPointerType)
    traits = traits_def(Pure())
    assembly_format = "$table attr-dict `:` type($result)"

    def __init__(self, table: str, element: Attribute) -> None:
        super().__init__(properties={"table": SymbolRefAttr(table)}, result_types=[ConstPointerType(element)])


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A literal.

    Example: ``%zero = c.constant 0.0 : f32``
    """

    name = "c.constant"
    T: ClassVar = VarConstraint("T", AnyAttr())
    value = prop_def(ParamAttrConstraint(IntegerAttr, (AnyAttr(), T)) | ParamAttrConstraint(FloatAttr, (AnyAttr(), T)))
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict"

    def __init__(self, value: IntegerAttr | FloatAttr) -> None:
        super().__init__(properties={"value": value}, result_types=[value.type])

    def verify_(self) -> None:
        if not is_scalar(self.result.type):
            raise VerifyException(f"{self.value} is no literal of C")


@irdl_op_definition
class BinaryOp(IRDLOperation):
    """``lhs operator rhs`` on ``i32``, ``i64``, ``ui32``, ``ui64``, ``f32`` or ``f64``; ``&&`` and ``||`` on ``i1``.

    Example: ``%s = c.binary %a "+" %b : f32``
    """

    name = "c.binary"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    operator = prop_def(StringAttr)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$lhs $operator $rhs attr-dict `:` type($lhs)"

    def __init__(self, lhs: SSAValue, operator: str, rhs: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs], properties={"operator": StringAttr(operator)}, result_types=[lhs.type])

    def verify_(self) -> None:
        type = self.result.type
        if type == i1:
            known: Sequence[str] = LOGICAL_OPERATORS
        elif isinstance(type, IntegerType) and is_arithmetic(type):
            known = INTEGER_OPERATORS
        elif isinstance(type, Float32Type | Float64Type):
            known = FLOAT_OPERATORS
        else:
            raise VerifyException(f"C does not compute in {type}")
        if self.operator.data not in known:
            raise VerifyException(
                f"unknown operator '{self.operator.data}' on {type}, expected one of {' '.join(known)}"
            )


@irdl_op_definition
class ComparisonOp(IRDLOperation):
    """``lhs operator rhs`` as a ``bool``; a comparison with NaN is false, ``!=`` is true.

    Example: ``%c = c.compare %a "<" %b : f32``
    """

    name = "c.compare"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    operator = prop_def(StringAttr)
    rhs = operand_def(T)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$lhs $operator $rhs attr-dict `:` type($lhs)"

    def __init__(self, lhs: SSAValue, operator: str, rhs: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs], properties={"operator": StringAttr(operator)}, result_types=[i1])

    def verify_(self) -> None:
        if not is_scalar(self.lhs.type):
            raise VerifyException(f"does not compare {self.lhs.type}")
        if self.operator.data not in COMPARISONS:
            raise VerifyException(f"unknown operator '{self.operator.data}', expected one of {' '.join(COMPARISONS)}")


@irdl_op_definition
class NegateOp(IRDLOperation):
    """``-value`` of a float.

    Example: ``%n = c.negate %a : f32``
    """

    name = "c.negate"
    T: ClassVar = VarConstraint("T", BaseAttr(Float32Type) | BaseAttr(Float64Type))
    value = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value], result_types=[value.type])


@irdl_op_definition
class LogicalNotOp(IRDLOperation):
    """``!value``: ``%n = c.not %a``."""

    name = "c.not"
    value = operand_def(i1)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict"

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value], result_types=[i1])


@irdl_op_definition
class SelectOp(IRDLOperation):
    """``condition ? a : b``, where both are computed in any case.

    Example: ``%r = c.select %c, %a, %b : f32``
    """

    name = "c.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    condition = operand_def(i1)
    true_value = operand_def(T)
    false_value = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $true_value `,` $false_value attr-dict `:` type($result)"

    def __init__(self, condition: SSAValue, true_value: SSAValue, false_value: SSAValue) -> None:
        super().__init__(operands=[condition, true_value, false_value], result_types=[true_value.type])

    def verify_(self) -> None:
        if not is_scalar(self.result.type):
            raise VerifyException(f"does not choose between values of type {self.result.type}")


@irdl_op_definition
class CastOp(IRDLOperation):
    """``(T)value`` between numbers, ``bool`` and ``size_t``, or between pointers.

    Integers are cut off, floats to integers must be in range. There is no cast to ``i1``: compare with zero.

    Example: ``%u = c.cast %a : i32 to ui32``
    """

    name = "c.cast"
    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `to` type($result)"

    def __init__(self, value: SSAValue, type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[type])

    def verify_(self) -> None:
        old, new = self.value.type, self.result.type
        pointers = isinstance(old, Pointer) and isinstance(new, Pointer)
        if not pointers and not (is_scalar(old) and is_scalar(new) and new != i1):
            raise VerifyException(f"cannot cast {old} to {new}")
        if isinstance(old, ConstPointerType) and isinstance(new, PointerType):
            raise VerifyException("cannot cast const away")


@irdl_op_definition
class OffsetOp(IRDLOperation):
    """``pointer + index``: an address, ``index`` elements further.

    Example: ``%q = c.offset %p, %i : !c.ptr<ui8>``
    """

    name = "c.offset"
    T: ClassVar = VarConstraint("T", BaseAttr(PointerType) | BaseAttr(ConstPointerType))
    pointer = operand_def(T)
    index = operand_def(i64)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$pointer `,` $index attr-dict `:` type($pointer)"

    def __init__(self, pointer: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[pointer, index], result_types=[pointer.type])

    def verify_(self) -> None:
        if isinstance(_element(self.pointer), NoneType):
            raise VerifyException("counts in elements, void has none")


@irdl_op_definition
class IsNullOp(IRDLOperation):
    """``pointer == NULL``: ``%c = c.is_null %p : !c.ptr<f32>``."""

    name = "c.is_null"
    pointer = operand_def(PointerType | ConstPointerType)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$pointer attr-dict `:` type($pointer)"

    def __init__(self, pointer: SSAValue) -> None:
        super().__init__(operands=[pointer], result_types=[i1])


@irdl_op_definition
class ArrayOp(IRDLOperation):
    """``element name[count];``: a local array, which lives as long as the block that it is in.

    Example: ``%acc = c.array 128 : !c.ptr<f32>``
    """

    name = "c.array"
    count = prop_def(IntegerAttr.constr(i64))
    result = result_def(PointerType)
    assembly_format = "$count attr-dict `:` type($result)"

    def __init__(self, count: int, element: Attribute) -> None:
        super().__init__(properties={"count": IntegerAttr(count, i64)}, result_types=[PointerType(element)])

    def verify_(self) -> None:
        if self.count.value.data < 1 or not is_number(self.result.type.element):
            raise VerifyException("holds at least one number")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """``pointer[index]``; with ``where``, ``condition ? pointer[index] : default``, which reads on one side only.

    Example: ``%v = c.load %p[%i] where %c else %zero : !c.const_ptr<f32>``
    """

    name = "c.load"
    pointer = operand_def(PointerType | ConstPointerType)
    index = operand_def(i64)
    guard = var_operand_def()
    result = result_def()
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self, pointer: SSAValue, index: SSAValue, condition: SSAValue | None = None, default: SSAValue | None = None
    ) -> None:
        guard = [] if condition is None or default is None else [condition, default]
        super().__init__(operands=[pointer, index, guard], result_types=[_element(pointer)])

    def verify_(self) -> None:
        element = _element(self.pointer)
        if self.result.type != element or not is_number(element):
            raise VerifyException(f"loads {self.result.type} from elements of type {element}")
        if self.guard and [value.type for value in self.guard] != [i1, element]:
            raise VerifyException(f"is guarded by a condition and a default of type {element}")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """``pointer[index] = value;``

    Example: ``c.store %v, %p[%i] : !c.ptr<f32>``
    """

    name = "c.store"
    value = operand_def()
    pointer = operand_def(PointerType)
    index = operand_def(i64)
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: SSAValue, pointer: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[value, pointer, index])

    def verify_(self) -> None:
        if self.value.type != _element(self.pointer) or not is_number(self.value.type):
            raise VerifyException(f"stores {self.value.type} into elements of type {_element(self.pointer)}")


@irdl_op_definition
class CallOp(IRDLOperation):
    """``callee(arguments)``: a function of the module or of ``library.py``.

    Example: ``%y = c.call @expf(%x) : (f32) -> f32``
    """

    name = "c.call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    result = opt_result_def()
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $result)"

    def __init__(self, callee: str, arguments: Sequence[SSAValue], result: Attribute | None = None) -> None:
        super().__init__(operands=[arguments], properties={"callee": SymbolRefAttr(callee)}, result_types=[result])


C = Dialect(
    "c",
    [
        FuncOp,
        ReturnOp,
        TableOp,
        AddressOfOp,
        ConstantOp,
        BinaryOp,
        ComparisonOp,
        NegateOp,
        LogicalNotOp,
        SelectOp,
        CastOp,
        OffsetOp,
        IsNullOp,
        ArrayOp,
        LoadOp,
        StoreOp,
        CallOp,
        ForOp,
        IfOp,
        ForeverOp,
        BreakOp,
    ],
    [PointerType, ConstPointerType, SizeType],
)
