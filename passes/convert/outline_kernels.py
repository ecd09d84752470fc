"""The pass ``outline-kernels``: each ``graph.kernel`` becomes a private function and a ``graph.call``.

Kernels that are equal up to value names and locations become one function, so that equal layers are scheduled and
compiled once. Calls keep the location of their kernel, and with it the model's node names.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...core.context import TilewrightContext
from ...core.passes import ModulePass, anchored_ops
from ...dialects.graph.structure import CallOp, ConstantOp, KernelOp, YieldOp
from .structure import structural_key


@dataclass(frozen=True)
class OutlineKernelsPass(ModulePass):
    """Moves kernels into functions ``func.func private`` marked ``tw.kernel``.

    ::

        %y = graph.kernel "add" (%x, %w) : (...) -> tensor<4xf32> { ^bb0(%0, %1): ... graph.yield %2 }
        -->
        %y = graph.call @add(%x, %w) : (...) -> tensor<4xf32>
        func.func private @add(%0, %1) -> tensor<4xf32> attributes {tw.kernel, constant_args = [1]} {
          ...
          func.return %2
        }

    ``constant_args`` lists the arguments that every call site gives a ``graph.constant``: those may be packed for
    the kernel when the artefact is written.
    """

    name: ClassVar[str] = "outline-kernels"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        outlining = _Outlining(op)
        for kernel in anchored_ops(op, "graph.kernel"):
            assert isinstance(kernel, KernelOp)
            outlining.outline(kernel)
        outlining.finish()


@dataclass
class _Kernel:
    function: func.FuncOp
    constant_args: set[int]


@dataclass
class _Outlining:
    module: ModuleOp
    kernels: dict[Hashable, _Kernel] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in self.module.body.block.ops:
            name = op.properties.get("sym_name")
            if isinstance(name, StringAttr):
                self.names.add(name.data)

    def outline(self, op: KernelOp) -> None:
        constants = {i for i, v in enumerate(op.inputs) if _is_constant(v)}
        types = tuple(result.type for result in op.results)
        key = (structural_key(op.body), types)
        kernel = self.kernels.get(key)
        if kernel is None:
            kernel = self.kernels[key] = _Kernel(self._make_function(op), constants)
            self.module.body.block.add_op(kernel.function)
        kernel.constant_args &= constants
        call = CallOp(kernel.function.sym_name.data, op.inputs, types)
        call.location = op.location
        Rewriter.insert_op(call, InsertPoint.before(op))
        for old, new in zip(op.results, call.results):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        Rewriter.erase_op(op)

    def finish(self) -> None:
        for kernel in self.kernels.values():
            kernel.function.attributes["constant_args"] = ArrayAttr(
                [IntegerAttr(i, i64) for i in sorted(kernel.constant_args)]
            )

    def _make_function(self, op: KernelOp) -> func.FuncOp:
        region = op.detach_region(op.body)
        terminator = region.block.last_op
        assert isinstance(terminator, YieldOp)
        returned = func.ReturnOp(*terminator.values)
        returned.location = terminator.location
        Rewriter.replace_op(terminator, returned)
        types = FunctionType.from_lists([v.type for v in op.inputs], [r.type for r in op.results])
        function = func.FuncOp(self._unique_name(op.kernel_name.data), types, region, "private")
        function.attributes["tw.kernel"] = UnitAttr()
        function.location = op.location
        return function

    def _unique_name(self, wanted: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_]", "_", wanted) or "kernel"
        if base[0].isdigit():
            base = f"kernel_{base}"
        name, count = base, self.counts.get(base, 0)
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.counts[base] = count
        self.names.add(name)
        return name


def _is_constant(value: SSAValue) -> bool:
    owner: Operation | object = value.owner
    return isinstance(owner, ConstantOp)
