"""Questions that several schedule steps ask before they change anything.

A kernel is a sequence of nests; each buffer is written by one block (and its init block after
``decompose_reduction``), and blocks that share loops exchange values only within one iteration of these loops.
Every primitive keeps it that way; that is why reordering shared loops needs no dependence test, and why
iterations of a loop are independent when the loop carries no reduction and its iterations write different
places.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ...core.symbolic import SymExpr
from ...dialects.loop.ops import BlockOp, ForOp, LoadOp, StoreOp
from .digits import recovers
from .errors import block_name, refuse
from .index import Exprs, IndexSpace
from .nest import accesses, blocks_in, buffer_name, encloses, is_argument, loops_around, written_buffers

COMBINING: dict[type[Operation], str] = {
    arith.AddfOp: "add",
    arith.MulfOp: "mul",
    arith.MaximumfOp: "maximumf",
    arith.MinimumfOp: "minimumf",
    arith.MaxnumfOp: "maxnumf",
    arith.MinnumfOp: "minnumf",
    arith.AddiOp: "add",
    arith.MuliOp: "mul",
    arith.MaxSIOp: "maxsi",
    arith.MinSIOp: "minsi",
    arith.MaxUIOp: "maxui",
    arith.MinUIOp: "minui",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
}
"""Associative and commutative operations, with the name that ``vector.reduction`` gives them."""


def require_serial(loop: ForOp) -> None:
    """Refuse a loop that already runs in another way."""
    if loop.kind.data != "serial":
        refuse(loop, f"is already {loop.kind.data}")


def require_constant_extent(space: IndexSpace, loop: ForOp, what: str) -> int:
    """The extent of a loop that must be a number."""
    extent = space.extent(loop)
    if not extent.is_const():
        refuse(loop, f"{what} needs a constant extent, found {extent.format(readable_names(space, extent))}")
    return extent.const_value()


def readable_names(space: IndexSpace, expr: SymExpr) -> dict[str, str]:
    """How messages call the names of an expression."""
    hints = {n: space.value(n).name_hint for n in expr.symbols() if n.startswith("v$")}
    return {n: f"%{hint}" for n, hint in hints.items() if hint is not None}


def is_private(buffer: SSAValue, loop: ForOp) -> bool:
    """Whether all accesses of an allocated buffer lie inside ``loop``, so that each iteration may have its own."""
    return not is_argument(buffer) and all(encloses(loop, op) for op in accesses(buffer))


def written_places(space: IndexSpace, block: BlockOp, buffer: SSAValue) -> list[Exprs]:
    """The indices of each store of a block to a buffer, in terms of the loops around the block."""
    mapping = binding_map(space, block)
    stores = [op for op in block.body.walk() if isinstance(op, StoreOp) and op.memref is buffer]
    return [tuple(space.simplify(e.subs(mapping)) for e in space.read(op, "map")) for op in stores]


def binding_map(space: IndexSpace, block: BlockOp) -> dict[str, SymExpr]:
    """Iterator name -> its binding."""
    iters = block.body.block.args
    return dict(zip([space.name(v) for v in iters], space.read(block, "bindings")))


def require_independent(space: IndexSpace, loop: ForOp, what: str, lanes: bool = False) -> None:
    """Refuse a loop whose iterations depend on each other. ``lanes``: an associative reduction is allowed."""
    name = space.name(loop.var)
    for block in blocks_in(loop):
        reduced = [
            b for k, b in zip(block.iter_kinds, space.read(block, "bindings")) if k == "reduce" and name in b.symbols()
        ]
        if reduced:
            if not lanes or reduction_combiner(block) is None:
                refuse(loop, f"{what} is not possible, it carries the reduction of {block_name(block)}")
            continue
        for buffer in written_buffers(block):
            if is_private(buffer, loop) and not lanes:
                continue
            _require_disjoint(space, loop, block, buffer, what)


def _require_disjoint(space: IndexSpace, loop: ForOp, block: BlockOp, buffer: SSAValue, what: str) -> None:
    name = space.name(loop.var)
    around = loops_around(block)
    moving = {space.name(inner.var) for inner in around[around.index(loop) :]}
    for place in written_places(space, block, buffer):
        if not recovers(space, place, moving, name):
            refuse(
                loop,
                f"{what} is not possible, its iterations may write the same place of "
                f"'{buffer_name(buffer)}' in {block_name(block)}",
            )


def reduction_combiner(block: BlockOp) -> str | None:
    """How a block combines one value into one place, if that is associative: load, combine, store of the same place."""
    store = block.body.block.last_op
    if not isinstance(store, StoreOp) or store.where is not None:
        return None
    if sum(isinstance(op, StoreOp) for op in block.body.walk()) != 1:
        return None
    found = combining_load(store)
    return None if found is None else COMBINING[type(found[1])]


def combining_load(store: StoreOp) -> tuple[LoadOp, Operation] | None:
    """The load and the combining op of ``x[i] = combine(x[i], value)``, both used only there."""
    combine = store.value.owner
    if not isinstance(combine, Operation) or type(combine) not in COMBINING or not combine.results[0].has_one_use():
        return None
    for operand in combine.operands:
        load = operand.owner
        if (
            isinstance(load, LoadOp)
            and load.memref is store.memref
            and load.where is None
            and load.map == store.map
            and tuple(load.args) == tuple(store.args)
            and load.result.has_one_use()
        ):
            return load, combine
    return None
