"""``decompose_reduction``: the init region becomes a block of its own.

    for k                               for i
      for i                               C_init: C[i] = 0
        C: init C[i] = 0      -->       for k
           C[i] += A[i, k]                for i
                                            C: C[i] += A[i, k]

The new block stands directly before the given loop and has copies of the loops inside of it (the loop included)
that bind spatial iterators. ``loop-lower-blocks`` does the same with the outermost reduction loop where a
schedule did not.

Refused: a block without init; a loop that does not enclose the block or has reduction loops outside of it; a
loop that binds spatial and reduce iterators at once.
"""

from __future__ import annotations

from xdsl.ir import Operation

from ....core.symbolic import SymExpr
from ....dialects.loop.ops import BlockOp, ForOp
from ..errors import block_name, loop_name, refuse
from ..index import IndexSpace
from ..nest import encloses, fresh_block_name, loops_around, wrap


def decompose_reduction(space: IndexSpace, block: BlockOp, loop: ForOp) -> BlockOp:
    """Split the init region of ``block`` off, before ``loop``; returns the init block."""
    if block.init is None:
        refuse(block, "has no init region")
    if not encloses(loop, block):
        refuse(loop, f"does not enclose {block_name(block)}")
    around = loops_around(block)
    reducing = reduction_loops(space, block)
    outside = [x for x in around[: around.index(loop)] if x in reducing]
    if outside:
        refuse(loop, f"the reduction {loop_name(outside[0])} encloses it")
    inner = around[around.index(loop) :]
    spatial = _spatial_loops(space, block, inner, reducing)
    where = _spatial_guard(space, block, inner, spatial)
    init = _init_block(space, block, spatial, where)
    parent = loop.parent
    assert parent is not None
    parent.insert_op_before(init[1], loop)
    return init[0]


def reduction_loops(space: IndexSpace, block: BlockOp) -> list[ForOp]:
    """The loops that bind a reduce iterator of ``block``, outermost first."""
    names: set[str] = set()
    for kind, binding in zip(block.iter_kinds, space.read(block, "bindings")):
        if kind == "reduce":
            names |= binding.symbols()
    return [x for x in loops_around(block) if space.name(x.var) in names]


def _spatial_loops(space: IndexSpace, block: BlockOp, inner: list[ForOp], reducing: list[ForOp]) -> list[ForOp]:
    names: set[str] = set()
    for kind, binding in zip(block.iter_kinds, space.read(block, "bindings")):
        if kind == "spatial":
            names |= binding.symbols()
    found = [x for x in inner if space.name(x.var) in names]
    for x in found:
        if x in reducing:
            refuse(x, f"binds spatial and reduce iterators of {block_name(block)} at once")
    return found


def _spatial_guard(space: IndexSpace, block: BlockOp, inner: list[ForOp], spatial: list[ForOp]) -> list[SymExpr]:
    """The pairs of the block's guard that the init block keeps: those without inner loops that it has no copy of."""
    copied = {space.name(x.var) for x in spatial}
    gone = {space.name(x.var) for x in inner} - copied
    where = space.read(block, "where")
    kept: list[SymExpr] = []
    for lhs, rhs in zip(where[::2], where[1::2]):
        used = lhs.symbols() | rhs.symbols()
        if used.isdisjoint(gone):
            kept += [lhs, rhs]
        elif not used.isdisjoint(copied):
            refuse(block, "has a guard over spatial and reduction loops at once")
    return kept


def _init_block(
    space: IndexSpace, block: BlockOp, spatial: list[ForOp], where: list[SymExpr]
) -> tuple[BlockOp, Operation]:
    assert block.init is not None
    bindings, domains = space.read(block, "bindings"), space.read(block, "domains")
    keep = [i for i, kind in enumerate(block.iter_kinds) if kind == "spatial"]
    copies = [space.new_loop(space.extent(x), x.var.name_hint, x.kind.data) for x in spatial]
    mapping = {space.name(x.var): space.var(c.var) for x, c in zip(spatial, copies)}
    region = block.detach_region(block.init)
    for i in reversed(range(len(bindings))):
        if i not in keep:
            region.block.erase_arg(region.block.args[i])
    new_bindings = [bindings[i].subs(mapping) for i in keep]
    new_where = [e.subs(mapping) for e in where]
    new_domains = [domains[i] for i in keep]
    args, maps = space.pack(new_bindings, new_domains, new_where)
    name = fresh_block_name(space.kernel, f"{block.block_name.data}_init")
    guard = maps[2] if new_where else None
    init = BlockOp(name, ["spatial"] * len(keep), args, maps[0], maps[1], region, None, guard)
    return init, wrap(copies, init)
