"""Kernels of loop IR to the ``c`` dialect.

    func.func private @k(%x: memref<64xf32>, %y: memref<?xf32, #tw.dims<[n]>>, %n: index) attributes {tw.kernel, ...}
    --> c.func static @kernel_k(%x: !c.const_ptr<f32>, %y: !c.ptr<f32>, %n: i64)

Expects kernels after the loop passes: loops of any kind (``vectorized`` and ``unrolled`` ones run serially,
``parallel`` ones keep a mark), loads, stores, index expressions, conditions, local buffers, and element arithmetic on
scalars. Vectors are refused.

Deliberately elsewhere: index expressions (``lower_index.py``), element arithmetic (``lower_ops.py``), public functions
(``host.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects import func
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, MemRefType, ModuleOp, StringAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...core.attributes import memref_shape_exprs
from ...core.diagnostics import emit_error
from ...core.passes import ModulePass
from ...core.symbolic import const
from ...dialects.loop import ops as loop
from .build import Builder, erase_unused, pointer_type, storage_type, value_type
from .dialect import ArrayOp, LoadOp, StoreOp
from .lower_index import IndexLowering, is_index
from .lower_ops import ELEMENT_OPS
from .names import identifier
from .structure import ForOp, FuncOp, IfOp

if TYPE_CHECKING:
    from ...core.context import TilewrightContext

KERNEL_ATTRIBUTE = "tw.kernel"
MAY_ALIAS_ATTRIBUTE = "tw.may_alias"
MAX_STACK_BYTES = 16 * 1024
"""Of the local buffers of one kernel: small devices have small stacks."""


@dataclass(frozen=True)
class ConvertLoopToCPass(ModulePass):
    """Replaces every kernel of the module by a function of the `c` dialect; other functions stay.

    func.func @k(%x: memref<4xf32>) attributes {tw.kernel} --> c.func static @kernel_k(%x: !c.ptr<f32>)
    """

    name = "convert-loop-to-c"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for kernel in list(op.ops):
            if isinstance(kernel, func.FuncOp) and KERNEL_ATTRIBUTE in kernel.attributes:
                block = kernel.parent_block()
                assert block is not None
                block.insert_op_before(lower_kernel(kernel), kernel)
                kernel.detach()  # type: ignore[no-untyped-call]
                kernel.erase(safe_erase=False)


def kernel_name(name: str) -> str:
    """The function of a kernel: kernels are named after what they compute, and C's library has an ``exp`` already."""
    return f"kernel_{name}"


def lower_kernel(kernel: func.FuncOp) -> FuncOp:
    """The function that a kernel becomes."""
    symbols = kernel.attributes.get("symbols", ArrayAttr([]))
    assert isinstance(symbols, ArrayAttr)
    names = [symbol.data for symbol in symbols if isinstance(symbol, StringAttr)]
    arguments = list(kernel.body.block.args)
    indices = [argument for argument in arguments if is_index(argument)]
    if len(indices) != len(names):
        emit_error(kernel, f"has {len(indices)} index arguments for {len(names)} symbols")
    for op in kernel.body.walk():
        for result in op.results:
            if not isinstance(result.type, MemRefType):
                value_type(result.type, op)
    types = kernel_types(kernel)
    block = Block(arg_types=types)
    lowering = KernelLowering(Builder(block, kernel))
    for argument, value in zip(arguments, block.args, strict=True):
        value.name_hint = argument.name_hint
        if is_index(argument):
            lowering.index.bind(argument, value, (0, None), names[indices.index(argument)])
        else:
            lowering.values[argument] = value
    lowering.body(kernel.body.block)
    function = FuncOp(
        kernel_name(kernel.sym_name.data),
        FunctionType.from_lists(types, []),
        Region(block),
        may_alias=MAY_ALIAS_ATTRIBUTE in kernel.attributes,
    )
    function.location = kernel.location
    erase_unused(function)
    return function


def kernel_types(kernel: func.FuncOp) -> list[Attribute]:
    """The types of a kernel's arguments in C: its inputs are const."""
    count = kernel.attributes.get("num_inputs")
    inputs = count.value.data if isinstance(count, IntegerAttr) else 0
    return [
        pointer_type(type, kernel, number < inputs) if isinstance(type, MemRefType) else value_type(type, kernel)
        for number, type in enumerate(kernel.function_type.inputs)
    ]


