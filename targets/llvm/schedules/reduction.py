"""Reductions that are no contractions: pooling windows, sums and maxima over axes.

Lanes run along a spatial iterator whose elements the reads find side by side; where there is none, along the innermost
reduction (which reorders its sum, as any vectorised sum must).
"""

from __future__ import annotations

import contextlib

from ....core.target import TargetInfo
from ....dialects.loop.ops import BlockOp, ForOp
from ....passes.loop.schedule import Schedule, ScheduleError
from .shape import Access, BlockShape, last_wide_dim
from .sharing import share_outermost, worth_sharing

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
        if moving and all(_is_consecutive(r, name) for r in moving):
            return iterator
    return None


def _is_consecutive(read: Access, name: str) -> bool:
    position = last_wide_dim(read.buffer.type)
    if position is None:
        return False
    last = read.index[position]
    if last.coefficient(name) == 1:
        return True
    return last.kind == "mod" and last.args[0].coefficient(name) == 1


def _along_lanes(s: Schedule, info: TargetInfo, shape: BlockShape, lane: int) -> None:
    block = shape.block
    lanes = info.vector_lanes(shape.written_element)
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
    if worth_sharing(shape, weight=2):
        share_outermost(s, info, outer)


def _along_reduction(s: Schedule, info: TargetInfo, shape: BlockShape) -> None:
    loops = s.get_loops(shape.block)
    outer = [loops[i] for i in shape.spatial]
    inner = loops[shape.reduce[-1]]
    lanes = info.vector_lanes(shape.written_element)
    extent = s.constant_extent(inner)
    name = shape.names[shape.reduce[-1]]
    if extent is not None and extent >= lanes and all(_is_consecutive(r, name) for r in shape.reads):
        _, vector = s.split(inner, [None, lanes])
        with contextlib.suppress(ScheduleError):
            s.vectorize(vector)
    if worth_sharing(shape, weight=2):
        share_outermost(s, info, outer)


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
