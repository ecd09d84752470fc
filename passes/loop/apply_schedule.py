"""``apply-schedule``: schedules change the loops of their kernels.

    func.func private @k(...) { plain nest }                 func.func private @k(...) { scheduled nest }
    schedule.func @k_schedule for @k { steps }       -->

Each ``schedule.func`` is replayed on the kernel that it names and then removed (``keep`` leaves it). A refused
step is an error at the step, with a note at the loop or block that it is about. An empty schedule leaves the
plain nest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ...core.context import TilewrightContext
from ...core.diagnostics import emit_error
from ...core.passes import ModulePass
from ...dialects.loop.ops import BlockOp, ForOp
from ...dialects.schedule import ops
from .errors import ScheduleError
from .nest import erase
from .schedule import Handle, Schedule

Handles = dict[SSAValue, Handle]


@dataclass(frozen=True)
class ApplySchedulePass(ModulePass):
    """Replay every schedule on its kernel; see the module. ``keep``: do not remove the schedules."""

    name = "apply-schedule"
    keep: bool = False

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        kernels = {f.sym_name.data: f for f in op.body.block.ops if isinstance(f, FuncOp)}
        for func in [f for f in op.body.block.ops if isinstance(f, ops.ScheduleFuncOp)]:
            name = func.kernel.root_reference.data
            if name not in kernels:
                emit_error(func, f"is for kernel @{name}, which the module does not have")
            apply_schedule(func, kernels[name])
            if not self.keep:
                erase(func)


def apply_schedule(func: ops.ScheduleFuncOp, kernel: FuncOp) -> Schedule:
    """Replay the steps of ``func`` on ``kernel``; ``DiagnosticError`` at the first that is refused."""
    schedule = Schedule(kernel)
    handles: Handles = {}
    for op in func.body.block.ops:
        step = _STEPS.get(type(op))
        if step is None:
            emit_error(op, "is no schedule step")
        try:
            made = step(schedule, op, handles)
        except ScheduleError as error:
            notes = [] if error.where is None else [(error.where, "this loop or block")]
            emit_error(op, f"refused: {error.reason}", notes)
        if len(made) != len(op.results):
            emit_error(op, f"gives {len(made)} handles, found {len(op.results)} results")
        handles.update(zip(op.results, made))
    return schedule


def _loop(handles: Handles, value: SSAValue) -> ForOp:
    found = handles[value]
    assert isinstance(found, ForOp)
    return found


def _block(handles: Handles, value: SSAValue) -> BlockOp:
    found = handles[value]
    assert isinstance(found, BlockOp)
    return found


def _factors(values: tuple[int, ...]) -> list[int | None]:
    return [None if v == -1 else v for v in values]


# One function per step: (schedule, op, handles) -> handles of the op's results.


def _get_block(s: Schedule, op: ops.GetBlockOp, h: Handles) -> list[Handle]:
    return [s.get_block(op.block_name.data)]


def _get_loops(s: Schedule, op: ops.GetLoopsOp, h: Handles) -> list[Handle]:
    return [*s.get_loops(_block(h, op.block))]


def _split(s: Schedule, op: ops.SplitOp, h: Handles) -> list[Handle]:
    return [*s.split(_loop(h, op.loop), _factors(op.factors.get_values()))]


def _fuse(s: Schedule, op: ops.FuseOp, h: Handles) -> list[Handle]:
    return [s.fuse(*[_loop(h, v) for v in op.loops])]


def _reorder(s: Schedule, op: ops.ReorderOp, h: Handles) -> list[Handle]:
    s.reorder(*[_loop(h, v) for v in op.loops])
    return []


def _tile(s: Schedule, op: ops.TileOp, h: Handles) -> list[Handle]:
    return [*s.tile([_loop(h, v) for v in op.loops], op.factors.get_values())]


def _vectorize(s: Schedule, op: ops.VectorizeOp, h: Handles) -> list[Handle]:
    s.vectorize(_loop(h, op.loop))
    return []


def _parallel(s: Schedule, op: ops.ParallelOp, h: Handles) -> list[Handle]:
    s.parallel(_loop(h, op.loop))
    return []


def _unroll(s: Schedule, op: ops.UnrollOp, h: Handles) -> list[Handle]:
    s.unroll(_loop(h, op.loop))
    return []


def _compute_at(s: Schedule, op: ops.ComputeAtOp, h: Handles) -> list[Handle]:
    s.compute_at(_block(h, op.block), _loop(h, op.loop))
    return []


def _reverse_compute_at(s: Schedule, op: ops.ReverseComputeAtOp, h: Handles) -> list[Handle]:
    s.reverse_compute_at(_block(h, op.block), _loop(h, op.loop))
    return []


def _compute_inline(s: Schedule, op: ops.ComputeInlineOp, h: Handles) -> list[Handle]:
    s.compute_inline(_block(h, op.block))
    return []


def _reverse_compute_inline(s: Schedule, op: ops.ReverseComputeInlineOp, h: Handles) -> list[Handle]:
    s.reverse_compute_inline(_block(h, op.block))
    return []


def _cache_read(s: Schedule, op: ops.CacheReadOp, h: Handles) -> list[Handle]:
    return [s.cache_read(_block(h, op.block), op.buffer.value.data, op.scope.data)]


def _cache_write(s: Schedule, op: ops.CacheWriteOp, h: Handles) -> list[Handle]:
    return [s.cache_write(_block(h, op.block), op.buffer.value.data, op.scope.data)]


def _set_scope(s: Schedule, op: ops.SetScopeOp, h: Handles) -> list[Handle]:
    s.set_scope(_block(h, op.block), op.buffer.value.data, op.scope.data)
    return []


def _decompose_reduction(s: Schedule, op: ops.DecomposeReductionOp, h: Handles) -> list[Handle]:
    return [s.decompose_reduction(_block(h, op.block), _loop(h, op.loop))]


def _transform_layout(s: Schedule, op: ops.TransformLayoutOp, h: Handles) -> list[Handle]:
    s.transform_layout(_block(h, op.block), op.access.data, op.buffer.value.data, op.map)
    return []


def _annotate(s: Schedule, op: ops.AnnotateOp, h: Handles) -> list[Handle]:
    s.annotate(h[op.target], op.key.data, op.value)
    return []


Step = Callable[..., list[Handle]]

_STEPS: dict[type[Operation], Step] = {
    ops.GetBlockOp: _get_block,
    ops.GetLoopsOp: _get_loops,
    ops.SplitOp: _split,
    ops.FuseOp: _fuse,
    ops.ReorderOp: _reorder,
    ops.TileOp: _tile,
    ops.VectorizeOp: _vectorize,
    ops.ParallelOp: _parallel,
    ops.UnrollOp: _unroll,
    ops.ComputeAtOp: _compute_at,
    ops.ReverseComputeAtOp: _reverse_compute_at,
    ops.ComputeInlineOp: _compute_inline,
    ops.ReverseComputeInlineOp: _reverse_compute_inline,
    ops.CacheReadOp: _cache_read,
    ops.CacheWriteOp: _cache_write,
    ops.SetScopeOp: _set_scope,
    ops.DecomposeReductionOp: _decompose_reduction,
    ops.TransformLayoutOp: _transform_layout,
    ops.AnnotateOp: _annotate,
}
