"""Local buffers of a function: on the stack where they are small, else allocated through the context.

A stack buffer is made once for the function, whatever loop it is in, so that LLVM can promote it to registers. A buffer
whose size is known at run time only, or that is too large, is allocated where it stands and released at the end of the
block of loop IR that it lives in. The context's allocator keeps blocks warm, so this costs little after the first time.
Kernels have no way to report an error: without memory the program stops with a trap.
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue

from .lower_build import NO_WRAP, POINTER, FunctionBuilder, element_bytes
from .runtime_ir import CONTEXT_FIELDS

MAX_STACK_BYTES = 256 * 1024
"""Of all stack buffers of one function; worker threads have stacks of a few megabytes."""


class LocalBuffers:
    """The local buffers of the function that `builder` builds."""

    def __init__(self, builder: FunctionBuilder, context: SSAValue) -> None:
        self.builder = builder
        self.context = context
        self._stack_bytes = 0
        self._heap: list[list[SSAValue]] = []

    def push(self) -> None:
        """Enter a block of loop IR."""
        self._heap.append([])

    def pop(self) -> None:
        """Leave it: its allocated buffers end."""
        for buffer in reversed(self._heap.pop()):
            release = self._function("release")
            self.builder.add(indirect_call([release, self.context, buffer]))

    def fits_the_stack(self, count: int, element: Attribute) -> bool:
        return self._stack_bytes + count * element_bytes(element) <= MAX_STACK_BYTES

    def on_the_stack(self, count: int, element: Attribute) -> SSAValue:
        """A buffer of that many elements for the whole call of the function."""
        self._stack_bytes += count * element_bytes(element)
        return self.builder.stack_buffer(element, count)

    def on_the_heap(self, count: SSAValue, element: Attribute) -> SSAValue:
        """A buffer until the current block of loop IR ends."""
        build = self.builder
        size = build.make(llvm.MulOp, [count, build.integer(element_bytes(element))], i64, NO_WRAP)
        call = indirect_call([self._function("allocate"), self.context, size], POINTER)
        buffer = build.add(call).results[0]
        missing = build.compare("eq", build.make(llvm.PtrToIntOp, [buffer], i64), build.integer(0))
        stop, go_on = build.new_block(), build.new_block()
        build.branch_if(missing, stop, [], go_on, [])
        build.enter(stop)
        build.add(llvm.CallIntrinsicOp("llvm.trap", [], []))
        build.add(llvm.UnreachableOp())
        build.enter(go_on)
        self._heap[-1].append(buffer)
        return buffer

    def _function(self, field: str) -> SSAValue:
        """A function of the context table."""
        slot = self.builder.field_pointer(self.context, i64, CONTEXT_FIELDS.index(field))
        return self.builder.load(slot, POINTER, 8)


def indirect_call(operands: list[SSAValue], result: Attribute | None = None) -> llvm.CallOp:
    """A call of the function that the first operand points to."""
    call = llvm.CallOp("indirect", *operands, return_type=result)
    del call.properties["callee"]
    return call
