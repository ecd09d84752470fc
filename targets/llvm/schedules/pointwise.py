"""Blocks without reduction: one pass over memory, vectorised along the innermost loop, shared by the threads.

    for i: for j: for k: block   -->   parallel for (i, j): for k / lanes: vectorised block
"""

from __future__ import annotations

from ....core.target import TargetInfo, element_bits
from ....dialects.loop.ops import BlockOp
from ....passes.loop.schedule import Schedule, ScheduleError
from .lanes import constant_reads_by_lane
from .shape import BlockShape

PARALLEL_POINTS = 1 << 14
"""Elements below which waking another thread costs more than it saves."""


def schedule_pointwise(s: Schedule, info: TargetInfo, block: BlockOp) -> None:
    """Steps for one block that stands in its own nest."""
    shape = BlockShape(s, block)
    loops = [x for x in s.get_loops(block)]
    if shape.lane is not None:
        constant_reads_by_lane(s, block, shape.lane)
        lane = loops[shape.lane]
        if all(s.constant_extent(x) == 1 for x in loops[shape.lane + 1 :]):
            outer = loops[: shape.lane]
            element = shape.writes[0].buffer.type.element_type  # type: ignore[union-attr]
            lanes = info.vector_bits // element_bits(element)
            extent = s.constant_extent(lane)
            if extent is not None and extent < lanes:
                if extent > 1:
                    s.vectorize(lane)
            else:
                rest, vector = s.split(lane, [None, lanes])
                s.vectorize(vector)
                outer = [*outer, rest]
            loops = outer
    _parallel(s, info, shape, loops)


def _parallel(s: Schedule, info: TargetInfo, shape: BlockShape, loops: list) -> None:  # type: ignore[type-arg]
    points = shape.points
    if not loops or (points is not None and points < PARALLEL_POINTS):
        return
    chosen = []
    jobs = 1
    for loop in loops:
        chosen.append(loop)
        jobs *= s.constant_extent(loop) or 64
        if jobs >= 16 * info.cores:
            break
    try:
        s.parallel(s.fuse(*chosen) if len(chosen) > 1 else chosen[0])
    except ScheduleError:
        return
