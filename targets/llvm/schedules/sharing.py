"""Which loops the threads share, and when sharing is worth it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.target import TargetInfo
from ....dialects.loop.ops import ForOp
from ....passes.loop.schedule import Schedule, ScheduleError
from .shape import BlockShape

SHARED_WORK = 1 << 15
"""Operations of a nest below which waking another thread costs more than it saves."""

SYMBOLIC_EXTENT = 64
"""What a symbolic extent counts for in such estimates."""


def worth_sharing(shape: BlockShape, weight: int = 1) -> bool:
    """Whether a block has enough points, each of ``weight`` operations, to be shared by threads."""
    points = shape.points
    return points is None or points * weight >= SHARED_WORK


def iterations(s: Schedule, loops: Sequence[ForOp]) -> int:
    """How many iterations nested loops have together, about."""
    return math.prod(s.constant_extent(loop) or SYMBOLIC_EXTENT for loop in loops)


def share_outermost(s: Schedule, info: TargetInfo, loops: Sequence[ForOp]) -> None:
    """Run as few of the outermost loops in parallel as give every thread some sixteen pieces; keep them serial where
    iterations depend on each other."""
    chosen: list[ForOp] = []
    for loop in loops:
        chosen.append(loop)
        if iterations(s, chosen) >= 16 * info.cores:
            break
    if not chosen:
        return
    try:
        share(s, chosen)
    except ScheduleError:
        return


def share(s: Schedule, loops: Sequence[ForOp]) -> None:
    """Run directly nested loops in parallel, as one."""
    s.parallel(s.fuse(*loops) if len(loops) > 1 else loops[0])
