"""``loop-lower-blocks``: blocks become plain loads, stores and arithmetic in their loops.

    for i                                                 for i
      for k                                                 C[i] = 0
        block "C" (vi = i, vk = k) init { C[vi] = 0 }  -->  for k
          { C[vi] += A[vi, vk] }                              C[i] += A[i, k]

Iterators are replaced by their bindings. An init region runs before the outermost reduction loop (see
``decompose_reduction``), or, where one loop binds spatial and reduce iterators at once, under a ``loop.if``.
Guards that ranges do not prove become a ``loop.if`` around the body.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region

from ...core.symbolic import SymExpr, const
from ...dialects.loop.ops import BlockOp, IfOp
from .errors import ScheduleError
from .index import INDEX_ATTRS, IndexSpace
from .kernel_pass import KernelPass
from .nest import all_blocks, detach, erase
from .primitives.decompose_reduction import decompose_reduction, reduction_loops
from .regions import prove_lt


@dataclass(frozen=True)
class LoopLowerBlocksPass(KernelPass):
    """Replace all blocks by their bodies; see the module."""

    name = "loop-lower-blocks"

    def apply_to_kernel(self, kernel: FuncOp) -> None:
        space = IndexSpace(kernel)
        for block in list(all_blocks(kernel)):
            if block.init is not None:
                _separate_init(space, block)
        for block in list(all_blocks(kernel)):
            lower(space, block)


def _separate_init(space: IndexSpace, block: BlockOp) -> None:
    """Decompose the reduction where that is possible."""
    loops = reduction_loops(space, block)
    if loops:
        try:
            decompose_reduction(space, block, loops[0])
        except ScheduleError:
            return  # ``lower`` guards the init region instead


def lower(space: IndexSpace, block: BlockOp) -> None:
    """Put the body of ``block`` (and a guarded init before it) in its place."""
    bindings = space.read(block, "bindings")
    place = _guarded_place(space, block, space.read(block, "where"))
    if block.init is not None:
        first: list[SymExpr] = []
        for kind, binding in zip(block.iter_kinds, bindings):
            if kind == "reduce":
                first += [binding, const(1)]
        init_place = _guarded_place(space, place, first)
        _move(space, block.init.block, bindings, init_place)
        if init_place is not place and isinstance(init_place.parent_op(), IfOp):
            erase(init_place)
    _move(space, block.body.block, bindings, place)
    if place is not block:
        erase(place)
    erase(block)


def _guarded_place(space: IndexSpace, before: Operation, where: tuple[SymExpr, ...] | list[SymExpr]) -> Operation:
    """An op to insert before: ``before`` itself, or a marker inside a new ``loop.if`` in front of it."""
    needed: list[SymExpr] = []
    for lhs, rhs in zip(where[::2], where[1::2]):
        lhs, rhs = space.simplify(lhs), space.simplify(rhs)
        if not prove_lt(space, lhs, rhs):
            needed += [lhs, rhs]
    if not needed:
        return before
    args, (map_,) = space.pack(needed)
    marker = IfOp([], space.pack([])[1][0], Region(Block()))
    guard = IfOp(args, map_, Region(Block([marker])))
    block = before.parent
    assert block is not None
    block.insert_op_before(guard, before)
    return marker


def _move(space: IndexSpace, source: Block, bindings: tuple[SymExpr, ...], before: Operation) -> None:
    target = before.parent
    assert target is not None
    mapping = {space.name(arg): binding for arg, binding in zip(source.args, bindings)}
    for op in list(source.ops):
        detach(op)
        target.insert_op_before(op, before)
        for inner in op.walk():
            if type(inner) in INDEX_ATTRS:
                space.substitute(inner, mapping)
    for arg, binding in zip(source.args, bindings):
        space.replace_value(arg, binding)
