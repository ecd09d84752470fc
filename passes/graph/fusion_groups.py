"""Which operations of a straight-line dataflow graph share a kernel: the post-dominator fusion algorithm.

The algorithm is that of TVM's Relay ``FuseOps`` (Chen et al., *TVM: An Automated End-to-End Optimizing Compiler for
Deep Learning*, OSDI 2018). A value may be fused into its immediate post-dominator, the first operation that all its
uses reach, when everything on the way can be computed in one loop nest. All values of a group but the last then stay
inside it, so a group is convex and has one result.

This file knows nothing of IR: ``fuse.py`` builds the nodes and writes the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

MAX_GROUP = 256


class Kind(IntEnum):
    """How an operation, or a group, or one operand of an operation may be fused; a larger kind is less willing."""

    ELEMENTWISE = 0
    """Element i of the result reads element i of the operand."""
    BROADCAST = 1
    """As above, with dimensions of the operand repeated."""
    INJECTIVE = 2
    """Each element of the result reads one element of an operand: transpose, slice, concatenation."""
    REDUCTION = 3
    """Each element of the operand is read once by a reduction."""
    COMPLEX_OUT_FUSABLE = 4
    """A contraction or window: its operands are read many times, its result can be changed before it is stored."""
    OPAQUE = 8
    """Never fused."""


@dataclass
class Node:
    """One operation: its kind, and for each use of its result the consumer's number and the kind of that operand.

    ``escapes`` says that something outside the nodes uses the result too (a return, a nested region).
    """

    kind: Kind
    uses: list[tuple[int, Kind]] = field(default_factory=list)
    escapes: bool = False


@dataclass(frozen=True)
class PostDominator:
    """The immediate post-dominator of a node (None: none), the largest operand kind on the way to it, and the depth."""

    parent: int | None
    kind: Kind
    depth: int


def post_dominators(nodes: Sequence[Node]) -> list[PostDominator]:
    """Immediate post-dominators; ``nodes`` are in topological order, so every use has a larger number.

    ipdom(v) = the lowest common ancestor, in the tree built so far, of all consumers of v.
    """
    tree: list[PostDominator] = [PostDominator(None, Kind.OPAQUE, 1)] * len(nodes)
    for number in range(len(nodes) - 1, -1, -1):
        node = nodes[number]
        if node.escapes or not node.uses:
            continue
        kind = Kind.ELEMENTWISE
        parent: int | None = node.uses[0][0]
        for consumer, use_kind in node.uses:
            kind = max(kind, use_kind)
            parent, kind = _common_ancestor(tree, parent, consumer, kind)
        depth = 1 if parent is None else tree[parent].depth + 1
        tree[number] = PostDominator(parent, kind if parent is not None else Kind.OPAQUE, depth)
    return tree


def _common_ancestor(
    tree: Sequence[PostDominator], left: int | None, right: int | None, kind: Kind
) -> tuple[int | None, Kind]:
    while left != right:
        if left is None or right is None:
            return None, Kind.OPAQUE
        left_deep, right_deep = tree[left].depth, tree[right].depth
        if left_deep >= right_deep:
            kind = max(kind, tree[left].kind)
            left = tree[left].parent
        if right_deep >= left_deep:
            kind = max(kind, tree[right].kind)
            right = tree[right].parent
    return left, kind


def fusion_groups(nodes: Sequence[Node], max_size: int = MAX_GROUP) -> list[int]:
    """For each node the number of its group's last node, whose result is the group's result."""
    groups = _Groups(nodes, post_dominators(nodes), max_size)
    for rule in (_fuse_outward, _fuse_injective):
        for number in range(len(nodes)):
            rule(groups, number)
    return [groups.find(number) for number in range(len(nodes))]


def _fuse_outward(groups: _Groups, number: int) -> None:
    """Contractions and reductions take their epilogue; elementwise chains grow into what consumes them."""
    kind, edge = groups.kind(number), groups.tree[number].kind
    if kind in (Kind.COMPLEX_OUT_FUSABLE, Kind.REDUCTION):
        if edge == Kind.ELEMENTWISE:
            groups.try_fuse(number, inner=Kind.BROADCAST, end=Kind.BROADCAST)
    elif kind <= Kind.BROADCAST and edge <= Kind.REDUCTION:
        groups.try_fuse(number, inner=Kind.INJECTIVE, end=Kind.COMPLEX_OUT_FUSABLE)


def _fuse_injective(groups: _Groups, number: int) -> None:
    """Data movement fuses with data movement and elementwise work, after contractions have taken their epilogues."""
    if groups.kind(number) == Kind.INJECTIVE and groups.tree[number].kind <= Kind.INJECTIVE:
        groups.try_fuse(number, inner=Kind.INJECTIVE, end=Kind.INJECTIVE)


class _Groups:
    """Disjoint sets of nodes; the root of a set is its last node, and knows size and kind of the set."""

    def __init__(self, nodes: Sequence[Node], tree: Sequence[PostDominator], max_size: int) -> None:
        self.nodes = nodes
        self.tree = tree
        self.max_size = max_size
        self._root = list(range(len(nodes)))
        self._size = [1] * len(nodes)
        self._kind = [node.kind for node in nodes]

    def find(self, number: int) -> int:
        while self._root[number] != number:
            self._root[number] = self._root[self._root[number]]
            number = self._root[number]
        return number

    def kind(self, number: int) -> Kind:
        return self._kind[self.find(number)]

    def try_fuse(self, number: int, inner: Kind, end: Kind) -> None:
        """Fuses a node and all on the way into its post-dominator, if kinds and sizes permit.

        ``inner`` and ``end`` are the largest kinds allowed for the groups on the way, and for the post-dominator's
        group.
        """
        target = self.tree[number].parent
        if target is None or self.find(target) == self.find(number) or self.kind(target) > end:
            return
        path = self._between(number, target, inner)
        if path is None:
            return
        roots = {self.find(member) for member in (number, *path, target)}
        if sum(self._size[root] for root in roots) <= self.max_size:
            self._merge(roots)

    def _between(self, start: int, end: int, limit: Kind) -> list[int] | None:
        """The nodes on paths from start to end, both excluded; None where the kind of one is above the limit."""
        seen: set[int] = set()
        stack = [consumer for consumer, _ in self.nodes[start].uses]
        while stack:
            number = stack.pop()
            if number == end or number in seen:
                continue
            if self.kind(number) > limit:
                return None
            seen.add(number)
            stack.extend(consumer for consumer, _ in self.nodes[number].uses)
        return list(seen)

    def _merge(self, roots: Iterable[int]) -> None:
        last = max(roots)
        for root in roots:
            if root != last:
                self._root[root] = last
                self._size[last] += self._size[root]
                self._kind[last] = max(self._kind[last], self._kind[root])
