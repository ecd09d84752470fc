"""Vector accumulators for reductions over the lanes of a vectorised loop; a step of ``loop-vectorize``.

    for ko                                        acc: local memref<1x16xf32>
      for ki in 0..16 vectorized                  for l in 0..16 vectorized { acc[0, l] = 0 }
        S[i] += A[ko * 16 + ki]            -->    for ko
                                                    for ki in 0..16 vectorized
                                                      acc[0, ki] += A[ko * 16 + ki]
                                                  for l in 0..16 vectorized { S[i] += acc[0, l] }

Unrolled loops on the way get an accumulator for each iteration (the first dimension), which hides the latency of the
combining operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from ...core.attributes import memref_type
from ...core.symbolic import SymExpr, const
from ...dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp
from .index import IndexSpace
from .legality import COMBINING, combining_load
from .nest import accesses, encloses


@dataclass(frozen=True)
class _Reduction:
    load: LoadOp
    combine: Operation
    store: StoreOp


def widen_accumulators(space: IndexSpace, loop: ForOp) -> None:
    """Give each reduction over the lanes of ``loop`` its vector accumulators."""
    extent = space.extent(loop)
    if not extent.is_const() or extent.const_value() < 2:
        return
    for store in [op for op in loop.body.block.ops if isinstance(op, StoreOp)]:
        found = combining_load(store)
        if found is None or store.where is not None or found[0].parent is not store.parent:
            continue
        reduction = _Reduction(found[0], found[1], store)
        outermost = _outermost(space, loop, reduction)
        if outermost is not loop:
            _widen(space, loop, outermost, reduction)


def _outermost(space: IndexSpace, loop: ForOp, reduction: _Reduction) -> ForOp:
    """The outermost loop around that does not change the accumulator's place and touches it nowhere else."""
    place = space.read(reduction.store, "map")
    used = set().union(*[e.symbols() for e in place]) if place else set()
    if space.name(loop.var) in used:
        return loop
    buffer = reduction.store.memref
    found = loop
    parent = loop.parent_op()
    while isinstance(parent, ForOp) and parent.kind.data in ("serial", "unrolled"):
        others = [op for op in accesses(buffer) if encloses(parent, op)]
        if space.name(parent.var) in used or {*others} != {reduction.load, reduction.store}:
            break
        if not encloses_defined(parent, buffer):
            break
        found, parent = parent, parent.parent_op()
    return found


def encloses_defined(loop: ForOp, buffer: SSAValue) -> bool:
    """Whether ``buffer`` is defined outside of ``loop``."""
    owner = buffer.owner
    return not isinstance(owner, Operation) or not encloses(loop, owner)


def _widen(space: IndexSpace, loop: ForOp, outermost: ForOp, reduction: _Reduction) -> None:
    copies = _unrolled_between(space, loop, outermost)
    rows = math.prod(space.extent(x).const_value() for x in copies)
    lanes = space.extent(loop).const_value()
    element = reduction.load.result.type
    alloc = AllocOp("lanes", memref_type(element, [rows, lanes]), "local")
    row: SymExpr = const(0)
    for x in copies:
        row = row * space.extent(x) + space.var(x.var)
    index = [row, space.var(loop.var)]
    place = outermost.parent
    assert place is not None
    place.insert_op_before(alloc, outermost)
    place.insert_op_before(_fill(space, alloc, rows, lanes, reduction, element), outermost)
    place.insert_op_after(_fold(space, alloc, rows, lanes, reduction), outermost)
    for op in (reduction.load, reduction.store):
        op.operands = [alloc.result if v is reduction.store.memref else v for v in op.operands]
    for op in (reduction.load, reduction.store):
        space.write(op, map=index)


def _unrolled_between(space: IndexSpace, loop: ForOp, outermost: ForOp) -> list[ForOp]:
    found: list[ForOp] = []
    current = loop.parent_op()
    while isinstance(current, ForOp):
        if current.kind.data == "unrolled" and space.extent(current).is_const():
            found.append(current)
        if current is outermost:
            break
        current = current.parent_op()
    return found[::-1]


def _loops(space: IndexSpace, rows: int, lanes: int) -> tuple[ForOp, ForOp, list[SymExpr]]:
    outer = space.new_loop(rows, "row", "unrolled" if rows > 1 else "serial")
    inner = space.new_loop(lanes, "lane", "vectorized")
    outer.body.block.add_op(inner)
    return outer, inner, [space.var(outer.var), space.var(inner.var)]


def _fill(space: IndexSpace, alloc: AllocOp, rows: int, lanes: int, reduction: _Reduction, element: Attribute) -> ForOp:
    outer, inner, index = _loops(space, rows, lanes)
    args, (map_,) = space.pack(index)
    neutral = arith.ConstantOp(neutral_element(COMBINING[type(reduction.combine)], element))
    inner.body.block.add_ops([neutral, StoreOp(neutral.result, alloc.result, args, map_)])
    return outer


def _fold(space: IndexSpace, alloc: AllocOp, rows: int, lanes: int, reduction: _Reduction) -> ForOp:
    outer, inner, index = _loops(space, rows, lanes)
    args, (map_,) = space.pack(index)
    partial = LoadOp(alloc.result, args, map_)
    values: dict[SSAValue, SSAValue] = {}
    accumulator = reduction.load.clone(values)
    combine = type(reduction.combine).create(
        operands=[accumulator.result, partial.result],
        result_types=[partial.result.type],
        properties=dict(reduction.combine.properties),
    )
    values[reduction.store.value] = combine.results[0]
    store = reduction.store.clone(values)
    inner.body.block.add_ops([partial, accumulator, combine, store])
    return outer


def neutral_element(kind: str, element: Attribute) -> FloatAttr[AnyFloat] | IntegerAttr[IntegerType]:
    """The value that combining leaves unchanged (``-0.0`` for a sum of floats)."""
    if isinstance(element, AnyFloat):
        values = {"add": -0.0, "mul": 1.0, "maximumf": -math.inf, "minimumf": math.inf}
        values |= {"maxnumf": -math.inf, "minnumf": math.inf}
        return FloatAttr(values[kind], element)
    assert isinstance(element, IntegerType)
    bits = element.width.data
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    integers = {"add": 0, "mul": 1, "or": 0, "xor": 0, "and": -1, "maxui": 0, "minui": -1}
    integers |= {"maxsi": low, "minsi": high}
    if bits == 1:
        integers |= {"and": 1, "minui": 1, "maxsi": 1, "minsi": 0}
    return IntegerAttr(integers[kind], element)
