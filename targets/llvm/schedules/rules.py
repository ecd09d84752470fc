"""Which rule schedules which block of a kernel.

Contractions come first and take their epilogue along; then every block that still stands in a nest of its own gets the
rule for its kind. A rule that meets a structure it cannot handle leaves the plain loops, which are always right.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.func import FuncOp

from ....core.target import TargetInfo
from ....dialects.loop.ops import BlockOp
from ....dialects.schedule.ops import ScheduleFuncOp
from ....passes.loop.schedule import Schedule, ScheduleBuilder, ScheduleError
from .contraction import ContractionRule, epilogue_of
from .pointwise import schedule_pointwise
from .reduction import schedule_reduction
from .shape import BlockShape, find_contraction


def schedule_kernel(kernel: FuncOp, info: TargetInfo) -> ScheduleFuncOp:
    """The default schedule of a kernel of plain loop nests."""
    plan: list[tuple[str, str | None]] = []
    looking = Schedule(kernel)  # only looks
    taken: set[str] = set()
    for block in looking.blocks():
        name = block.block_name.data
        if name in taken:
            continue
        partner = None
        shape = BlockShape(looking, block)
        if find_contraction(shape) is not None:
            epilogue = epilogue_of(looking, shape)
            partner = None if epilogue is None else epilogue.block_name.data
            taken.update(p for p in (partner,) if p)
        plan.append((name, partner))
    s = ScheduleBuilder(kernel)
    for name, partner in plan:
        _schedule_block(s, info, name, partner)
    return s.finish()


def _schedule_block(s: ScheduleBuilder, info: TargetInfo, name: str, partner: str | None) -> None:
    block = _block(s, name)
    shape = BlockShape(s, block)
    found = find_contraction(shape)
    if found is not None:
        epilogue = None if partner is None else _block(s, partner)
        _try(lambda: ContractionRule(s, info, found, epilogue).apply())
    elif shape.is_reduction:
        _try(lambda: schedule_reduction(s, info, block))
    else:
        _try(lambda: schedule_pointwise(s, info, block))


def _try(rule: Callable[[], None]) -> None:
    try:
        rule()
    except ScheduleError:
        return


def _block(s: Schedule, name: str) -> BlockOp:
    return next(b for b in s.blocks() if b.block_name.data == name)
