"""A small builder for straight code with exits, in the llvm dialect: what host programs are written with.

It names the few operations that a host program needs, so that the lowering reads like the program it makes. Sizes and
offsets are ``i64``, everything else is a pointer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import Operand

from ...core.symbolic import SymExpr

POINTER = llvm.LLVMPointerType()


class HostBuilder:
    """Appends operations to the current block of one function."""

    def __init__(self, name: str, inputs: Sequence[Attribute]) -> None:
        self.region = Region()
        self.block = self.new_block(*inputs)
        type = llvm.LLVMFunctionType(inputs, i32)
        plain: dict[str, Attribute | None] = {"unnamed_addr": IntegerAttr(0, i64)}
        self.function = llvm.FuncOp(name, type, llvm.LinkageAttr("external"), body=self.region, other_props=plain)

    def new_block(self, *types: Attribute) -> Block:
        """A block at the end of the function."""
        block = Block(arg_types=types)
        self.region.add_block(block)
        return block

    def add(self, op: Operation) -> Operation:
        """Append an operation."""
        self.block.add_op(op)
        return op

    def value(self, op: Operation) -> SSAValue:
        """Append an operation and give its result."""
        return self.add(op).results[0]

    # Numbers.

    def integer(self, value: int, type: IntegerType = i64) -> SSAValue:
        return self.value(llvm.ConstantOp(IntegerAttr(value, type), type))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """``i1``: one of LLVM's integer predicates."""
        number = _PREDICATES[predicate]
        return self.value(llvm.ICmpOp(a, b, IntegerAttr(number, i64)))

    def expression(self, expr: SymExpr, values: Mapping[str, SSAValue]) -> SSAValue:
        """The value of a symbolic expression; divisions round to minus infinity."""
        kind = expr.kind
        if kind == "const":
            return self.integer(expr.const_value())
        if kind == "sym":
            return values[expr.name]
        args = [self.expression(arg, values) for arg in expr.args]
        result = args[0]
        for arg in args[1:]:
            result = self._combine(kind, result, arg)
        return result

    def _combine(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        if kind == "add":
            return self.value(llvm.AddOp(a, b))
        if kind == "mul":
            return self.value(llvm.MulOp(a, b))
        if kind in ("min", "max"):
            less = self.compare("slt", a, b)
            first, second = (a, b) if kind == "min" else (b, a)
            return self.value(llvm.SelectOp(less, first, second))
        quotient = self._floordiv(a, b)
        if kind == "floordiv":
            return quotient
        assert kind == "mod", kind
        return self.value(llvm.SubOp(a, self.value(llvm.MulOp(quotient, b))))

    def _floordiv(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The quotient towards zero, one less where the remainder's sign is not the divisor's."""
        quotient = self.value(llvm.SDivOp(a, b))
        remainder = self.value(llvm.SRemOp(a, b))
        zero = self.integer(0)
        inexact = self.compare("ne", remainder, zero)
        opposite = self.compare("slt", self.value(llvm.XOrOp(remainder, b)), zero)
        lower = self.value(llvm.SubOp(quotient, self.integer(1)))
        both = self.value(llvm.AndOp(inexact, opposite))
        return self.value(llvm.SelectOp(both, lower, quotient))

    # Memory.

    def offset(self, pointer: SSAValue, index: int | SSAValue, element: Attribute) -> SSAValue:
        """The address of element number ``index``."""
        if isinstance(index, int):
            if index == 0:
                return pointer
            if index < 1 << 31:
                return self.value(llvm.GEPOp(pointer, [index], element))
            index = self.integer(index)
        return self.value(llvm.GEPOp(pointer, [llvm.GEP_USE_SSA_VAL], element, [index]))

    def load(self, pointer: SSAValue, type: Attribute, index: int = 0) -> SSAValue:
        """Field ``index`` of a table of 8-byte fields."""
        return self.value(llvm.LoadOp(self.offset(pointer, index, i64), type, 8))

    def store(self, value: SSAValue, pointer: SSAValue, index: int = 0) -> None:
        """Set field ``index`` of a table of 8-byte fields."""
        self.add(llvm.StoreOp(value, self.offset(pointer, index, i64), 8))

    def is_null(self, pointer: SSAValue) -> SSAValue:
        return self.compare("eq", self.value(llvm.PtrToIntOp(pointer)), self.integer(0))

    def copy(self, target: SSAValue, source: SSAValue, bytes: SSAValue) -> None:
        """Copy memory that does not overlap."""
        self.add(llvm.CallIntrinsicOp("llvm.memcpy.p0.p0.i64", [target, source, bytes, self.integer(0, i1)], []))

    # Control.

    def call(self, name: str, args: Sequence[Operand]) -> None:
        """Call a function of the module that returns nothing."""
        self.add(llvm.CallOp(name, *args))

    def call_pointer(self, function: SSAValue, args: Sequence[SSAValue], result: Attribute | None) -> SSAValue | None:
        """Call through a pointer."""
        op = llvm.CallOp("indirect", function, *args, return_type=result)
        del op.properties["callee"]
        self.add(op)
        return op.returned

    def branch_if(
        self, condition: SSAValue, target: Block, args: Sequence[SSAValue], otherwise: Block, *rest: SSAValue
    ) -> None:
        """Go to ``target`` or ``otherwise``, and continue in the latter."""
        self.add(llvm.CondBrOp(condition, target, args, otherwise, rest))
        self.block = otherwise

    def jump(self, target: Block, *args: SSAValue) -> None:
        self.add(llvm.BrOp(target, *args))

    def finish(self, status: int) -> None:
        """Return the status."""
        self.add(llvm.ReturnOp(self.integer(status, i32)))


_PREDICATES = {"eq": 0, "ne": 1, "slt": 2}
