"""Scheduling a kernel from Python: :class:`Schedule` applies steps to the loops of a kernel,
:class:`ScheduleBuilder` also writes them down as a ``schedule.func``.

Handles are the operations themselves (``ForOp``, ``BlockOp``), so a rule can look at extents, kinds and bodies
between two steps. A refused step raises ``ScheduleError`` and changes nothing.

    s = ScheduleBuilder(kernel)
    c = s.get_block("C")
    i, j, k = s.get_loops(c)
    io, ii = s.split(i, [None, 8])
    s.reorder(io, j, k, ii)
    s.vectorize(ii)
    module.body.block.add_op(s.finish())

What each step does and when it is legal stands in ``primitives/``; replaying a ``schedule.func`` is ``apply_schedule``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ...core.attributes import IndexMapAttr
from ...core.symbolic import SymExpr
from ...dialects.loop.ops import BlockOp, ForOp
from ...dialects.schedule import ops
from . import nest
from .errors import ScheduleError, block_name, loop_name, refuse
from .index import IndexSpace
from .primitives.annotate import annotate
from .primitives.cache import cache_read, cache_write
from .primitives.compute_at import compute_at
from .primitives.compute_inline import compute_inline
from .primitives.decompose_reduction import decompose_reduction, reduction_loops
from .primitives.fuse import fuse
from .primitives.kinds import parallel, unroll, vectorize
from .primitives.reorder import reorder
from .primitives.reverse_compute_at import reverse_compute_at
from .primitives.reverse_compute_inline import reverse_compute_inline
from .primitives.set_scope import set_scope
from .primitives.split import split
from .primitives.tile import tile
from .primitives.transform_layout import transform_layout

Handle = ForOp | BlockOp

__all__ = ["Handle", "Schedule", "ScheduleBuilder", "ScheduleError"]


class Schedule:
    """Applies schedule steps to ``kernel`` in place."""

    def __init__(self, kernel: FuncOp) -> None:
        self.kernel = kernel
        self.space = IndexSpace(kernel)

    # Looking. ``get_block`` and ``get_loops`` are steps, the rest is for rules only.

    def get_block(self, name: str) -> BlockOp:
        """The block of that name."""
        found = [b for b in nest.all_blocks(self.kernel) if b.block_name.data == name]
        if len(found) != 1:
            known = ", ".join(f'"{b.block_name.data}"' for b in nest.all_blocks(self.kernel))
            reason = f'no block "{name}"' if not found else f'{len(found)} blocks "{name}"'
            raise ScheduleError(f"{reason}, the kernel has {known or 'no blocks'}", self.kernel)
        self._record(lambda: ops.GetBlockOp(name), found)
        return found[0]

    def get_loops(self, block: BlockOp) -> list[ForOp]:
        """All loops around a block, outermost first."""
        self._check(block)
        loops = nest.loops_around(block)
        self._record(lambda: ops.GetLoopsOp(self._value(block), len(loops)), loops)
        return loops

    def blocks(self) -> list[BlockOp]:
        """All blocks of the kernel, in order."""
        return list(nest.all_blocks(self.kernel))

    def extent(self, loop: ForOp) -> SymExpr:
        """The extent of a loop over the kernel's symbols and outer loop variables."""
        return self.space.extent(loop)

    def constant_extent(self, loop: ForOp) -> int | None:
        """The extent of a loop where it is a number."""
        extent = self.space.extent(loop)
        return extent.const_value() if extent.is_const() else None

    def reduction_loops(self, block: BlockOp) -> list[ForOp]:
        """The loops around a block that carry its reduction, outermost first."""
        return reduction_loops(self.space, block)

    def spatial_loops(self, block: BlockOp) -> list[ForOp]:
        """The loops around a block that do not carry its reduction, outermost first."""
        reducing = reduction_loops(self.space, block)
        return [x for x in nest.loops_around(block) if x not in reducing]

    def producers(self, block: BlockOp) -> list[BlockOp]:
        """The blocks that write what ``block`` reads."""
        found = [w for b in nest.read_buffers(block) for w in nest.writers(b)]
        return list(dict.fromkeys(found))

    def consumers(self, block: BlockOp) -> list[BlockOp]:
        """The blocks that read what ``block`` writes."""
        found = [r for b in nest.written_buffers(block) for r in nest.readers(b) if r is not block]
        return list(dict.fromkeys(found))

    def read_buffers(self, block: BlockOp) -> list[SSAValue]:
        """The buffers that a block reads, in the order that ``cache_read`` and ``transform_layout`` number."""
        return nest.read_buffers(block)

    def written_buffers(self, block: BlockOp) -> list[SSAValue]:
        """The buffers that a block writes, in the order that ``cache_write`` and ``set_scope`` number."""
        return nest.written_buffers(block)

    # Loops.

    def split(self, loop: ForOp, factors: Sequence[int | None]) -> list[ForOp]:
        """Nested loops with these extents instead of ``loop``; one factor may be ``None``."""
        self._check(loop)
        write = self._reference(lambda v: ops.SplitOp(v[0], factors), loop)
        loops = split(self.space, loop, factors)
        self._record(write, loops)
        return loops

    def fuse(self, *loops: ForOp) -> ForOp:
        """One loop instead of directly nested ones."""
        self._check(*loops)
        write = self._reference(lambda v: ops.FuseOp(v), *loops)
        fused = fuse(self.space, loops)
        self._record(write, [fused])
        return fused

    def reorder(self, *loops: ForOp) -> None:
        """Loops of one perfect nest in this order."""
        self._check(*loops)
        write = self._reference(lambda v: ops.ReorderOp(v), *loops)
        reorder(self.space, loops)
        self._record(write, [])

    def tile(self, loops: Sequence[ForOp], factors: Sequence[int]) -> list[ForOp]:
        """Outer loops, then inner loops of these extents."""
        self._check(*loops)
        write = self._reference(lambda v: ops.TileOp(v, factors), *loops)
        tiles = tile(self.space, loops, factors)
        self._record(write, tiles)
        return tiles

    def vectorize(self, loop: ForOp) -> None:
        """Iterations become lanes."""
        self._kind(vectorize, ops.VectorizeOp, loop)

    def parallel(self, loop: ForOp) -> None:
        """Threads share the iterations."""
        self._kind(parallel, ops.ParallelOp, loop)

    def unroll(self, loop: ForOp) -> None:
        """The loop is unrolled completely."""
        self._kind(unroll, ops.UnrollOp, loop)

    def _kind(
        self,
        step: Callable[[IndexSpace, ForOp], None],
        op: type[ops.VectorizeOp | ops.ParallelOp | ops.UnrollOp],
        loop: ForOp,
    ) -> None:
        self._check(loop)
        write = self._reference(lambda v: op(v[0]), loop)
        step(self.space, loop)
        self._record(write, [])

    # Blocks.

    def compute_at(self, block: BlockOp, loop: ForOp) -> None:
        """Move a producer inside a loop of its consumers."""
        self._check(block, loop)
        write = self._reference(lambda v: ops.ComputeAtOp(v[0], v[1]), block, loop)
        compute_at(self.space, block, loop)
        self._record(write, [])

    def reverse_compute_at(self, block: BlockOp, loop: ForOp) -> None:
        """Move a consumer inside a loop of its producer."""
        self._check(block, loop)
        write = self._reference(lambda v: ops.ReverseComputeAtOp(v[0], v[1]), block, loop)
        reverse_compute_at(self.space, block, loop)
        self._record(write, [])

    def compute_inline(self, block: BlockOp) -> None:
        """Readers compute an elementwise producer's value themselves."""
        self._check(block)
        write = self._reference(lambda v: ops.ComputeInlineOp(v[0]), block)
        compute_inline(self.space, block)
        self._record(write, [])

    def reverse_compute_inline(self, block: BlockOp) -> None:
        """An elementwise consumer is computed by its producer."""
        self._check(block)
        write = self._reference(lambda v: ops.ReverseComputeInlineOp(v[0]), block)
        reverse_compute_inline(self.space, block)
        self._record(write, [])

    def cache_read(self, block: BlockOp, buffer: int, scope: str = "local") -> BlockOp:
        """A new block copies what ``block`` reads; returns it."""
        self._check(block)
        write = self._reference(lambda v: ops.CacheReadOp(v[0], buffer, scope), block)
        cache = cache_read(self.space, block, buffer, scope)
        self._record(write, [cache])
        return cache

    def cache_write(self, block: BlockOp, buffer: int = 0, scope: str = "local") -> BlockOp:
        """``block`` writes a new buffer, which a new block copies to the old one; returns the new block."""
        self._check(block)
        write = self._reference(lambda v: ops.CacheWriteOp(v[0], buffer, scope), block)
        cache = cache_write(self.space, block, buffer, scope)
        self._record(write, [cache])
        return cache

    def set_scope(self, block: BlockOp, buffer: int = 0, scope: str = "local") -> None:
        """Where a buffer that the block writes lives."""
        self._check(block)
        write = self._reference(lambda v: ops.SetScopeOp(v[0], buffer, scope), block)
        set_scope(block, buffer, scope)
        self._record(write, [])

    def decompose_reduction(self, block: BlockOp, loop: ForOp) -> BlockOp:
        """The init region becomes a block of its own before ``loop``; returns it."""
        self._check(block, loop)
        write = self._reference(lambda v: ops.DecomposeReductionOp(v[0], v[1]), block, loop)
        init = decompose_reduction(self.space, block, loop)
        self._record(write, [init])
        return init

    def transform_layout(self, block: BlockOp, access: str, buffer: int, map: IndexMapAttr) -> None:
        """Store a buffer by ``map`` (logical to physical index); ``access`` is ``read`` or ``write``."""
        self._check(block)
        if access not in ("read", "write"):
            refuse(block, f"access is '{access}', expected 'read' or 'write'")
        write = self._reference(lambda v: ops.TransformLayoutOp(v[0], access, buffer, map), block)
        transform_layout(self.space, block, access, buffer, map)
        self._record(write, [])

    def annotate(self, target: Handle, key: str, value: Attribute) -> None:
        """A discardable attribute on a loop or block."""
        self._check(target)
        write = self._reference(lambda v: ops.AnnotateOp(v[0], key, value), target)
        annotate(target, key, value)
        self._record(write, [])

    # Handles and recording.

    def _check(self, *handles: Handle) -> None:
        """Refuse handles that an earlier step consumed."""
        for handle in handles:
            if not nest.encloses(self.kernel, handle):
                what = loop_name(handle) if isinstance(handle, ForOp) else block_name(handle)
                raise ScheduleError(f"{what} was consumed by an earlier step", None)

    def _value(self, handle: Handle) -> SSAValue:
        raise AssertionError("only a recording schedule has handle values")

    def _reference(
        self, make: Callable[[list[SSAValue]], Operation], *handles: Handle
    ) -> Callable[[], Operation] | None:
        """How to write a step down; its handles are looked up before the step consumes them."""
        return None

    def _record(self, write: Callable[[], Operation] | None, results: Sequence[Handle]) -> None:
        """Hook of ``ScheduleBuilder``: a step was applied and made ``results``."""


