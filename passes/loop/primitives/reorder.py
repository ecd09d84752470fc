"""``reorder``: loops of one perfect nest change places.

    for i                        for k
      for k               -->      for i
        block(i, k)                  block(i, k)

Blocks that share these loops exchange values only within one iteration (see ``legality``), and an init region
runs where all reduce iterators are 0, which stays the first of its iterations; so any order is legal that keeps
extents defined.

Refused: loops of different nests, operations between the loops, an extent that would lose its variable.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ....dialects.loop.ops import ForOp
from ..errors import loop_name, refuse
from ..index import IndexSpace
from ..nest import detach, loops_around, perfect_chain


def reorder(space: IndexSpace, loops: Sequence[ForOp]) -> None:
    """Put ``loops`` in this order, outermost first; other loops of the nest stay where they are."""
    if len(set(loops)) != len(loops):
        refuse(loops[0], "appears twice")
    if len(loops) < 2:
        return
    chain = _chain(loops)
    listed = iter(loops)
    order = [next(listed) if loop in loops else loop for loop in chain]
    inside: set[str] = set()
    for loop in reversed(order):
        if not space.extent(loop).symbols().isdisjoint(inside):
            refuse(loop, "its extent depends on a loop that would be inside of it")
        inside.add(space.name(loop.var))
    _relink(chain, order)


def _chain(loops: Sequence[ForOp]) -> list[ForOp]:
    """All loops from the outermost to the innermost of ``loops``, which must be a perfect nest."""
    depth = {loop: len(loops_around(loop)) for loop in loops}
    top, bottom = min(loops, key=lambda x: depth[x]), max(loops, key=lambda x: depth[x])
    chain = perfect_chain(top, bottom)
    if chain is None:
        refuse(bottom, f"is not perfectly nested in {loop_name(top)}")
    for loop in loops:
        if loop not in chain:
            refuse(loop, f"is not between {loop_name(top)} and {loop_name(bottom)}")
    return chain


def _relink(chain: Sequence[ForOp], order: Sequence[ForOp]) -> None:
    content = list(chain[-1].body.block.ops)
    place = chain[0].parent
    assert place is not None
    after = chain[0].next_op
    for op in [*content, *chain]:
        detach(op)
    if after is None:
        place.add_op(order[0])
    else:
        place.insert_op_before(order[0], after)
    for outer, inner in itertools.pairwise(order):
        outer.body.block.add_op(inner)
    order[-1].body.block.add_ops(content)
