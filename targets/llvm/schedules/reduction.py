"""Reductions that are no contractions: pooling windows, sums and maxima over axes.

Lanes run along a spatial iterator whose elements the reads find side by side; where there is none, along the innermost
reduction (which reorders its sum, as any vectorised sum must).
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType

from ....core.target import TargetInfo, element_bits
from ....dialects.loop.ops import BlockOp, ForOp
from ....passes.loop.schedule import Schedule, ScheduleError
from .pointwise import PARALLEL_POINTS
from .shape import BlockShape, last_wide_dim

UNROLL_LIMIT = 12
"""Windows up to this many points are unrolled."""


def schedule_reduction(s: Schedule, info: TargetInfo, block: BlockOp) -> None:
    """Steps for one reduction that stands in its own nest."""
    shape = BlockShape(s, block)
    lane = _side_by_side(shape)
    if lane is None or not shape.writes:
        _along_reduction(s, info, shape)
    else:
        _along_lanes(s, info, shape, lane)


def _side_by_side(shape: BlockShape) -> int | None:
    """The innermost spatial iterator that moves the last index of every read by one."""
    for iterator in reversed(shape.spatial):
        if shape.extent(iterator) == 1:
            continue
        name = shape.names[iterator]
        moving = [r for r in shape.reads if r.depends_on(name)]
        if moving and all(_is_consecutive(r.index, r.buffer.type, name) for r in moving):
            return iterator
    return None


def _is_consecutive(index: tuple, type_: object, name: str) -> bool:  # type: ignore[type-arg]
    position = last_wide_dim(type_)  # type: ignore[arg-type]
    if position is None:
        return False
    last = index[position]
    if last.coefficient(name) == 1:
        return True
    return last.kind == "mod" and last.args[0].coefficient(name) == 1


def _along_lanes(s: Schedule, info: TargetInfo, shape: BlockShape, lane: int) -> None:
    block = shape.block
    lanes = _lanes(info, shape)
    anchor = s.cache_write(block, 0, "local")
    loops = dict(zip(shape.spatial, s.get_loops(anchor)[-len(shape.spatial) :]))
    vector = loops.pop(lane)
    outer = list(loops.values())
    extent = s.constant_extent(vector)
    if extent is None or extent > lanes:
        rest, vector = s.split(vector, [None, lanes])
        outer.append(rest)
    if not outer:
        raise ScheduleError("has no outer loop", block)
    s.reorder(*outer, vector)
    s.compute_at(block, outer[-1])
    mine = s.get_loops(block)[-len(shape.names) :]
    reduce = [mine[i] for i in shape.reduce]
    spatial = [mine[i] for i in shape.spatial if i != lane]
    s.reorder(*spatial, *reduce, mine[lane])
    _vectorize(s, mine[lane])
    _unroll_window(s, reduce)
    _vectorize(s, vector)
    s.set_scope(block, 0, "local")
    _parallel(s, info, shape, outer)


def _along_reduction(s: Schedule, info: TargetInfo, shape: BlockShape) -> None:
    loops = s.get_loops(shape.block)
    outer = [loops[i] for i in shape.spatial]
    inner = loops[shape.reduce[-1]]
    lanes = _lanes(info, shape)
    extent = s.constant_extent(inner)
    if extent is not None and extent >= lanes and all(
        _is_consecutive(r.index, r.buffer.type, shape.names[shape.reduce[-1]]) for r in shape.reads
    ):
        _, vector = s.split(inner, [None, lanes])
        try:
            s.vectorize(vector)
        except ScheduleError:
            pass
    _parallel(s, info, shape, [x for x in outer if s.constant_extent(x) != 1])


def _lanes(info: TargetInfo, shape: BlockShape) -> int:
    type_ = shape.writes[0].buffer.type
    assert isinstance(type_, MemRefType)
    return info.vector_bits // element_bits(type_.element_type)


def _vectorize(s: Schedule, loop: ForOp) -> None:
    if (s.constant_extent(loop) or 0) > 1:
        s.vectorize(loop)


def _unroll_window(s: Schedule, loops: list[ForOp]) -> None:
    points = 1
    for loop in reversed(loops):
        points *= s.constant_extent(loop) or UNROLL_LIMIT + 1
        if points > UNROLL_LIMIT:
            return
        if s.constant_extent(loop) != 1:
            s.unroll(loop)


def _parallel(s: Schedule, info: TargetInfo, shape: BlockShape, loops: list[ForOp]) -> None:
    points = shape.points
    if not loops or (points is not None and points < PARALLEL_POINTS):
        return
    chosen: list[ForOp] = []
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
