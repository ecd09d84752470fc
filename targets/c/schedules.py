"""``attach-c-schedules``: the schedule that pays on every machine, for kernels that have none.

    for i: for j: for k: C[i, j] += a[k] * b[k, j]         for i: local c[j]; for k: for j: c[j] += a[k] * b[k, j]
    for i: for j: D[i, j] = f(C[i, j])               -->          for j: D[i, j] = f(c[j])

A reduction sums up in a local buffer, and what is computed from its results alone follows at once: no intermediate
array goes through memory, and the workspace is smaller. The buffer is a row of results where the elements read lie side
by side along the row, so that C compilers find independent sums and vectors without reordering one; elsewhere it is one
number. Tiles, threads and vector types are left out: they depend on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ...core.context import TilewrightContext
from ...core.passes import ModulePass
from ...dialects.loop.ops import BlockOp, LoadOp
from ...dialects.schedule.ops import ScheduleFuncOp
from ...passes.loop.schedule import Schedule, ScheduleBuilder, ScheduleError

MAX_ROW = 64
MIN_ROW = 4
"""Results that are summed up side by side: enough for vectors, few enough for any stack."""


@dataclass(frozen=True)
class AttachCSchedulesPass(ModulePass):
    """Gives every kernel that has none the schedule that pays on every machine: sums in local buffers."""

    name = "attach-c-schedules"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        scheduled = {f.kernel.root_reference.data for f in op.ops if isinstance(f, ScheduleFuncOp)}
        for kernel in [f for f in op.ops if isinstance(f, FuncOp) and "tw.kernel" in f.attributes]:
            if kernel.sym_name.data not in scheduled:
                op.body.block.add_op(schedule_kernel(kernel))


def schedule_kernel(kernel: FuncOp) -> ScheduleFuncOp:
    """The default schedule of a kernel of plain loop nests."""
    s = ScheduleBuilder(kernel)
    for name in [b.block_name.data for b in s.blocks() if "reduce" in b.iter_kinds]:
        try:
            _accumulate_locally(s, s.get_block(name))
        except ScheduleError:
            continue  # the plain loops are right as well
    return s.finish()


def _accumulate_locally(s: Schedule, block: BlockOp) -> None:
    spatial = [number for number, kind in enumerate(block.iter_kinds) if kind == "spatial"]
    if not spatial:
        return
    lane = _lane(s, block, spatial)
    follower = _follower(s, block) or s.cache_write(block, 0, "local")
    loops = s.get_loops(follower)[-len(spatial) :]
    if lane is None:
        s.compute_at(block, loops[-1])
    else:
        place = spatial.index(lane)
        row = s.constant_extent(loops[place])
        assert row is not None
        if place == 0 or row > MAX_ROW:
            outer, _ = s.split(loops[place], [None, _row_length(row)])
        else:
            outer = loops[place - 1]
        s.compute_at(block, outer)
        mine = s.get_loops(block)[-len(block.iters) :]
        s.reorder(*(mine[i] for i in range(len(mine)) if i not in spatial), mine[lane])
    s.set_scope(block, 0, "local")


def _lane(s: Schedule, block: BlockOp, spatial: list[int]) -> int | None:
    """The iterator along which rows lie: the last one that takes several values, if an element read moves with it."""
    domains = s.space.read(block, "domains")
    wide = [number for number in spatial if domains[number] != 1]
    if not wide or not domains[wide[-1]].is_const() or _row_length(domains[wide[-1]].const_value()) == 1:
        return None
    name = s.space.name(block.body.block.args[wide[-1]])
    written = s.written_buffers(block)
    for op in block.body.walk():
        if isinstance(op, LoadOp) and op.memref not in written:
            indices = s.space.read(op, "map")
            if indices and name in indices[-1].symbols():
                return wide[-1]
    return None


def _row_length(extent: int) -> int:
    """The longest row of equal rows; 1 if there is none worth while."""
    found = max(length for length in range(1, MAX_ROW + 1) if extent % length == 0)
    return found if found >= MIN_ROW else 1


def _follower(s: Schedule, block: BlockOp) -> BlockOp | None:
    """The block that takes each result of a reduction once, in the order in which they are made."""
    consumers = s.consumers(block)
    if len(consumers) != 1 or "reduce" in consumers[0].iter_kinds:
        return None
    extents = [s.extent(loop) for loop in s.spatial_loops(block)]
    same = [s.extent(loop) for loop in s.get_loops(consumers[0])] == extents
    return consumers[0] if same else None
