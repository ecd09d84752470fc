"""One kernel of loop IR, compiled and loaded into this process, as a Python function on NumPy arrays.

For tests and measurements of single kernels. Whole models are compiled into artefacts and run by `runtime/`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from .codegen import host_machine, optimised_ir
from .emit import emit_module
from .jit import Context, load_ir
from .lower import lower_kernel
from .lower_build import BUFFER_ALIGNMENT

Array = npt.NDArray[Any]


class NativeKernel:
    """A kernel that has been through the loop passes; it is cloned, not changed."""

    def __init__(self, kernel: FuncOp) -> None:
        module = ModuleOp(list(lower_kernel(kernel.clone())))
        module.verify()
        self.text = emit_module(module)
        """The kernel as LLVM IR, not optimised."""
        self._code = load_ir(self.text, kernel.sym_name.data)
        self._name = kernel.sym_name.data

    @property
    def optimised(self) -> str:
        """The kernel as LLVM IR after optimisation."""
        return optimised_ir(self.text, host_machine())

    def __call__(self, *arguments: Array | int, threads: int = 1) -> None:
        """Run it: arrays in the order of the buffer arguments, then the symbols' values.

        Arrays are copied into aligned memory and, results and all, copied back. RuntimeError if the kernel wrote next
        to a buffer.
        """
        buffers = [_Buffer(each) if isinstance(each, np.ndarray) else None for each in arguments]
        values = [each if buffer is None else buffer.address for each, buffer in zip(arguments, buffers)]
        types = [ctypes.c_int64 if buffer is None else ctypes.c_void_p for buffer in buffers]
        function = self._code.function(self._name, None, ctypes.c_void_p, *types)
        with Context(threads) as context:
            function(context.address, *values)
        for number, (each, buffer) in enumerate(zip(arguments, buffers)):
            if isinstance(each, np.ndarray) and buffer is not None:
                if not buffer.is_intact():
                    raise RuntimeError(f"kernel '{self._name}' wrote outside of argument {number}")
                each[...] = buffer.array


class _Buffer:
    """A copy of an array in memory that is aligned as kernels expect, between margins of a known pattern."""

    def __init__(self, array: Array) -> None:
        memory = np.full(array.nbytes + 3 * BUFFER_ALIGNMENT, _PATTERN, np.uint8)
        start = BUFFER_ALIGNMENT + -memory.ctypes.data % BUFFER_ALIGNMENT
        end = start + array.nbytes
        self._margins = memory[:start], memory[end:]
        self.array = memory[start:end].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.address: int = memory.ctypes.data + start

    def is_intact(self) -> bool:
        return all(bool((margin == _PATTERN).all()) for margin in self._margins)


_PATTERN = 0xA5
