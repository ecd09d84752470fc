"""The host program in native code: a function of the vm dialect becomes an entry with a C interface.

    i32 tw_entry_<name>(ptr ctx, ptr weights, ptr inputs, ptr outputs, ptr error)

``ctx`` is the runtime's context table (see ``runtime_ir.py``), ``weights`` the mapped weight section;
``inputs`` and ``outputs`` are arrays of ``{ptr data; i64 rank; ptr shape}``. An output without data is
allocated by ``ctx.allocate`` and belongs to the caller from then on, also when the call fails. The entry
returns 0, or 1 after it has filled in ``error = {i64 code; i64 site; i64 a; i64 b}``: code 1 is a failed
check, whose message has number ``site`` in the table that ``lower_host`` gives; code 2 is a lack of memory,
``a`` bytes were asked for.

Storages are allocated where the program says and released on every way out. There is no mutable global and no
symbol besides the kernels, so entries may run in several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import llvm, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp, i1, i8, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...core.attributes import IndexMapAttr, memref_shape_exprs
from ...core.diagnostics import emit_error
from ...dialects.vm import ops as vm
from ...passes.vm.plan_memory import byte_size
from .host_builder import POINTER, HostBuilder

CHECK_FAILED, OUT_OF_MEMORY = 1, 2
_ALLOCATE, _RELEASE = 2, 3
_DATA, _SHAPE, _TENSOR_FIELDS = 0, 2, 3


@dataclass
class HostProgram:
    """The module to compile, and the messages of its checks by site number."""

    module: ModuleOp
    messages: list[str] = field(default_factory=list)


def entry_symbol(name: str) -> str:
    """The linker's name of a public function."""
    return f"tw_entry_{name}"


def lower_host(
    functions: Sequence[FuncOp],
    kernels: Mapping[str, FuncOp],
    weight_offset: Callable[[vm.ConstantOp], int],
) -> HostProgram:
    """One module with an entry for each function; ``kernels`` are the functions that they may call."""
    program = HostProgram(ModuleOp([]))
    called: dict[str, FuncOp] = {}
    for function in functions:
        entry = _Entry(function, kernels, weight_offset, program.messages)
        program.module.body.block.add_op(entry.lower())
        called.update(entry.called)
    for name, kernel in called.items():
        program.module.body.block.add_op(_declaration(name, kernel))
    return program


def _declaration(name: str, kernel: FuncOp) -> llvm.FuncOp:
    inputs = [POINTER if isinstance(type, MemRefType) else i64 for type in kernel.function_type.inputs]
    type = llvm.LLVMFunctionType([POINTER, *inputs], llvm.LLVMVoidType())
    return llvm.FuncOp(name, type, llvm.LinkageAttr("external"), other_props={"unnamed_addr": IntegerAttr(0, i64)})


