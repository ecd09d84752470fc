"""``compute_inline``: readers compute an elementwise producer's value themselves; the block and its buffer disappear.

    for i: B[i] = f(A[i])
    for i: C[i] = g(B[i + 1])       -->       for i: C[i] = g(f(A[i + 1]))

A guarded read keeps its guard: the producer's own loads get it too, so nothing outside of a buffer is touched.

Refused: reductions, buffers that are arguments or have several writers, a producer that does not write by plain
iterators or writes more than one buffer.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from ....core.symbolic import SymExpr, const
from ....dialects.loop.ops import BlockOp, LoadOp, StoreOp
from ..errors import refuse
from ..index import Exprs, IndexSpace, segment_sizes
from ..inlining import Copier, condition
from ..nest import accesses, alloc_of, buffer_name, erase, erase_with_empty_loops, writers, written_buffers
from ..placement import plain_write_dims


def compute_inline(space: IndexSpace, block: BlockOp) -> None:
    """Inline ``block`` into all readers of its buffer."""
    store, dims = _producer(space, block)
    alloc = alloc_of(store.memref)
    assert alloc is not None
    for load in [op for op in accesses(store.memref) if isinstance(op, LoadOp)]:
        _replace(space, block, store, dims, load)
    erase_with_empty_loops(block)
    erase(alloc)


def _producer(space: IndexSpace, block: BlockOp) -> tuple[StoreOp, list[int | None]]:
    if "reduce" in block.iter_kinds:
        refuse(block, "is a reduction")
    buffers = written_buffers(block)
    stores = [op for op in block.body.walk() if isinstance(op, StoreOp)]
    if len(buffers) != 1 or len(stores) != 1:
        refuse(block, "does not write exactly one place of one buffer")
    (store,) = stores
    if alloc_of(store.memref) is None:
        refuse(block, f"writes '{buffer_name(store.memref)}', an argument of the kernel")
    if writers(store.memref) != [block]:
        refuse(block, f"shares its buffer '{buffer_name(store.memref)}' with another block")
    loads = [op for op in accesses(store.memref) if isinstance(op, LoadOp)]
    if any(op.memref is store.memref for op in block.body.walk() if isinstance(op, LoadOp)):
        refuse(block, "reads its own result")
    if not loads:
        refuse(block, "has no consumer")
    if store.where is not None or store.parent is not block.body.block:
        refuse(block, "writes under a condition")
    _, dims = plain_write_dims(space, block)
    domains = space.read(block, "domains")
    if any(i not in dims and domain != 1 for i, domain in enumerate(domains)):
        refuse(block, "has an iterator that does not index its result")
    return store, dims


def _replace(space: IndexSpace, block: BlockOp, store: StoreOp, dims: list[int | None], load: LoadOp) -> None:
    index = space.read(load, "map")
    values: dict[SSAValue, SymExpr] = {v: const(0) for v in block.body.block.args}
    for dim, number in enumerate(dims):
        if number is not None:
            values[block.body.block.args[number]] = index[dim]
    copier = Copier(space, values)
    guard = space.read(load, "where")
    for op in block.body.block.ops:
        if op is store:
            continue
        new = copier.copy(op, load)
        if guard:
            _guard(space, new, guard, load)
    result = _value_of(copier, store, load)
    if guard:
        result = _select(space, guard, result, load)
    load.result.replace_all_uses_with(result)
    erase(load)


def _value_of(copier: Copier, store: StoreOp, before: Operation) -> SSAValue:
    value = store.value
    if value in copier.indices:
        return copier.space.materialize(copier.indices[value], before)
    return copier.values.get(value, value)


def _guard(space: IndexSpace, op: Operation, guard: Exprs, load: LoadOp) -> None:
    """Give the loads of a copied op the guard of the load that it replaces."""
    for inner in op.walk():
        if not isinstance(inner, LoadOp):
            continue
        where = space.read(inner, "where")
        if inner.default is None:
            zero = arith.ConstantOp(_zero(inner.result.type))
            assert inner.parent is not None
            inner.parent.insert_op_before(zero, inner)
            inner.properties["operandSegmentSizes"] = segment_sizes(1, len(inner.args), 1)
            inner.operands = [inner.memref, *inner.args, zero.result]
        space.write(inner, where=(*where, *guard))


def _zero(type_: Attribute) -> FloatAttr[AnyFloat] | IntegerAttr[IntegerType | IndexType]:
    if isinstance(type_, AnyFloat):
        return FloatAttr(0.0, type_)
    assert isinstance(type_, IntegerType | IndexType)
    return IntegerAttr(0, type_)


def _select(space: IndexSpace, guard: Exprs, value: SSAValue, load: LoadOp) -> SSAValue:
    """The value under the guard, the load's default elsewhere; just the value where that is a load of the same
    default."""
    assert load.default is not None
    owner = value.owner
    if isinstance(owner, LoadOp) and owner.default is not None and _same_constant(owner.default, load.default):
        return value
    select = arith.SelectOp(condition(space, guard, load), value, load.default)
    assert load.parent is not None
    load.parent.insert_op_before(select, load)
    return select.result


def _same_constant(a: SSAValue, b: SSAValue) -> bool:
    if a is b:
        return True
    first, second = a.owner, b.owner
    return isinstance(first, arith.ConstantOp) and isinstance(second, arith.ConstantOp) and first.value == second.value
