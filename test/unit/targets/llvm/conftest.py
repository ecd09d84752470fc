"""What the tests of the LLVM target share: building kernels of loop IR, and compiling and calling them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IndexType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.core.attributes import IndexMapAttr
from tilewright.core.symbolic import ExprLike, SymExpr, sym
from tilewright.dialects.loop import ops as loop
from tilewright.targets.llvm.codegen import host_machine, optimised_ir
from tilewright.targets.llvm.emit import emit_module
from tilewright.targets.llvm.jit import Context, load_ir
from tilewright.targets.llvm.lower import lower_kernel


class KernelBuilder:
    """Writes a kernel of loop IR in Python; `d` are the positional names of index expressions."""

    d: Sequence[SymExpr] = tuple(sym(f"d{number}") for number in range(8))

    def __init__(self, types: Sequence[Attribute], symbols: Sequence[str] = ()) -> None:
        self.block = Block(arg_types=[*types, *(IndexType() for _ in symbols)])
        self.symbols = symbols
        self.attributes: dict[str, Attribute] = {}

    @property
    def args(self) -> Sequence[SSAValue]:
        return self.block.args

    def finish(self, verify: bool = True) -> func.FuncOp:
        """The kernel; xDSL's verifier knows no comparisons of vectors, which some tests want nevertheless."""
        with ImplicitBuilder(self.block):
            func.ReturnOp()
        types = [argument.type for argument in self.block.args]
        kernel = func.FuncOp("k", FunctionType.from_lists(types, []), Region(self.block))
        kernel.attributes["tw.kernel"] = UnitAttr()
        kernel.attributes["symbols"] = ArrayAttr([StringAttr(name) for name in self.symbols])
        kernel.attributes.update(self.attributes)
        module = ModuleOp([kernel])
        if verify:
            module.verify()
        return kernel

    @staticmethod
    def map(count: int, *results: ExprLike) -> IndexMapAttr:
        return IndexMapAttr(count, results)

    def loop(
        self, extent: ExprLike, body: Callable[[SSAValue], None], kind: str = "serial", args: Sequence[SSAValue] = ()
    ) -> None:
        block = Block(arg_types=[IndexType()])
        loop.ForOp(self.map(len(args), extent), args, Region(block), kind)
        with ImplicitBuilder(block):
            body(block.args[0])

    def load(
        self,
        memref: SSAValue,
        args: Sequence[SSAValue],
        *indices: ExprLike,
        type: Attribute | None = None,
        where: Sequence[ExprLike] = (),
        default: SSAValue | None = None,
    ) -> SSAValue:
        guard = self.map(len(args), *where) if where else None
        return loop.LoadOp(memref, args, self.map(len(args), *indices), guard, default, type).result

    def store(
        self,
        value: SSAValue,
        memref: SSAValue,
        args: Sequence[SSAValue],
        *indices: ExprLike,
        where: Sequence[ExprLike] = (),
    ) -> None:
        guard = self.map(len(args), *where) if where else None
        loop.StoreOp(value, memref, args, self.map(len(args), *indices), guard)


def kernel_ir(kernel: func.FuncOp) -> str:
    """The kernel as LLVM IR; the lowered module must verify."""
    if kernel.parent is not None:
        kernel.detach()
    module = ModuleOp(list(lower_kernel(kernel)))
    module.verify()
    return emit_module(module)


class CompiledKernel:
    """A kernel that can be called with arrays (copied into aligned memory and back) and the values of symbols."""

    def __init__(self, kernel: func.FuncOp) -> None:
        self.text = kernel_ir(kernel)
        self._code = load_ir(self.text, "k")

    @property
    def optimised(self) -> str:
        return optimised_ir(self.text, host_machine())

    def __call__(self, *arguments: np.ndarray | int, threads: int = 1) -> None:
        buffers = [_aligned(each) if isinstance(each, np.ndarray) else None for each in arguments]
        values = [each if buffer is None else buffer.ctypes.data for each, buffer in zip(arguments, buffers)]
        types = [ctypes.c_int64 if buffer is None else ctypes.c_void_p for buffer in buffers]
        with Context(threads) as context:
            self._code.function("k", None, ctypes.c_void_p, *types)(context.address, *values)
        for each, buffer in zip(arguments, buffers):
            if isinstance(each, np.ndarray) and buffer is not None:
                each[...] = buffer


def _aligned(array: np.ndarray) -> np.ndarray:
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    result = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


@pytest.fixture
def kernel_builder() -> type[KernelBuilder]:
    return KernelBuilder


@pytest.fixture
def compile_kernel() -> Iterator[type[CompiledKernel]]:
    yield CompiledKernel
