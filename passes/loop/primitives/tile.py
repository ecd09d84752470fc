"""``tile``: split each loop of a perfect nest, then move all inner parts inside.

    for i                        for io
      for j                        for jo
        block(i, j)       -->        for ii
                                       for ji
                                         block(io * 8 + ii, jo * 16 + ji)

Refused where ``split`` or ``reorder`` would be.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects.loop.ops import ForOp
from ..errors import loop_name, refuse
from ..index import IndexSpace
from ..legality import require_serial
from ..nest import loops_around, perfect_chain
from .reorder import reorder
from .split import split


def tile(space: IndexSpace, loops: Sequence[ForOp], factors: Sequence[int]) -> list[ForOp]:
    """Tile ``loops`` by ``factors``; returns the outer loops, then the inner ones."""
    if not loops or len(loops) != len(factors) or len(set(loops)) != len(loops):
        refuse(loops[0] if loops else None, f"tile needs one factor for each loop, found {len(factors)}")
    by_depth = sorted(loops, key=lambda loop: len(loops_around(loop)))
    chain = perfect_chain(by_depth[0], by_depth[-1])
    if chain is None or any(loop not in chain for loop in loops):
        refuse(by_depth[-1], f"is not perfectly nested in {loop_name(by_depth[0])}")
    names = {space.name(loop.var) for loop in loops}
    for loop in chain:
        if not space.extent(loop).symbols().isdisjoint(names):
            refuse(loop, "its extent depends on a tiled loop")
    for loop, factor in zip(loops, factors):
        require_serial(loop)
        if factor < 1:
            refuse(loop, f"tile factors must be positive, found {factor}")
    pairs = [split(space, loop, (None, factor)) for loop, factor in zip(loops, factors)]
    order = [outer for outer, _ in pairs] + [inner for _, inner in pairs]
    reorder(space, order)
    return order
