"""``split``: one loop becomes several nested ones.

    for i in 0..109              for o in 0..7
      block(v = i)        -->      for i in 0..16
                                     block(v = o * 16 + i) where o * 16 + i < 109

Refused: a loop that is not serial, constant factors whose product does not reach the extent, more than one open factor.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ....core.symbolic import SymExpr, ceildiv, const
from ....dialects.loop.ops import ForOp
from ..errors import refuse
from ..index import IndexSpace
from ..legality import require_serial
from ..nest import blocks_in, detach, erase
from ..regions import prove_le


def split(space: IndexSpace, loop: ForOp, factors: Sequence[int | None]) -> list[ForOp]:
    """Split ``loop`` by ``factors`` (outermost first, at most one ``None``); returns the new loops."""
    require_serial(loop)
    extent = space.extent(loop)
    sizes = _sizes(loop, extent, factors)
    loops = _nest(space, loop, sizes)
    value: SymExpr = const(0)
    for new, size in zip(loops, sizes):
        value = value * size + space.var(new.var)
    total: SymExpr = const(1)
    for size in sizes:
        total = total * size
    blocks = [] if prove_le(space, total, extent) else blocks_in(loops[0])
    space.replace_value(loop.body.block.args[0], value)
    for block in blocks:
        space.write(block, where=(*space.read(block, "where"), value, extent))
    parent = loop.parent
    assert parent is not None
    parent.insert_op_before(loops[0], loop)
    erase(loop)
    return loops


def _sizes(loop: ForOp, extent: SymExpr, factors: Sequence[int | None]) -> list[SymExpr]:
    if not factors or any(f is not None and f < 1 for f in factors):
        refuse(loop, f"split factors must be positive, found {list(factors)}")
    if sum(f is None for f in factors) > 1:
        refuse(loop, "split by more than one open factor")
    product = 1
    for factor in factors:
        product *= factor or 1
    if None in factors:
        return [ceildiv(extent, product) if f is None else const(f) for f in factors]
    if not extent.is_const():
        refuse(loop, "split needs an open factor for an extent that is not constant")
    if product < extent.const_value():
        refuse(loop, f"split factors cover {product} of {extent} iterations")
    return [const(f) for f in factors if f is not None]


def _nest(space: IndexSpace, loop: ForOp, sizes: Sequence[SymExpr]) -> list[ForOp]:
    """The new loops, the body of ``loop`` moved into the innermost one."""
    hint = loop.var.name_hint
    letters = ["o", "i"] if len(sizes) == 2 else [str(n) for n in range(len(sizes))]
    loops = [space.new_loop(s, None if hint is None else f"{hint}_{x}") for s, x in zip(sizes, letters)]
    for outer, inner in itertools.pairwise(loops):
        outer.body.block.add_op(inner)
    for op in list(loop.body.block.ops):
        detach(op)
        loops[-1].body.block.add_op(op)
    loops[0].attributes.update(loop.attributes)
    return loops
