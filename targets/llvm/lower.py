"""Kernels of loop IR to the `llvm` dialect.

    func.func private @k(%x: memref<64xf32>, %y: memref<?xf32, #tw.dims<[n]>>, %n: index) attributes {tw.kernel, ...}
    --> llvm.func @k(%ctx: !llvm.ptr, %x: !llvm.ptr, %y: !llvm.ptr, %n: i64)

Expects kernels after the loop passes: loops (serial, parallel, unrolled; a `vectorized` one that is left runs
serially), loads, stores, index expressions, conditions, local buffers, and element arithmetic on scalars and vectors.
Leaves functions of the `llvm` and `tllvm` dialects: the kernel, and two for each outermost parallel loop
(`lower_parallel.py`).

Loops become blocks with the test at the end. A loop marked `unrolled` is left to LLVM, which unrolls it fully; a small
local buffer is on the stack, and LLVM then keeps its elements in registers (`lower_buffers.py`). LLVM is told that
buffers do not overlap unless the kernel carries the attribute `tw.may_alias`.

Deliberately elsewhere: index expressions (`lower_index.py`), element arithmetic (`lower_ops.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects import func, llvm, vector
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    VectorType,
)
from xdsl.dialects.builtin import i64 as I64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...core.attributes import memref_shape_exprs
from ...core.diagnostics import emit_error
from ...core.passes import ModulePass
from ...core.symbolic import SymExpr, const
from ...dialects.loop import ops as loop
from .dialect import MaskedLoadOp, MaskedStoreOp
from .lower_buffers import LocalBuffers
from .lower_build import (
    BUFFER_ALIGNMENT,
    NO_WRAP_AT_ALL,
    POINTER,
    FunctionBuilder,
    element_bytes,
    lowered_type,
    storage_type,
)
from .lower_index import IndexLowering, is_index
from .lower_ops import ELEMENT_OPS, lane_numbers

if TYPE_CHECKING:
    from ...core.context import TilewrightContext

KERNEL_ATTRIBUTE = "tw.kernel"
MAY_ALIAS_ATTRIBUTE = "tw.may_alias"


@dataclass(frozen=True)
class ConvertLoopToLLVMPass(ModulePass):
    """Replaces every kernel of the module by functions of the `llvm` dialect; other functions stay.

    func.func @k(%x: memref<4xf32>) attributes {tw.kernel} --> llvm.func @k(%ctx: !llvm.ptr, %x: !llvm.ptr)
    """

    name = "convert-loop-to-llvm"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for kernel in list(op.ops):
            if isinstance(kernel, func.FuncOp) and KERNEL_ATTRIBUTE in kernel.attributes:
                block = kernel.parent_block()
                assert block is not None
                block.insert_ops_before(lower_kernel(kernel), kernel)
                kernel.detach()  # type: ignore[no-untyped-call]
                kernel.erase(safe_erase=False)


def lower_kernel(kernel: func.FuncOp) -> list[llvm.FuncOp]:
    """The functions that a kernel becomes: bodies of its parallel loops first, the kernel itself last."""
    symbols = kernel.attributes.get("symbols", ArrayAttr([]))
    assert isinstance(symbols, ArrayAttr)
    names = [symbol.data for symbol in symbols if isinstance(symbol, StringAttr)]
    arguments = list(kernel.body.block.args)
    indices = [argument for argument in arguments if is_index(argument)]
    if len(indices) != len(names):
        emit_error(kernel, f"has {len(indices)} index arguments for {len(names)} symbols")
    may_alias = MAY_ALIAS_ATTRIBUTE in kernel.attributes
    builder = FunctionBuilder(
        kernel.sym_name.data,
        [POINTER, *(lowered_type(argument.type, kernel) for argument in arguments)],
        [{}, *(pointer_attributes(argument.type, may_alias) for argument in arguments)],
        "external",
        kernel.location,
    )
    state = KernelState(kernel.sym_name.data, dict(zip(names, indices, strict=True)), may_alias)
    lowering = FunctionLowering(state, builder, context=builder.arguments[0])
    symbol_of = {argument: name for name, argument in state.symbols.items()}
    for argument, value in zip(arguments, builder.arguments[1:], strict=True):
        if is_index(argument):
            lowering.index.bind(argument, value, (0, None), symbol_of[argument])
        else:
            lowering.values[argument] = value
    lowering.body(kernel.body.block)
    builder.add(llvm.ReturnOp())
    return [*state.functions, builder.finish()]


@dataclass
class KernelState:
    """What the functions of one kernel share."""

    name: str
    symbols: dict[str, SSAValue]
    may_alias: bool
    functions: list[llvm.FuncOp] = field(default_factory=list)
    parallel_loops: int = 0


class FunctionLowering:
    """Lowers loop IR into the function that `builder` builds."""

    def __init__(
        self, state: KernelState, builder: FunctionBuilder, context: SSAValue, in_parallel: bool = False
    ) -> None:
        """In the body of a parallel loop all loops run serially."""
        self.state = state
        self.builder = builder
        self.context = context
        self.in_parallel = in_parallel
        self.index = IndexLowering(builder)
        self.values: dict[SSAValue, SSAValue] = {}
        self.buffers = LocalBuffers(builder, context)

    def body(self, block: Block) -> None:
        """Lower the operations of a block of loop IR, its terminator aside."""
        self.buffers.push()
        for op in block.ops:
            self.builder.location = op.location
            if (element := ELEMENT_OPS.get(op.name)) is not None:
                self._element(op, element)
            elif (lower := _STRUCTURE.get(type(op))) is not None:
                lower(self, op)
            elif not isinstance(op, func.ReturnOp):
                emit_error(op, "has no lowering to LLVM")
        self.buffers.pop()

    def value(self, source: SSAValue) -> SSAValue:
        """The lowered value of a value of loop IR."""
        return self.index.value_of(source) if is_index(source) else self.values[source]

    # Element operations.
    def _element(self, op: Operation, lower: Callable[..., SSAValue]) -> None:
        if isinstance(op, ConstantOp) and is_index(op.result):
            assert isinstance(op.value, IntegerAttr)
            self.index.bind_constant(op.result, op.value.value.data)
            return
        result = lower(self.builder, op, [self.value(operand) for operand in op.operands])
        self._define(op.results[0], result)

    def _lanes(self, op: loop.LanesOp) -> None:
        """An element operation that `arith` has for scalars only; here it takes vectors like any other."""
        name = op.scalar.data
        view = loop.LANE_OPS[name].create(
            operands=list(op.args), result_types=[op.result.type], properties=dict(op.parameters.data)
        )
        view.location = op.location
        self.values[op.result] = ELEMENT_OPS[name](self.builder, view, [self.value(arg) for arg in op.args])
        view.erase()

    def _define(self, source: SSAValue, value: SSAValue) -> None:
        if is_index(source):
            self.index.bind(source, value)
        else:
            self.values[source] = value

    def _index(self, op: loop.IndexOp) -> None:
        expr = self.index.resolve(op.map.results[0], op.args)
        if is_index(op.result):
            self.index.bind_expression(op.result, expr)
            return
        if not isinstance(op.result.type, VectorType):
            emit_error(op, f"has result {op.result.type}, expected index or a vector of it")
        type = lowered_type(op.result.type, op)
        first = self.builder.splat(self.index.value(expr), type)
        numbers = lane_numbers(self.builder, op.result.type.get_shape()[0])
        self.values[op.result] = self.builder.make(llvm.AddOp, [first, numbers], type)

    # Memory.
    def _address(self, op: Operation, memref: SSAValue, indices: Sequence[SymExpr]) -> tuple[SSAValue, int]:
        """The address of an element and its certain alignment in bytes."""
        assert isinstance(memref.type, MemRefType)
        offset = self.index.offset(memref.type, indices)
        element = storage_type(lowered_type(memref.type.element_type, op))
        alignment = self.index.alignment(offset, element_bytes(element), BUFFER_ALIGNMENT)
        base = self.values[memref]
        if offset == 0:
            return base, alignment
        return self.builder.element_pointer(base, element, self.index.value(offset)), alignment

    def _read(self, op: loop.LoadOp) -> SSAValue:
        pointer, alignment = self._address(op, op.memref, self.index.resolve_map(op.map, op.args))
        type = lowered_type(op.result.type, op)
        return self.builder.load(pointer, type, max(alignment, element_bytes(type)))

    def _load(self, op: loop.LoadOp) -> None:
        if op.where is None or op.default is None:
            self._define(op.result, self._read(op))
            return
        condition = self.index.condition(self.index.resolve_map(op.where, op.args))
        if condition is None:
            self._define(op.result, self._read(op))
            return
        default = self.value(op.default)
        inside, after = self.builder.new_block(), self.builder.new_block(default.type)
        self.builder.branch_if(condition, inside, [], after, [default])
        self.builder.enter(inside)
        self.index.push()
        self.builder.branch(after, self._read(op))
        self.index.pop()
        self.builder.enter(after)
        self._define(op.result, after.args[0])

    def _store(self, op: loop.StoreOp) -> None:
        condition = None
        if op.where is not None:
            condition = self.index.condition(self.index.resolve_map(op.where, op.args))
        if condition is None:
            self._write(op)
            return
        inside, after = self.builder.new_block(), self.builder.new_block()
        self.builder.branch_if(condition, inside, [], after, [])
        self.builder.enter(inside)
        self.index.push()
        self._write(op)
        self.index.pop()
        self.builder.branch(after)
        self.builder.enter(after)

    def _write(self, op: loop.StoreOp) -> None:
        value = self.value(op.value)
        pointer, alignment = self._address(op, op.memref, self.index.resolve_map(op.map, op.args))
        self.builder.store(value, pointer, max(alignment, element_bytes(value.type)))

    def _masked_load(self, op: vector.MaskedLoadOp) -> None:
        pointer, _ = self._address(op, op.base, [self.index.expression_of(index) for index in op.indices])
        default = self.value(op.pass_thru)
        masked = MaskedLoadOp(pointer, self.value(op.mask), default, element_bytes(default.type))
        self.values[op.result] = self.builder.add(masked).results[0]

    def _masked_store(self, op: vector.MaskedStoreOp) -> None:
        pointer, _ = self._address(op, op.base, [self.index.expression_of(index) for index in op.indices])
        value = self.value(op.value_to_store)
        self.builder.add(MaskedStoreOp(value, pointer, self.value(op.mask), element_bytes(value.type)))

    def _alloc(self, op: loop.AllocOp) -> None:
        if op.scope.data != "local":
            emit_error(op, "is in main memory: expected a workspace argument of the kernel in its place")
        count = const(1)
        for extent in memref_shape_exprs(op.result.type):
            count = count * extent
        element = storage_type(lowered_type(op.result.type.element_type, op))
        if count.is_const() and self.buffers.fits_the_stack(count.const_value(), element):
            self.values[op.result] = self.buffers.on_the_stack(count.const_value(), element)
        else:
            self.values[op.result] = self.buffers.on_the_heap(self.index.value(count), element)

    # Control.
    def _for(self, op: loop.ForOp) -> None:
        extent = self.index.resolve(op.extent.results[0], op.args)
        if extent.is_const() and extent.const_value() <= 0:
            return
        if extent == 1:
            self.index.bind_constant(op.var, 0)
            self.body(op.body.block)
            return
        if op.kind.data == "parallel" and not self.in_parallel:
            from .lower_parallel import lower_parallel

            lower_parallel(self, op, extent)
            return
        low, high = self.index.bounds(extent)
        unroll = "full" if op.kind.data == "unrolled" and extent.is_const() else None
        runs = low is not None and low > 0
        self.count(op, self.builder.integer(0), self.index.value(extent), high, runs, unroll)

    def count(
        self, op: loop.ForOp, begin: SSAValue, end: SSAValue, high: int | None, runs: bool, unroll: str | None = None
    ) -> None:
        """The body for begin <= i < end, where i < high always; `runs` says that there is an iteration for certain."""
        head, after = self.builder.new_block(I64), self.builder.new_block()
        if runs:
            self.builder.branch(head, begin)
        else:
            self.builder.branch_if(self.builder.compare("slt", begin, end), head, [begin], after, [])
        self.builder.enter(head)
        self.index.push()
        self.index.bind(op.var, head.args[0], (0, None if high is None else high - 1))
        self.body(op.body.block)
        self.index.pop()
        self.builder.location = op.location
        one = self.builder.integer(1)
        following = self.builder.make(llvm.AddOp, [head.args[0], one], I64, NO_WRAP_AT_ALL)
        self.builder.branch_if(self.builder.compare("slt", following, end), head, [following], after, [], unroll)
        self.builder.enter(after)

    def _if(self, op: loop.IfOp) -> None:
        condition = self.index.condition(self.index.resolve_map(op.where, op.args))
        if condition is None:
            self.body(op.body.block)
            return
        has_else = op.orelse is not None
        inside, after = self.builder.new_block(), self.builder.new_block()
        other = self.builder.new_block() if has_else else after
        self.builder.branch_if(condition, inside, [], other, [])
        regions = [(inside, op.body)]
        if op.orelse is not None:
            regions.append((other, op.orelse))
        for block, region in regions:
            self.builder.enter(block)
            self.index.push()
            self.body(region.block)
            self.index.pop()
            self.builder.branch(after)
        self.builder.enter(after)


_STRUCTURE: dict[type[Operation], Callable[[FunctionLowering, Any], None]] = {
    loop.ForOp: FunctionLowering._for,
    loop.IfOp: FunctionLowering._if,
    loop.LoadOp: FunctionLowering._load,
    loop.StoreOp: FunctionLowering._store,
    loop.IndexOp: FunctionLowering._index,
    loop.AllocOp: FunctionLowering._alloc,
    loop.LanesOp: FunctionLowering._lanes,
    vector.MaskedLoadOp: FunctionLowering._masked_load,
    vector.MaskedStoreOp: FunctionLowering._masked_store,
}


def pointer_attributes(type: Attribute, may_alias: bool) -> dict[str, Attribute]:
    """What LLVM may assume about a buffer argument: alignment, size, and that no other argument overlaps it."""
    if isinstance(type, IndexType) or not isinstance(type, MemRefType):
        return {}
    attributes: dict[str, Attribute] = {
        "llvm.align": IntegerAttr(BUFFER_ALIGNMENT, I64),
        "llvm.noundef": UnitAttr(),
    }
    if not may_alias:
        attributes["llvm.noalias"] = UnitAttr()
    count = const(1)
    for extent in memref_shape_exprs(type):
        count = count * extent
    if count.is_const() and count.const_value() > 0:
        size = count.const_value() * element_bytes(lowered_type(type.element_type, None))
        attributes["llvm.dereferenceable"] = IntegerAttr(size, I64)
    return attributes
