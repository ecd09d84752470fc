"""Dominance inside one region: which blocks every path from the entry passes through."""

from __future__ import annotations

from typing import Self

from xdsl.ir import Block, Operation, Region

from .analysis import Analysis


class RegionDominance:
    """Immediate dominators of the reachable blocks of a region (Cooper, Harvey and Kennedy's iteration)."""

    def __init__(self, region: Region) -> None:
        entry = region.blocks.first
        assert entry is not None
        self.order = _reverse_postorder(entry)
        self._number = {id(block): i for i, block in enumerate(self.order)}
        self._idom = self._compute(entry)

    def _compute(self, entry: Block) -> list[int]:
        predecessors: list[list[int]] = [[] for _ in self.order]
        for number, block in enumerate(self.order):
            for successor in _successors(block):
                predecessors[self._number[id(successor)]].append(number)
        idom = [-1] * len(self.order)
        idom[0] = 0
        changed = True
        while changed:
            changed = False
            for number in range(1, len(self.order)):
                best = -1
                for predecessor in predecessors[number]:
                    if idom[predecessor] != -1:
                        best = predecessor if best == -1 else _intersect(idom, predecessor, best)
                if best != idom[number]:
                    idom[number] = best
                    changed = True
        return idom

    def is_reachable(self, block: Block) -> bool:
        return id(block) in self._number

    def immediate_dominator(self, block: Block) -> Block | None:
        """The closest block that dominates ``block``; ``None`` for the entry and for unreachable blocks."""
        number = self._number.get(id(block), 0)
        return self.order[self._idom[number]] if number else None

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether every path from the entry to ``b`` passes ``a`` (a block dominates itself)."""
        if not self.is_reachable(b):
            return True
        if not self.is_reachable(a):
            return False
        target, number = self._number[id(a)], self._number[id(b)]
        while number > target:
            number = self._idom[number]
        return number == target

    def children(self) -> dict[int, list[Block]]:
        """The dominator tree: blocks by ``id`` of their immediate dominator, in reverse postorder."""
        tree: dict[int, list[Block]] = {}
        for number in range(1, len(self.order)):
            tree.setdefault(id(self.order[self._idom[number]]), []).append(self.order[number])
        return tree


class DominanceInfo(Analysis):
    """Dominance of all multi-block regions under an op, computed when asked for."""

    def __init__(self) -> None:
        self._regions: dict[int, RegionDominance] = {}

    @classmethod
    def compute(cls, op: Operation) -> Self:
        return cls()

    def region(self, region: Region) -> RegionDominance:
        found = self._regions.get(id(region))
        if found is None:
            found = self._regions[id(region)] = RegionDominance(region)
        return found

    def properly_dominates(self, a: Operation, b: Operation) -> bool:
        """Whether ``a`` has run whenever ``b`` runs; ``b`` may be nested deeper than ``a``."""
        block = a.parent
        inner: Operation | None = b
        while inner is not None and (inner.parent is None or block is None or inner.parent.parent is not block.parent):
            inner = inner.parent_op()
        if inner is None or inner is a or block is None or inner.parent is None or block.parent is None:
            return False
        if inner.parent is block:
            return a.is_before_in_block(inner)
        return self.region(block.parent).dominates(block, inner.parent)


def _successors(block: Block) -> tuple[Block, ...]:
    last = block.last_op
    return () if last is None else tuple(last.successors)


def _reverse_postorder(entry: Block) -> list[Block]:
    order: list[Block] = []
    seen = {id(entry)}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        for successor in successors:
            if id(successor) not in seen:
                seen.add(id(successor))
                stack.append((successor, iter(_successors(successor))))
                break
        else:
            order.append(block)
            stack.pop()
    order.reverse()
    return order


def _intersect(idom: list[int], a: int, b: int) -> int:
    while a != b:
        while a > b:
            a = idom[a]
        while b > a:
            b = idom[b]
    return a
