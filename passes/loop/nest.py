"""The structure of loop nests: who encloses whom, who reads and writes what.

Nothing here computes with indices (``index``, ``regions``) or decides what is legal (``legality`` and the primitives).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ...dialects.loop.ops import AllocOp, BlockOp, ForOp, LoadOp, StoreOp


def loops_around(op: Operation) -> list[ForOp]:
    """All loops that enclose ``op``, outermost first."""
    found: list[ForOp] = []
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ForOp):
            found.append(parent)
        parent = parent.parent_op()
    found.reverse()
    return found


def blocks_in(op: Operation) -> list[BlockOp]:
    """All blocks inside ``op`` in textual order (``op`` itself if it is one)."""
    if isinstance(op, BlockOp):
        return [op]
    return [b for region in op.regions for o in region.block.ops for b in blocks_in(o) if o.regions]


def encloses(outer: Operation, inner: Operation) -> bool:
    """Whether ``inner`` is ``outer`` or lies inside of it."""
    current: Operation | None = inner
    while current is not None:
        if current is outer:
            return True
        current = current.parent_op()
    return False


def block_of(op: Operation) -> BlockOp | None:
    """The ``loop.block`` that ``op`` belongs to."""
    current: Operation | None = op
    while current is not None and not isinstance(current, BlockOp):
        current = current.parent_op()
    return current


def child_in(block: Block, op: Operation) -> Operation:
    """The operation directly in ``block`` that is or encloses ``op``."""
    current = op
    while current.parent is not block:
        parent = current.parent_op()
        assert parent is not None, "op is not inside the block"
        current = parent
    return current


def only_child(loop: ForOp) -> Operation | None:
    """The one operation in a loop's body, ``None`` when there are several."""
    block = loop.body.block
    return block.first_op if block.first_op is block.last_op else None


def perfect_chain(top: ForOp, bottom: ForOp) -> list[ForOp] | None:
    """The loops from ``top`` to ``bottom`` if each is the only operation in the one before."""
    chain = [top]
    while chain[-1] is not bottom:
        child = only_child(chain[-1])
        if not isinstance(child, ForOp):
            return None
        chain.append(child)
    return chain


def accesses(buffer: SSAValue) -> list[LoadOp | StoreOp]:
    """All loads and stores of a buffer, in no particular order."""
    return [u.operation for u in buffer.uses if isinstance(u.operation, LoadOp | StoreOp)]


def writers(buffer: SSAValue) -> list[BlockOp]:
    """Blocks that store to a buffer."""
    found = [block_of(op) for op in accesses(buffer) if isinstance(op, StoreOp)]
    return list(dict.fromkeys(b for b in found if b is not None))


def readers(buffer: SSAValue) -> list[BlockOp]:
    """Blocks that load from a buffer."""
    found = [block_of(op) for op in accesses(buffer) if isinstance(op, LoadOp)]
    return list(dict.fromkeys(b for b in found if b is not None))


def written_buffers(block: BlockOp) -> list[SSAValue]:
    """Buffers that a block stores to, in order of first appearance in the body."""
    return list(dict.fromkeys(op.memref for op in block.body.walk() if isinstance(op, StoreOp)))


def read_buffers(block: BlockOp) -> list[SSAValue]:
    """Buffers that a block loads from, in order of first appearance, without those that it also stores to."""
    written = written_buffers(block)
    found = dict.fromkeys(op.memref for op in block.body.walk() if isinstance(op, LoadOp))
    return [b for b in found if b not in written]


def is_argument(buffer: SSAValue) -> bool:
    """Whether a buffer is an argument of the kernel."""
    return isinstance(buffer, BlockArgument) and isinstance(buffer.block.parent_op(), FuncOp)


def alloc_of(buffer: SSAValue) -> AllocOp | None:
    """The allocation of a buffer, ``None`` for an argument."""
    if isinstance(buffer, OpResult) and isinstance(buffer.op, AllocOp):
        return buffer.op
    return None


def buffer_name(buffer: SSAValue) -> str:
    """How messages and new names call a buffer."""
    alloc = alloc_of(buffer)
    if alloc is not None:
        return alloc.buffer_name.data
    if buffer.name_hint is not None:
        return buffer.name_hint
    return f"arg{buffer.index}" if isinstance(buffer, BlockArgument) else "buffer"


def all_blocks(kernel: FuncOp) -> Iterator[BlockOp]:
    """Every block of a kernel, in textual order."""
    for op in kernel.body.block.ops:
        yield from blocks_in(op)


def fresh_block_name(kernel: FuncOp, stem: str) -> str:
    """``stem``, with a number where a block of that name exists."""
    taken = {b.block_name.data for b in all_blocks(kernel)}
    if stem not in taken:
        return stem
    return next(f"{stem}_{i}" for i in range(1, len(taken) + 2) if f"{stem}_{i}" not in taken)


def detach(op: Operation) -> None:
    """Take an operation out of its block, to put it elsewhere."""
    block = op.parent
    assert block is not None
    block.detach_op(op)


def erase(op: Operation) -> None:
    """Remove an operation whose results are unused."""
    detach(op)
    op.erase()


def erase_with_empty_loops(op: Operation) -> None:
    """Erase ``op`` and then every loop around it that became empty."""
    parent = op.parent_op()
    erase(op)
    if isinstance(parent, ForOp) and parent.body.block.is_empty:
        erase_with_empty_loops(parent)


def detach_with_empty_loops(op: Operation) -> None:
    """Detach ``op`` (to move it) and erase every loop around it that became empty."""
    parent = op.parent_op()
    detach(op)
    if isinstance(parent, ForOp) and parent.body.block.is_empty:
        erase_with_empty_loops(parent)


def wrap(loops: list[ForOp], innermost: Operation) -> Operation:
    """Nest ``innermost`` in ``loops`` (outermost first); returns the outermost operation."""
    current = innermost
    for loop in reversed(loops):
        loop.body.block.add_op(current)
        current = loop
    return current
