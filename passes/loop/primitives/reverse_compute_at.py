"""``reverse_compute_at``: a consumer moves inside a loop of its producer and takes what one iteration gives it.

    for i: C[i] = sum_k ...           for i
    for i                               C[i] = sum_k ...
      D[i] = f(C[i])          -->       D[i] = f(C[i])

The consumer goes to the end of the loop's body, with one new loop per iterator: over the tile of the producer
where it reads by a plain iterator, over the whole domain elsewhere. Legal when the iterations of the loop (and
of those around it) cut the producer's result into disjoint tiles that together are everything, and the consumer
needs nothing but its tile.

Refused also: a loop that carries the producer's reduction, a vectorised loop, a consumer that another block in the loop
depends on.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ....core.attributes import memref_shape_exprs
from ....core.symbolic import SymExpr
from ....dialects.loop.ops import BlockOp, ForOp, LoadOp, StoreOp
from ..digits import Digit, determines, is_dense, readable_digits
from ..errors import block_name, loop_name, refuse
from ..index import Exprs, IndexSpace
from ..legality import written_places
from ..nest import (
    buffer_name,
    detach_with_empty_loops,
    encloses,
    loops_around,
    read_buffers,
    readers,
    writers,
    written_buffers,
)
from ..placement import nest_over, require_no_lanes
from ..regions import Span, prove_le, span
from .compute_at import comes_before


def reverse_compute_at(space: IndexSpace, block: BlockOp, loop: ForOp) -> None:
    """Move ``block`` to the end of ``loop``."""
    if encloses(loop, block):
        refuse(block, f"is already inside {loop_name(loop)}")
    require_no_lanes(loop)
    inputs = [b for b in read_buffers(block) if any(encloses(loop, w) for w in writers(b))]
    if not inputs:
        refuse(loop, f"{block_name(block)} reads nothing that is computed there")
    _require_complete(block, loop, inputs)
    region: list[Span | None] = [None] * len(block.iters)
    tiles: dict[int, set[Digit]] = {}
    for buffer in inputs:
        _constrain(space, block, loop, buffer, region, tiles)
    for buffer in inputs:
        _require_cover(space, block, loop, buffer, region)
    detach_with_empty_loops(block)
    loop.body.block.add_op(nest_over(space, block, region))


def _require_complete(block: BlockOp, loop: ForOp, inputs: list[SSAValue]) -> None:
    last = loop.body.block.last_op
    assert last is not None
    for buffer in read_buffers(block):
        for writer in writers(buffer):
            if not encloses(loop, writer) and not comes_before(writer, loop):
                refuse(loop, f"{block_name(writer)} has not yet computed '{buffer_name(buffer)}' there")
    for buffer in written_buffers(block):
        for other in [*readers(buffer), *writers(buffer)]:
            if other is not block and (encloses(loop, other) or comes_before(other, block)):
                refuse(loop, f"{block_name(other)} there uses '{buffer_name(buffer)}'")


def _constrain(
    space: IndexSpace,
    block: BlockOp,
    loop: ForOp,
    buffer: SSAValue,
    region: list[Span | None],
    tiles: dict[int, set[Digit]],
) -> None:
    """Set the region of the iterators that read ``buffer``, from the tile that one iteration of ``loop`` writes."""
    producer = next(w for w in writers(buffer) if encloses(loop, w))
    around = loops_around(producer)
    depth = around.index(loop) + 1
    outer = [space.name(x.var) for x in around[:depth]]
    inner = {space.name(x.var) for x in around[depth:]}
    place = _single_place(space, producer, buffer)
    numbers = {space.name(v): i for i, v in enumerate(block.body.block.args)}
    domains, shape = space.read(block, "domains"), memref_shape_exprs(buffer.type)
    tiled: list[tuple[int, Digit]] = []
    for dim, expr in enumerate(place):
        before = len(tiled)
        tile = _tile(space, loop, expr, inner, set(outer), tiled)
        if tile is None:
            continue
        indices = {read[dim] for read in _reads(space, block, buffer)}
        index = next(iter(indices))
        if len(indices) != 1 or index.kind != "sym" or index.name not in numbers:
            refuse(loop, f"{block_name(block)} does not read '{buffer_name(buffer)}' by plain iterators")
        number = numbers[index.name]
        if not prove_le(space, domains[number], shape[dim]):
            refuse(loop, f"{block_name(block)} also runs where '{buffer_name(buffer)}' has no elements")
        if block.iter_kinds[number] == "reduce":
            refuse(loop, f"{block_name(block)} reduces over what {loop_name(loop)} tiles")
        digits = {d for _, d in tiled[before:]}
        # Each tile belongs to one iterator; otherwise only the iterations where they agree would run.
        if any((digits != own) if n == number else (digits & own) for n, own in tiles.items()):
            refuse(loop, f"{block_name(block)} reads different tiles at once")
        if region[number] not in (None, tile):
            refuse(loop, f"{block_name(block)} reads different tiles at once")
        tiles[number] = digits
        region[number] = tile
    for name in outer:
        if not determines(space, [d for _, d in tiled], name):
            hint = space.value(name).name_hint
            refuse(loop, f"loop %{hint} around it does not tile what {block_name(block)} reads")


def _tile(
    space: IndexSpace, loop: ForOp, expr: SymExpr, inner: set[str], outer: set[str], tiled: list[tuple[int, Digit]]
) -> Span | None:
    """The values that ``expr`` takes in one iteration; ``None`` where outer loops do not matter."""
    if expr.symbols().isdisjoint(outer):
        return None
    inside = readable_digits(space, expr, inner)
    outside = readable_digits(space, expr, outer)
    found = span(space, expr, inner)
    if inside is None or outside is None or found is None or not is_dense(space, inside):
        refuse(loop, "does not cut the result into whole tiles")
    if not is_dense(space, outside, found.width + 1) or expr.constant:
        refuse(loop, "does not cut the result into disjoint tiles")
    tiled += outside
    return found


def _require_cover(space: IndexSpace, block: BlockOp, loop: ForOp, buffer: SSAValue, region: list[Span | None]) -> None:
    """A dimension that no outer loop tiles must be written completely in one iteration."""
    producer = next(w for w in writers(buffer) if encloses(loop, w))
    around = loops_around(producer)
    inner = {space.name(x.var) for x in around[around.index(loop) + 1 :]}
    outer = {space.name(x.var) for x in around} - inner
    shape = memref_shape_exprs(buffer.type)
    for expr, extent in zip(_single_place(space, producer, buffer), shape):
        if not expr.symbols().isdisjoint(outer):
            continue
        digits = readable_digits(space, expr, inner)
        found = span(space, expr, inner)
        whole = found is not None and found.low == 0 and prove_le(space, extent, found.width + 1)
        if digits is None or not whole or not is_dense(space, digits):
            refuse(loop, f"does not write '{buffer_name(buffer)}' completely")


def _single_place(space: IndexSpace, producer: BlockOp, buffer: SSAValue) -> Exprs:
    places = set(written_places(space, producer, buffer))
    if len(places) != 1:
        refuse(producer, f"writes several places of '{buffer_name(buffer)}'")
    return next(iter(places))


def _reads(space: IndexSpace, block: BlockOp, buffer: SSAValue) -> list[Exprs]:
    ops = [op for op in block.body.walk() if isinstance(op, LoadOp | StoreOp) and op.memref is buffer]
    return [space.read(op, "map") for op in ops]
