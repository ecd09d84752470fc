"""``compute_at``: a producer moves inside a loop of its consumers and computes just what they need there.

    for i: B[i] = f(A[i])             for i
    for i                               B[i] = f(A[i])
      C[i] = g(B[i])          -->       C[i] = g(B[i])

The new loops (one per iterator) run over the hull of what the consumers inside the loop read; points outside of
the domain are guarded. The producer's reduction stays complete. Legal when every reader of its buffers is
inside the loop and what it reads itself is complete there.

Refused: a buffer that is an argument of the kernel, that several blocks write or that someone reads elsewhere;
a producer that does not write by plain iterators; a loop that the producer is inside of alone, or a vectorised
one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ....core.attributes import memref_shape_exprs
from ....dialects.loop.ops import BlockOp, ForOp, LoadOp
from ..errors import block_name, loop_name, refuse
from ..index import IndexSpace
from ..nest import (
    accesses,
    block_of,
    blocks_in,
    buffer_name,
    child_in,
    detach_with_empty_loops,
    encloses,
    is_argument,
    loops_around,
    read_buffers,
    readers,
    writers,
    written_buffers,
)
from ..placement import nest_over, plain_write_dims, region_accessed, require_no_lanes
from ..regions import Span


def compute_at(space: IndexSpace, block: BlockOp, loop: ForOp) -> None:
    """Move ``block`` inside ``loop``, before its first consumer there."""
    if encloses(loop, block) and not _shared(loop, block):
        refuse(block, f"is the only block in {loop_name(loop)}")
    require_no_lanes(loop)
    consumers = _consumers(block, loop)
    _, dims = plain_write_dims(space, block)
    first = _first_child(loop, consumers)
    _require_inputs(block, loop, first)
    region = _needed(space, block, loop, consumers, dims)
    detach_with_empty_loops(block)
    loop.body.block.insert_op_before(nest_over(space, block, region), first)


def _shared(loop: ForOp, block: BlockOp) -> bool:
    return blocks_in(loop) != [block]


def _consumers(block: BlockOp, loop: ForOp) -> list[BlockOp]:
    """The readers of the block's buffers, all of which must be inside ``loop``."""
    found: dict[BlockOp, None] = {}
    for buffer in written_buffers(block):
        if is_argument(buffer):
            refuse(block, f"writes '{buffer_name(buffer)}', an argument of the kernel")
        if writers(buffer) != [block]:
            refuse(block, f"shares its buffer '{buffer_name(buffer)}' with another block")
        for reader in readers(buffer):
            if reader is block:
                continue
            if not encloses(loop, reader):
                refuse(loop, f"{block_name(reader)} reads '{buffer_name(buffer)}' outside of it")
            found[reader] = None
    if not found:
        refuse(block, "has no consumer")
    return list(found)


def _first_child(loop: ForOp, consumers: Sequence[BlockOp]) -> Operation:
    body = loop.body.block
    children = [child_in(body, c) for c in consumers]
    op: Operation
    for op in body.ops:
        if op in children:
            return op
    raise AssertionError("no consumer in the loop")


def _require_inputs(block: BlockOp, loop: ForOp, first: Operation) -> None:
    """Everything that the block reads must be complete before ``first`` in ``loop``."""
    for buffer in read_buffers(block):
        for writer in writers(buffer):
            if not comes_before(writer, first):
                refuse(loop, f"{block_name(writer)} has not yet computed '{buffer_name(buffer)}' there")


def comes_before(block: BlockOp, op: Operation) -> bool:
    """Whether ``block`` runs before ``op`` in the iteration of the loops that they share."""
    ancestors: list[Operation] = []
    current: Operation | None = op
    while current is not None:
        ancestors.append(current)
        current = current.parent_op()
    for ancestor in ancestors:
        body = ancestor.parent
        if body is None or not encloses(body.parent_op() or ancestor, block):
            continue
        child = child_in(body, block)
        if child is ancestor:
            return False
        return any(later is ancestor for later in _after(child))
    return False


def _after(op: Operation) -> list[Operation]:
    found: list[Operation] = []
    while op.next_op is not None:
        op = op.next_op
        found.append(op)
    return found


def _needed(
    space: IndexSpace, block: BlockOp, loop: ForOp, consumers: Sequence[BlockOp], dims: Sequence[int | None]
) -> list[Span | None]:
    """The region of the block's iterators that the consumers need in one iteration of ``loop``."""
    fixed = len(loops_around(loop)) + 1
    region: list[Span | None] = [None] * len(block.iters)
    loads: dict[SSAValue, list[LoadOp]] = {}
    for buffer in written_buffers(block):
        loads[buffer] = [op for op in accesses(buffer) if isinstance(op, LoadOp) and block_of(op) in consumers]
    buffer = written_buffers(block)[0]
    every = [op for ops in loads.values() for op in ops]
    spans = region_accessed(space, buffer, every, fixed, memref_shape_exprs(buffer.type))
    for dim, part in zip(dims, spans):
        if dim is not None:
            region[dim] = part
    return region