class KernelLowering:
    """Lowers loop IR into the block that ``build`` appends to."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.index = IndexLowering(build)
        self.values: dict[SSAValue, SSAValue] = {}
        self._stack_bytes = 0

    def body(self, block: Block) -> None:
        """Lower the operations of a block of loop IR, its terminator aside."""
        for op in block.ops:
            self.build.location = op.location
            if (element := ELEMENT_OPS.get(op.name)) is not None:
                self._element(op, element)
            elif (lower := _STRUCTURE.get(type(op))) is not None:
                lower(self, op)
            elif not isinstance(op, func.ReturnOp):
                emit_error(op, "has no lowering to C")

    def value(self, source: SSAValue) -> SSAValue:
        """The lowered value of a value of loop IR."""
        return self.index.value_of(source) if is_index(source) else self.values[source]

    def _define(self, source: SSAValue, value: SSAValue) -> None:
        if is_index(source):
            self.index.bind(source, value)
        else:
            self.values[source] = value

    def _element(self, op: Operation, lower: Callable[..., SSAValue]) -> None:
        if isinstance(op, ConstantOp) and is_index(op.result):
            assert isinstance(op.value, IntegerAttr)
            self.index.bind_expression(op.result, const(op.value.value.data))
            return
        self._define(op.results[0], lower(self.build, op, [self.value(operand) for operand in op.operands]))

    def _index(self, op: loop.IndexOp) -> None:
        self.index.bind_expression(op.result, self.index.resolve(op.map, op.args)[0])

    # Memory. Booleans are bytes there.

    def _place(self, op: loop.LoadOp | loop.StoreOp) -> tuple[SSAValue, SSAValue]:
        """The pointer and the index of an element."""
        assert isinstance(op.memref.type, MemRefType)
        offset = self.index.offset(op.memref.type, self.index.resolve(op.map, op.args))
        return self.values[op.memref], self.index.value(offset)

    def _condition(self, op: loop.LoadOp | loop.StoreOp | loop.IfOp) -> SSAValue | None:
        return None if op.where is None else self.index.condition(self.index.resolve(op.where, op.args))

    def _load(self, op: loop.LoadOp) -> None:
        condition = self._condition(op)
        default = None if condition is None or op.default is None else self._stored(self.value(op.default), op)
        pointer, index = self._place(op)
        value = self.build.value(LoadOp(pointer, index, condition, default))
        if op.result.type == i1:
            value = self.build.compare(value, "!=", self.build.integer(0, value.type))
        elif value.name_hint is None:
            value.name_hint = op.result.name_hint
        self._define(op.result, value)

    def _stored(self, value: SSAValue, op: Operation) -> SSAValue:
        """The value as memory holds it."""
        return self.build.cast(value, storage_type(value.type, op))

    def _store(self, op: loop.StoreOp) -> None:
        condition = self._condition(op)
        if condition is None:
            self._write(op)
            return
        inside = IfOp(condition)
        self.build.add(inside)
        with self.build.inside(inside.body.block):
            self._write(op)

    def _write(self, op: loop.StoreOp) -> None:
        value = self._stored(self.value(op.value), op)
        pointer, index = self._place(op)
        self.build.add(StoreOp(value, pointer, index))

    def _alloc(self, op: loop.AllocOp) -> None:
        if op.scope.data != "local":
            emit_error(op, "is in main memory: expected a workspace argument of the kernel in its place")
        count = const(1)
        for extent in memref_shape_exprs(op.result.type):
            count = count * extent
        if not count.is_const():
            emit_error(op, f"has {count} elements, expected a constant number for a local buffer")
        element = storage_type(op.result.type.element_type, op)
        self._stack_bytes += count.const_value() * max(1, element.bitwidth // 8)  # type: ignore[attr-defined]
        if self._stack_bytes > MAX_STACK_BYTES:
            emit_error(op, f"brings local buffers to {self._stack_bytes} bytes, expected at most {MAX_STACK_BYTES}")
        array = self.build.value(ArrayOp(max(1, count.const_value()), element))
        array.name_hint = op.result.name_hint or identifier(op.buffer_name.data)
        self.values[op.result] = array

    # Control.

    def _for(self, op: loop.ForOp) -> None:
        extent = self.index.resolve(op.extent, op.args)[0]
        if extent.is_const() and extent.const_value() <= 0:
            return
        if extent == 1:
            self.index.bind_expression(op.var, const(0))
            self.body(op.body.block)
            return
        _, high = self.index.bounds(extent)
        inner = ForOp(self.index.value(extent), parallel=op.kind.data == "parallel")
        self.build.add(inner)
        var = inner.body.block.args[0]
        var.name_hint = op.var.name_hint
        self.index.bind(op.var, var, (0, None if high is None else high - 1))
        with self.build.inside(inner.body.block):
            self.body(op.body.block)

    def _if(self, op: loop.IfOp) -> None:
        condition = self._condition(op)
        if condition is None:
            self.body(op.body.block)
            return
        inner = IfOp(condition, orelse=None if op.orelse is None else Region(Block()))
        self.build.add(inner)
        regions: Sequence[tuple[Region | None, Region | None]] = ((op.body, inner.body), (op.orelse, inner.orelse))
        for old, new in regions:
            if old is not None and new is not None:
                with self.build.inside(new.block):
                    self.body(old.block)


_STRUCTURE: dict[type[Operation], Callable[[KernelLowering, Any], None]] = {
    loop.ForOp: KernelLowering._for,
    loop.IfOp: KernelLowering._if,
    loop.LoadOp: KernelLowering._load,
    loop.StoreOp: KernelLowering._store,
    loop.IndexOp: KernelLowering._index,
    loop.AllocOp: KernelLowering._alloc,
}

__all__ = ["kernel_name", "kernel_types", "lower_kernel"]