class _Entry:
    """The lowering of one function. ``values`` maps memrefs to pointers and sizes to integers."""

    def __init__(
        self,
        function: FuncOp,
        kernels: Mapping[str, FuncOp],
        weight_offset: Callable[[vm.ConstantOp], int],
        messages: list[str],
    ) -> None:
        self.function = function
        self.kernels = kernels
        self.weight_offset = weight_offset
        self.messages = messages
        self.called: dict[str, FuncOp] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.storages: list[SSAValue] = []

    def lower(self) -> llvm.FuncOp:
        """The entry as a function of the llvm dialect."""
        self.build = HostBuilder(entry_symbol(self.function.sym_name.data), [POINTER] * 5)
        self.context, self.weights, self.inputs, self.outputs, self.error = self.build.block.args
        self.fail = self._failure_block()
        for number, arg in enumerate(self.function.body.block.args):
            self.values[arg] = self.build.load(self.inputs, POINTER, number * _TENSOR_FIELDS + _DATA)
        self.ops(self.function.body.block)
        return self.build.function

    def ops(self, block: Block) -> None:
        """Lower the ops of a block, one after the other."""
        for op in block.ops:
            lower = _LOWERINGS.get(type(op))
            if lower is None:
                emit_error(op, "has no native code in a host program")
            lower(self, op)

    def _failure_block(self) -> Block:
        """``fail(code, site, a, b)``: fill in the error and return 1."""
        block = self.build.new_block(*[i64] * 4)
        current, self.build.block = self.build.block, block
        for index, arg in enumerate(block.args):
            self.build.store(arg, self.error, index)
        self.build.finish(1)
        self.build.block = current
        return block

    def fail_if(self, condition: SSAValue, code: int, site: int, a: SSAValue, b: SSAValue) -> None:
        """Leave with an error where the condition holds; storages are released on the way."""
        build = self.build
        leaving, going = build.new_block(), build.new_block()
        build.branch_if(condition, leaving, [], going)
        build.block = leaving
        self.release()
        build.jump(self.fail, build.integer(code), build.integer(site), a, b)
        build.block = going

    def release(self) -> None:
        """Give back all storages allocated so far."""
        if self.storages:
            function = self.build.load(self.context, POINTER, _RELEASE)
            for storage in reversed(self.storages):
                self.build.call_pointer(function, [self.context, storage], None)

    def allocate(self, bytes: SSAValue) -> SSAValue:
        """Memory from the context; lack of memory ends the call."""
        function = self.build.load(self.context, POINTER, _ALLOCATE)
        pointer = self.build.call_pointer(function, [self.context, bytes], POINTER)
        assert pointer is not None
        missing = self.build.is_null(pointer)
        self.fail_if(missing, OUT_OF_MEMORY, 0, bytes, self.build.integer(0))
        return pointer

    def evaluate(self, map: IndexMapAttr, args: Sequence[SSAValue]) -> SSAValue:
        """The value of a one-result map."""
        values = {f"d{i}": self.values[arg] for i, arg in enumerate(args)}
        return self.build.expression(map.results[0], values)

    def bytes_of(self, type: Attribute, sizes: Sequence[SSAValue]) -> SSAValue:
        """The bytes of a memref whose symbols have these values."""
        return self.build.expression(byte_size(type), self.symbols(type, sizes))

    def symbols(self, type: Attribute, sizes: Sequence[SSAValue]) -> dict[str, SSAValue]:
        return {name: self.values[size] for name, size in zip(vm.free_symbols(type), sizes)}


def _dim(entry: _Entry, op: vm.DimOp) -> None:
    number = list(entry.function.body.block.args).index(op.source)  # type: ignore[arg-type]
    shape = entry.build.load(entry.inputs, POINTER, number * _TENSOR_FIELDS + _SHAPE)
    entry.values[op.result] = entry.build.load(shape, i64, op.dim.value.data)


def _index(entry: _Entry, op: vm.IndexOp) -> None:
    entry.values[op.result] = entry.evaluate(op.map, op.args)


def _check(entry: _Entry, op: vm.CheckOp) -> None:
    found, expected = entry.values[op.found], entry.values[op.expected]
    differ = entry.build.compare("ne", found, expected)
    entry.fail_if(differ, CHECK_FAILED, len(entry.messages), found, expected)
    entry.messages.append(op.message.data)


def _constant(entry: _Entry, op: vm.ConstantOp) -> None:
    entry.values[op.result] = entry.build.offset(entry.weights, entry.weight_offset(op), i8)


def _output(entry: _Entry, op: vm.OutputOp) -> None:
    """The caller's memory, or new memory in its place; the shape is reported either way."""
    build, base = entry.build, op.number.value.data * _TENSOR_FIELDS
    shape = build.load(entry.outputs, POINTER, base + _SHAPE)
    symbols = entry.symbols(op.result.type, op.sizes)
    for dim, extent in enumerate(memref_shape_exprs(op.result.type)):
        build.store(build.expression(extent, symbols), shape, dim)
    given = build.load(entry.outputs, POINTER, base + _DATA)
    missing = build.is_null(given)
    making, done = build.new_block(), build.new_block(POINTER)
    build.add(llvm.CondBrOp(missing, making, [], done, [given]))
    build.block = making
    made = entry.allocate(entry.bytes_of(op.result.type, op.sizes))
    build.store(made, entry.outputs, base + _DATA)
    build.jump(done, made)
    build.block = done
    entry.values[op.result] = done.args[0]


