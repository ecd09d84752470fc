"""What the tests of the LLVM target share: building kernels of loop IR, and compiling them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IndexType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.core.attributes import IndexMapAttr
from tilewright.core.symbolic import ExprLike, SymExpr, sym
from tilewright.dialects.loop import ops as loop
from tilewright.targets.llvm.native_kernel import NativeKernel


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


@pytest.fixture
def kernel_builder() -> type[KernelBuilder]:
    return KernelBuilder


@pytest.fixture
def compile_kernel() -> type[NativeKernel]:
    return NativeKernel
