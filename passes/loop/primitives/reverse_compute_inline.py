"""``reverse_compute_inline``: an elementwise consumer is computed by its producer, right where the value is made.

    for i: B[i] = f(A[i])
    for i: C[i] = g(B[i])       -->       for i: C[i] = g(f(A[i]))

Refused: a consumer that reads anything but one element of the producer's buffer by distinct plain iterators,
other readers of that buffer, reductions on either side (use ``reverse_compute_at`` there).
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ....core.attributes import memref_shape_exprs
from ....core.symbolic import SymExpr, const
from ....dialects.loop.ops import BlockOp, LoadOp, StoreOp
from ..errors import block_name, refuse
from ..index import IndexSpace
from ..inlining import Copier
from ..nest import accesses, alloc_of, buffer_name, erase, erase_with_empty_loops, read_buffers, readers, writers
from .compute_at import comes_before


def reverse_compute_inline(space: IndexSpace, block: BlockOp) -> None:
    """Inline ``block`` into the only producer of what it reads."""
    buffer, producer = _producer(block)
    numbers = {space.name(v): i for i, v in enumerate(block.body.block.args)}
    loads = [op for op in block.body.walk() if isinstance(op, LoadOp) and op.memref is buffer]
    places = {space.read(load, "map") for load in loads}
    index = next(iter(places))
    names = [e.name for e in index if e.kind == "sym"]
    if len(places) != 1 or any(load.where is not None for load in loads):
        refuse(block, f"does not read '{buffer_name(buffer)}' at one place")
    plain = all(e.is_const() or e.kind == "sym" for e in index)
    if not plain or len(set(names)) != len(names) or set(names) != set(numbers):
        refuse(block, f"does not read '{buffer_name(buffer)}' by distinct plain iterators")
    domains = space.read(block, "domains")
    read = [domains[numbers[e.name]] if e.kind == "sym" else const(1) for e in index]
    if read != list(memref_shape_exprs(buffer.type)):
        refuse(block, f"does not read all of '{buffer_name(buffer)}'")
    stores = [op for op in producer.body.walk() if isinstance(op, StoreOp)]
    if len(stores) != 1 or stores[0].where is not None or stores[0].parent is not producer.body.block:
        refuse(producer, "does not write exactly one place")
    _require_inputs(block, producer, buffer)
    (store,) = stores
    written = space.read(store, "map")
    values: dict[SSAValue, SymExpr] = {
        block.body.block.args[numbers[e.name]]: w for e, w in zip(index, written) if e.kind == "sym"
    }
    _inline(space, block, store, values, buffer)


def _producer(block: BlockOp) -> tuple[SSAValue, BlockOp]:
    if "reduce" in block.iter_kinds:
        refuse(block, "is a reduction")
    candidates = [b for b in read_buffers(block) if alloc_of(b) is not None and readers(b) == [block]]
    candidates = [b for b in candidates if len(writers(b)) == 1 and "reduce" not in writers(b)[0].iter_kinds]
    if len(candidates) != 1:
        refuse(block, "does not have exactly one elementwise producer that is read by nobody else")
    return candidates[0], writers(candidates[0])[0]


def _require_inputs(block: BlockOp, producer: BlockOp, buffer: SSAValue) -> None:
    for other in read_buffers(block):
        for writer in writers(other):
            if other is not buffer and not comes_before(writer, producer):
                refuse(block, f"{block_name(writer)} has not yet computed '{buffer_name(other)}' there")


def _inline(
    space: IndexSpace, block: BlockOp, store: StoreOp, values: dict[SSAValue, SymExpr], buffer: SSAValue
) -> None:
    copier = Copier(space, values)
    for op in block.body.block.ops:
        if isinstance(op, LoadOp) and op.memref is buffer:
            copier.values[op.result] = store.value
        else:
            copier.copy(op, store)
    producer_alloc = alloc_of(buffer)
    assert producer_alloc is not None and len(accesses(buffer)) >= 1
    erase(store)
    erase_with_empty_loops(block)
    erase(producer_alloc)
