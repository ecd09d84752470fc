"""``loop-hoist-allocs``: main memory of a kernel becomes workspace arguments.

    func @k(%x, %out, %n: index) {              func @k(%x, %out, %B, %n: index) num_workspaces = 1 {
      for i in 0..8 parallel                      for i in 0..8 parallel
        %B = alloc global : 4x16          -->       ... %B[i, ...]            (%B: 8x4x16)
        ... %B[...]

Every ``loop.alloc`` of scope ``global`` goes; ``local`` ones stay. A buffer inside a parallel loop gets one
slice for each iteration, as its first dimension; iterations of other loops share one, since nothing lives from
one to the next. The workspaces follow the outputs, before the index arguments; their number is the attribute
``num_workspaces``.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import FunctionType, IntegerAttr, MemRefType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ...core.attributes import memref_shape_exprs, memref_type
from ...core.symbolic import SymExpr
from ...dialects.loop.ops import AllocOp
from .index import IndexSpace
from .kernel_pass import KernelPass
from .nest import accesses, erase, loops_around


@dataclass(frozen=True)
class LoopHoistAllocsPass(KernelPass):
    """Turn global allocations into workspace arguments; see the module. Expects lowered blocks."""

    name = "loop-hoist-allocs"

    def apply_to_kernel(self, kernel: FuncOp) -> None:
        space = IndexSpace(kernel)
        allocs = [op for op in kernel.walk() if isinstance(op, AllocOp) and op.scope.data == "global"]
        for alloc in allocs:
            _hoist(space, kernel, alloc)
        args = kernel.body.block.args
        kernel.function_type = FunctionType.from_lists([a.type for a in args], [])
        before = kernel.attributes.get("num_workspaces")
        count = before.value.data if isinstance(before, IntegerAttr) else 0
        kernel.attributes["num_workspaces"] = IntegerAttr(count + len(allocs), i64)


def _hoist(space: IndexSpace, kernel: FuncOp, alloc: AllocOp) -> None:
    type_ = alloc.result.type
    assert isinstance(type_, MemRefType)
    parallel = [x for x in loops_around(alloc) if x.kind.data == "parallel"]
    slices: list[SymExpr] = [space.extent(x) for x in parallel]
    shape = (*slices, *memref_shape_exprs(type_))
    new: MemRefType[Attribute] = memref_type(type_.element_type, shape)
    block = kernel.body.block
    arg = block.insert_arg(new, len(block.args) - len(space.symbols))
    arg.name_hint = alloc.result.name_hint or alloc.buffer_name.data
    own = [space.var(x.var) for x in parallel]
    for op in accesses(alloc.result):
        op.operands = [arg if v is alloc.result else v for v in op.operands]
        if own:
            space.write(op, map=[*own, *space.read(op, "map")])
    erase(alloc)
