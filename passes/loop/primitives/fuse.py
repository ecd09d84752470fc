"""``fuse``: directly nested loops become one.

    for i in 0..4                for f in 0..4 * n
      for j in 0..n       -->      block(f floordiv n, f mod n)
        block(i, j)

Refused: loops that are not directly nested in the given order, that are not serial, or whose extent depends on
another one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ....dialects.loop.ops import ForOp
from ..errors import loop_name, refuse
from ..index import IndexSpace
from ..legality import require_serial
from ..nest import detach, erase, only_child


def fuse(space: IndexSpace, loops: Sequence[ForOp]) -> ForOp:
    """Fuse ``loops`` (outermost first); returns the new loop."""
    if len(loops) < 2:
        refuse(loops[0] if loops else None, "fuse needs at least two loops")
    names = {space.name(loop.var) for loop in loops}
    for loop in loops:
        require_serial(loop)
        if not space.extent(loop).symbols().isdisjoint(names):
            refuse(loop, "its extent depends on another fused loop")
    for outer, inner in itertools.pairwise(loops):
        if only_child(outer) is not inner:
            refuse(inner, f"is not the only operation in {loop_name(outer)}")
    fused = loops[0]
    for inner in loops[1:]:
        fused = _fuse_pair(space, fused, inner)
    return fused


def _fuse_pair(space: IndexSpace, outer: ForOp, inner: ForOp) -> ForOp:
    hints = [outer.var.name_hint, inner.var.name_hint]
    hint = None if None in hints else "_".join(h for h in hints if h is not None)
    extent = space.extent(inner)
    fused = space.new_loop(space.extent(outer) * extent, hint)
    fused.attributes.update({**inner.attributes, **outer.attributes})
    for op in list(inner.body.block.ops):
        detach(op)
        fused.body.block.add_op(op)
    var = space.var(fused.var)
    space.replace_value(outer.var, space.simplify(var // extent))
    space.replace_value(inner.var, space.simplify(var % extent))
    parent = outer.parent
    assert parent is not None
    parent.insert_op_before(fused, outer)
    erase(outer)
    return fused
