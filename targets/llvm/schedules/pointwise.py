"""Blocks without reduction: one pass over memory, vectorised along the innermost loop, shared by the threads.

for i: for j: for k: block   -->   parallel for (i, j): for k / lanes: vectorised block
"""

from __future__ import annotations

from ....core.target import TargetInfo
from ....dialects.loop.ops import BlockOp, ForOp
from ....passes.loop.schedule import Schedule
from .lanes import constant_reads_by_lane
from .shape import BlockShape
from .sharing import share_outermost, worth_sharing


def schedule_pointwise(s: Schedule, info: TargetInfo, block: BlockOp) -> None:
    """Steps for one block that stands in its own nest."""
    shape = BlockShape(s, block)
    loops = s.get_loops(block)
    lane = shape.lane
    if lane is not None and all(s.constant_extent(x) == 1 for x in loops[lane + 1 :]):
        constant_reads_by_lane(s, block, lane)
        loops = [*loops[:lane], *_vectorize(s, loops[lane], info.vector_lanes(shape.written_element))]
    if worth_sharing(shape, weight=2):
        share_outermost(s, info, loops)


def _vectorize(s: Schedule, loop: ForOp, lanes: int) -> list[ForOp]:
    """Vectorise a loop by ``lanes``; gives the loop that is left around the vectors, if any."""
    extent = s.constant_extent(loop)
    if extent == 1:
        return [loop]
    if extent is not None and extent <= lanes:
        s.vectorize(loop)
        return []
    rest, vector = s.split(loop, [None, lanes])
    s.vectorize(vector)
    return [rest]
