"""``loop-compact-buffers``: an intermediate buffer shrinks to what is alive of it at once.

    alloc B: 64x64                        for i
    for i                                   alloc B: 1x64
      for j: B[i, j] = ...         -->      for j: B[0, j] = ...
      for j: C[i, j] = B[i, j]              for j: C[i, j] = B[0, j]

The allocation moves into the innermost loop that encloses all accesses, and each dimension keeps the hull of
what one iteration accesses. Blocks that share loops exchange values only within one iteration, so nothing is
lost; a buffer inside a parallel loop thereby becomes each iteration's own. Works on blocks and on lowered loads
and stores alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from ...core.attributes import memref_shape_exprs, memref_type
from ...core.symbolic import SymExpr
from ...dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp
from .index import IndexSpace
from .kernel_pass import KernelPass
from .nest import accesses, detach, erase, loops_around, writers
from .placement import region_accessed
from .primitives.decompose_reduction import reduction_loops
from .regions import Span


@dataclass(frozen=True)
class LoopCompactBuffersPass(KernelPass):
    """Shrink and move intermediate buffers; see the module. Expects scheduled loops, leaves scopes alone."""

    name = "loop-compact-buffers"

    def apply_to_kernel(self, kernel: FuncOp) -> None:
        space = IndexSpace(kernel)
        for alloc in [op for op in kernel.walk() if isinstance(op, AllocOp)]:
            compact(space, alloc)


def compact(space: IndexSpace, alloc: AllocOp) -> None:
    """Shrink one allocation and put it where it is needed."""
    buffer = alloc.result
    ops = accesses(buffer)
    if not ops:
        erase(alloc)
        return
    home = _home(space, alloc)
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    shape = memref_shape_exprs(type_)
    region = region_accessed(space, buffer, ops, len(home), shape)
    new_shape = [extent if part is None else part.width + 1 for extent, part in zip(shape, region)]
    new_type: MemRefType[Attribute] = memref_type(type_.element_type, new_shape, type_.memory_space)
    for op in ops:
        _shift(space, op, region)
    buffer._type = new_type  # xDSL's values have no setter for a type that changes in place
    if home:
        first = home[-1].body.block.first_op
        assert first is not None
        detach(alloc)
        home[-1].body.block.insert_op_before(alloc, first)


def _home(space: IndexSpace, alloc: AllocOp) -> list[ForOp]:
    """The loops around the place for the allocation: those around all accesses, but no reduction of a writer."""
    ops: list[Operation] = list(accesses(alloc.result))
    common = loops_around(ops[0])
    for op in ops[1:]:
        around = loops_around(op)
        common = [a for a, b in zip(common, around) if a is b]
    for writer in writers(alloc.result):
        carried = reduction_loops(space, writer) if "reduce" in writer.iter_kinds else []
        kept = [i for i, loop in enumerate(common) if loop in carried]
        common = common[: kept[0]] if kept else common
    lanes = [i for i, loop in enumerate(common) if loop.kind.data == "vectorized"]
    return common[: lanes[0]] if lanes else common


def _shift(space: IndexSpace, op: LoadOp | StoreOp, region: list[Span | None]) -> None:
    index: list[SymExpr] = []
    for expr, part in zip(space.read(op, "map"), region):
        index.append(expr if part is None else space.simplify(expr - part.low))
    space.write(op, map=index)