def _storage(entry: _Entry, op: vm.StorageOp) -> None:
    storage = entry.allocate(entry.evaluate(op.bytes, op.args))
    entry.storages.append(storage)
    entry.values[op.result] = storage


def _place(entry: _Entry, op: vm.PlaceOp) -> None:
    offset = op.offset.results[0]
    index = offset.const_value() if offset.is_const() else entry.evaluate(op.offset, op.args)
    entry.values[op.result] = entry.build.offset(entry.values[op.storage], index, i8)


def _view(entry: _Entry, op: vm.ViewOp) -> None:
    entry.values[op.result] = entry.values[op.source]


def _load(entry: _Entry, op: vm.LoadOp) -> None:
    """A boolean is a byte in memory."""
    if op.result.type != i1:
        emit_error(op, f"loads a value of type {op.result.type}, expected i1")
    byte = entry.build.value(llvm.LoadOp(entry.values[op.source], i8, 1))
    entry.values[op.result] = entry.build.compare("ne", byte, entry.build.integer(0, i8))


def _if(entry: _Entry, op: scf.IfOp) -> None:
    build = entry.build
    branches, after = [build.new_block(), build.new_block()], build.new_block()
    build.add(llvm.CondBrOp(entry.values[op.cond], branches[0], [], branches[1], []))
    for block, region in zip(branches, (op.true_region, op.false_region)):
        build.block = block
        if region.blocks:
            entry.ops(region.block)
        build.jump(after)
    build.block = after


def _while(entry: _Entry, op: scf.WhileOp) -> None:
    build = entry.build
    test, body, after = build.new_block(), build.new_block(), build.new_block()
    build.jump(test)
    build.block = test
    entry.ops(op.before_region.block)
    condition = op.before_region.block.last_op
    assert isinstance(condition, scf.ConditionOp)
    build.add(llvm.CondBrOp(entry.values[condition.condition], body, [], after, []))
    build.block = body
    entry.ops(op.after_region.block)
    build.jump(test)
    build.block = after


def _end_of_region(entry: _Entry, op: Operation) -> None:
    """What follows is for the op around the region."""
    if op.operands[1:] or (op.operands and isinstance(op, scf.YieldOp)):
        emit_error(op, "passes values on, expected control flow over memory only")


def _copy(entry: _Entry, op: vm.CopyOp) -> None:
    bytes = entry.bytes_of(op.source.type, op.sizes)
    entry.build.copy(entry.values[op.target], entry.values[op.source], bytes)


def _call(entry: _Entry, op: vm.CallOp) -> None:
    name = op.kernel.root_reference.data
    kernel = entry.kernels.get(name)
    if kernel is None:
        emit_error(op, f"calls @{name}, for which there is no code")
    entry.called[name] = kernel
    for arg in op.args:
        if not isinstance(arg.type, MemRefType | IndexType):
            emit_error(op, f"passes a value of type {arg.type} to a kernel")
    entry.build.call(name, [entry.context, *(entry.values[arg] for arg in op.args)])


def _return(entry: _Entry, op: vm.ReturnOp) -> None:
    entry.release()
    entry.build.finish(0)


def _unplanned(entry: _Entry, op: Operation) -> None:
    emit_error(op, "has no place yet: run vm-plan-memory first")


_LOWERINGS: dict[type[Operation], Callable[[_Entry, Any], None]] = {
    vm.DimOp: _dim,
    vm.IndexOp: _index,
    vm.CheckOp: _check,
    vm.ConstantOp: _constant,
    vm.OutputOp: _output,
    vm.StorageOp: _storage,
    vm.PlaceOp: _place,
    vm.ViewOp: _view,
    vm.LoadOp: _load,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.YieldOp: _end_of_region,
    scf.ConditionOp: _end_of_region,
    vm.CopyOp: _copy,
    vm.CallOp: _call,
    vm.ReturnOp: _return,
    vm.AllocOp: _unplanned,
}