class ScheduleBuilder(Schedule):
    """Writes a ``schedule.func`` for ``kernel`` while applying the steps to a scratch copy of it.

    The handles that its methods return belong to the scratch copy (``self.kernel``)."""

    def __init__(self, kernel: FuncOp, name: str | None = None) -> None:
        super().__init__(kernel.clone())
        symbol = kernel.sym_name.data
        self.func = ops.ScheduleFuncOp(f"{symbol}_schedule" if name is None else name, symbol)
        self._handles: dict[Operation, SSAValue] = {}

    def finish(self) -> ops.ScheduleFuncOp:
        """The schedule written so far."""
        return self.func

    def _value(self, handle: Handle) -> SSAValue:
        found = self._handles.get(handle)
        if found is not None:
            return found
        # A handle that the rule found by looking, not by a step: write down how to get it.
        if isinstance(handle, BlockOp):
            self.get_block(handle.block_name.data)
        else:
            self._obtain_loop(handle)
        return self._handles[handle]

    def _obtain_loop(self, loop: ForOp) -> None:
        inside = nest.blocks_in(loop)
        if not inside:
            raise ScheduleError(f"{loop_name(loop)} holds no block", loop)
        self._value(inside[0])
        self.get_loops(inside[0])

    def _reference(self, make: Callable[[list[SSAValue]], Operation], *handles: Handle) -> Callable[[], Operation]:
        values = [self._value(handle) for handle in handles]
        return lambda: make(values)

    def _record(self, write: Callable[[], Operation] | None, results: Sequence[Handle]) -> None:
        assert write is not None
        op = write()
        self.func.body.block.add_op(op)
        for handle, value in zip(results, op.results):
            self._handles[handle] = value
            value.name_hint = _hint(handle)


def _hint(handle: Handle) -> str | None:
    if isinstance(handle, ForOp):
        return handle.var.name_hint
    name = handle.block_name.data
    return name if name.isidentifier() else None
