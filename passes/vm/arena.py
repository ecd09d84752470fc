"""Placing buffers with lifetimes in as little memory as possible: plain integers and expressions, no IR.

A buffer's size is ``factor * unit``: the unit is a primitive expression over symbols (``n``; 1 for static
sizes), so buffers of one unit can be compared and placed exactly for every value of the symbols. Each unit
has a region of its own, the regions lie one behind the other. All offsets are multiples of 64 bytes whatever
the symbols are.

Placement within a region is greedy, largest buffer first or in another order, each into the smallest gap that is free
during its lifetime (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from ...core.symbolic import SymExpr, as_expr, ceildiv, const, linear_sum

ALIGNMENT = 64


@dataclass(frozen=True)
class Interval:
    """A buffer that is live from op number ``start`` to op number ``end``, both included."""

    size: int
    start: int
    end: int

    def meets(self, other: Interval) -> bool:
        """Whether both are live at some moment."""
        return self.start <= other.end and other.start <= self.end


def place(buffers: Sequence[Interval]) -> tuple[list[int], int]:
    """Offsets of buffers, no two of which overlap in both time and place, and the bytes that are needed: the best of a
    few orders of placing them.
    """
    plans = [_place_in_order(buffers, sorted(range(len(buffers)), key=key)) for key in _orders(buffers)]
    return min(plans, key=lambda plan: plan[1])


def _orders(buffers: Sequence[Interval]) -> list[Callable[[int], tuple[int, ...]]]:
    """Largest first; most bytes times lifetime first; in the order of the program."""
    return [
        lambda i: (-buffers[i].size, buffers[i].start, i),
        lambda i: (-buffers[i].size * (buffers[i].end - buffers[i].start + 1), i),
        lambda i: (buffers[i].start, -buffers[i].size, i),
    ]


def _place_in_order(buffers: Sequence[Interval], order: Sequence[int]) -> tuple[list[int], int]:
    """Each buffer in turn goes into the smallest gap that is free during its lifetime."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    total = 0
    for index in order:
        buffer = buffers[index]
        size = aligned(buffer.size)
        busy = sorted(
            (offsets[i], offsets[i] + aligned(buffers[i].size)) for i in placed if buffers[i].meets(buffer)
        )
        offsets[index] = _best_gap(busy, size)
        total = max(total, offsets[index] + size)
        placed.append(index)
    return offsets, total


def _best_gap(busy: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap between busy ranges that holds ``size``; else the end of the last."""
    best: tuple[int, int] | None = None
    position = 0
    for begin, end in busy:
        gap = begin - position
        if gap >= size and (best is None or gap < best[0]):
            best = gap, position
        position = max(position, end)
    return position if best is None else best[1]


def aligned(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def split_size(size: SymExpr) -> tuple[SymExpr, int]:
    """``(unit, factor)`` with ``unit * factor >= size``, the least multiple of 64 for every value of the symbols.

    ``n * 3136`` is ``(n, 3136)``; ``n * 40`` is ``((n * 40 + 63) floordiv 64 * 64, 1)``: rounding up happens
    at run time, so that no memory is lost to alignment of the factor.
    """
    if size.is_const():
        return const(1), aligned(size.const_value())
    terms, constant = size.as_linear()
    factor = gcd(constant, *terms.values())
    if factor % ALIGNMENT == 0:
        return linear_sum([(term, c // factor) for term, c in terms.items()], constant // factor), factor
    return ceildiv(size, ALIGNMENT) * ALIGNMENT, 1


@dataclass(frozen=True)
class SymbolicInterval:
    """A buffer of symbolic size with its lifetime."""

    size: SymExpr
    start: int
    end: int


def place_symbolic(buffers: Sequence[SymbolicInterval]) -> tuple[list[SymExpr], SymExpr]:
    """Byte offsets and the total, as expressions."""
    groups: dict[SymExpr, list[int]] = {}
    factors: list[int] = []
    for index, buffer in enumerate(buffers):
        unit, factor = split_size(buffer.size)
        groups.setdefault(unit, []).append(index)
        factors.append(factor)
    offsets: list[SymExpr] = [const(0)] * len(buffers)
    base: SymExpr = const(0)
    for unit, members in sorted(groups.items(), key=lambda item: (not item[0].is_const(), str(item[0]))):
        if factors[members[0]] == 1:
            slots, total = _place_whole([buffers[i] for i in members])
        else:
            slots, total = place([Interval(factors[i], buffers[i].start, buffers[i].end) for i in members])
        for index, slot in zip(members, slots):
            offsets[index] = base + unit * slot
        base = base + unit * total
    return offsets, as_expr(base)


def _place_whole(buffers: Sequence[SymbolicInterval]) -> tuple[list[int], int]:
    """As ``place`` for buffers of one equal size: slot numbers, and how many slots are needed."""
    unit = ALIGNMENT
    offsets, total = place([Interval(unit, buffer.start, buffer.end) for buffer in buffers])
    return [offset // unit for offset in offsets], total // unit
