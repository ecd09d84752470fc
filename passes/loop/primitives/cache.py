"""``cache_read`` and ``cache_write``: a buffer gets a copy, made or written back by a block of its own.

cache_read                                     cache_write
    for i: C[i] = f(A[i])                          for i: C[i] = f(A[i])

    -->  for i: A_cache[i] = A[i]                  -->  for i: C_cache[i] = f(A[i])
         for i: C[i] = f(A_cache[i])                    for i: C[i] = C_cache[i]

The copy covers the whole buffer; place it with ``compute_at`` or ``reverse_compute_at``. Only the block itself uses the
cache (for ``cache_write`` with its init block), everybody else still uses the buffer.

Refused: a read or write number that the block does not have, an unknown scope, a buffer that other blocks of
the same nest use too (``cache_write``) or that is written later (``cache_read``).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ....core.attributes import IndexMapAttr, memref_shape_exprs, memref_type
from ....core.symbolic import sym
from ....dialects.loop.ops import SCOPES, AllocOp, BlockOp, LoadOp, StoreOp
from ..errors import block_name, refuse
from ..index import IndexSpace
from ..nest import (
    accesses,
    block_of,
    buffer_name,
    child_in,
    fresh_block_name,
    read_buffers,
    writers,
    written_buffers,
)
from ..placement import nest_over
from .compute_at import comes_before


def cache_read(space: IndexSpace, block: BlockOp, number: int, scope: str) -> BlockOp:
    """Read buffer ``number`` of ``block`` through a copy; returns the copying block."""
    buffer = _numbered(block, read_buffers(block), number, "read")
    _require_scope(block, scope)
    for writer in writers(buffer):
        if not comes_before(writer, block):
            refuse(block, f"{block_name(writer)} writes '{buffer_name(buffer)}' later")
    place = _top(space, block)
    shared = [w for w in writers(buffer) if _top(space, w) is place]
    if shared:
        refuse(block, f"{block_name(shared[0])} computes '{buffer_name(buffer)}' in the same nest")
    cache = _alloc(space, buffer, scope)
    users = [op for op in accesses(buffer) if block_of(op) is block]
    copy = _copy_block(space, buffer, cache, fresh_block_name(space.kernel, f"{buffer_name(buffer)}_read"))
    _redirect(users, buffer, cache)
    body = space.kernel.body.block
    body.insert_op_before(_whole(space, copy), place)
    return copy


def cache_write(space: IndexSpace, block: BlockOp, number: int, scope: str) -> BlockOp:
    """Write buffer ``number`` of ``block`` through a copy; returns the block that copies it back."""
    buffer = _numbered(block, written_buffers(block), number, "write")
    _require_scope(block, scope)
    family = writers(buffer)
    place = _top(space, block)
    for op in accesses(buffer):
        user = block_of(op)
        if user is not None and user not in family and _top(space, user) is place:
            refuse(block, f"{block_name(user)} uses '{buffer_name(buffer)}' in the same nest")
    last = [w for w in family if _top(space, w) is not place and comes_before(block, w)]
    if last:
        refuse(block, f"{block_name(last[0])} writes '{buffer_name(buffer)}' later")
    cache = _alloc(space, buffer, scope)
    users = [op for op in accesses(buffer) if block_of(op) in family]
    copy = _copy_block(space, cache, buffer, fresh_block_name(space.kernel, f"{buffer_name(buffer)}_write"))
    _redirect(users, buffer, cache)
    body = space.kernel.body.block
    body.insert_op_after(_whole(space, copy), place)
    return copy


def _numbered(block: BlockOp, buffers: Sequence[SSAValue], number: int, what: str) -> SSAValue:
    if not 0 <= number < len(buffers):
        refuse(block, f"has no {what} number {number}, it has {len(buffers)}")
    return buffers[number]


def _require_scope(block: BlockOp, scope: str) -> None:
    if scope not in SCOPES:
        refuse(block, f"unknown scope '{scope}', expected one of {', '.join(SCOPES)}")


def _top(space: IndexSpace, block: BlockOp) -> Operation:
    return child_in(space.kernel.body.block, block)


def _alloc(space: IndexSpace, buffer: SSAValue, scope: str) -> SSAValue:
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    new: MemRefType[Attribute] = memref_type(type_.element_type, memref_shape_exprs(type_))
    alloc = AllocOp(f"{buffer_name(buffer)}_cache", new, scope)
    alloc.result.name_hint = f"{buffer_name(buffer)}_cache"
    body = space.kernel.body.block
    assert body.first_op is not None
    body.insert_op_before(alloc, body.first_op)
    return alloc.result


def _copy_block(space: IndexSpace, source: SSAValue, target: SSAValue, name: str) -> BlockOp:
    """A detached block that copies one buffer to another."""
    shape = memref_shape_exprs(source.type)
    rank = len(shape)
    body = Block(arg_types=[IndexType()] * rank)
    identity = IndexMapAttr.identity(rank)
    load = LoadOp(source, body.args, identity)
    body.add_ops([load, StoreOp(load.result, target, body.args, identity)])
    for i, arg in enumerate(body.args):
        arg.name_hint = f"va{i}"
    args, (domains,) = space.pack(shape)
    bindings = IndexMapAttr(len(args), [sym("d0") * 0] * rank)
    return BlockOp(name, ["spatial"] * rank, args, bindings, domains, Region(body))


def _whole(space: IndexSpace, block: BlockOp) -> Operation:
    return nest_over(space, block, [None] * len(block.iters))


def _redirect(ops: Sequence[LoadOp | StoreOp], old: SSAValue, new: SSAValue) -> None:
    for op in ops:
        op.operands = [new if operand is old else operand for operand in op.operands]
