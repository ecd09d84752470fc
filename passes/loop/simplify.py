"""``loop-simplify``: what ranges decide is decided.

    for i in 0..1                                    (i is 0)
      for j in 0..16
        if (i * 16 + j < 20) { A[i * 16 + j floordiv 16] }    -->    for j in 0..16
                                                                       A[0]

Index expressions are simplified with the ranges of loops and of the guards around; loops of extent 1 and 0
vanish; guards that always hold go, what never runs goes; a guard that is all of a loop's body and does not
depend on the loop moves out of it; unused pure operations go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.traits import is_side_effect_free

from ...core.symbolic import Interval, SymExpr
from ...dialects.loop.ops import BlockOp, ForOp, IfOp, IndexOp, LoadOp, StoreOp
from .index import INDEX_ATTRS, Exprs, IndexSpace, segment_sizes
from .kernel_pass import KernelPass
from .nest import detach, erase, only_child
from .regions import prove_le, prove_lt


@dataclass(frozen=True)
class LoopSimplifyPass(KernelPass):
    """Simplify indices, loops and guards; see the module. Idempotent."""

    name = "loop-simplify"

    def apply_to_kernel(self, kernel: FuncOp) -> None:
        Simplifier(IndexSpace(kernel)).block(kernel.body.block)


class Simplifier:
    """Simplifies a region, knowing the guards around it."""

    def __init__(self, space: IndexSpace) -> None:
        self.space = space
        self.facts: list[SymExpr] = []
        """Expressions that are negative here."""

    def block(self, block: Block) -> None:
        """Simplify all operations of a block, then remove unused ones."""
        for op in list(block.ops):
            if op.parent is block:
                self.op(op)
        for op in reversed(list(block.ops)):
            removable = isinstance(op, LoadOp | IndexOp) or is_side_effect_free(op)
            if removable and not op.regions and op.results and all(r.first_use is None for r in op.results):
                erase(op)

    def op(self, op: Operation) -> None:
        """Simplify one operation in place; it may vanish or be replaced by its body."""
        if type(op) in INDEX_ATTRS:
            self._indices(op)
        if isinstance(op, ForOp):
            self._loop(op)
        elif isinstance(op, IfOp):
            self._if(op)
        elif isinstance(op, LoadOp):
            self._load(op)
        elif isinstance(op, StoreOp) and op.where is not None:
            if self._decide(op) is False:
                erase(op)
        elif isinstance(op, BlockOp):
            self._decide(op)

    def _indices(self, op: Operation) -> None:
        changed: dict[str, Exprs] = {}
        for prop in INDEX_ATTRS[type(op)]:
            old = self.space.read(op, prop)
            new = tuple(self.space.simplify(e) for e in old)
            if new != old:
                changed[prop] = new
        if changed:
            self.space.write(op, **changed)

    def _loop(self, loop: ForOp) -> None:
        extent = self.space.extent(loop)
        if prove_le(self.space, extent, 0):
            erase(loop)
            return
        if extent == 1:
            self.space.replace_value(loop.var, 0)
            self._inline(loop, loop.body.block)
            return
        self.block(loop.body.block)
        if loop.body.block.is_empty:
            erase(loop)
            return
        self._hoist_guard(loop)

    def _hoist_guard(self, loop: ForOp) -> None:
        """for i { if (c) { body } } --> if (c) { for i { body } } where c does not depend on i."""
        guard = only_child(loop)
        name = self.space.name(loop.var)
        if not isinstance(guard, IfOp) or guard.orelse is not None:
            return
        if any(name in e.symbols() for e in self.space.read(guard, "where")):
            return
        place = loop.parent
        assert place is not None
        detach(guard)
        for op in list(guard.body.block.ops):
            detach(op)
            loop.body.block.add_op(op)
        place.insert_op_before(guard, loop)
        detach(loop)
        guard.body.block.add_op(loop)

    def _if(self, op: IfOp) -> None:
        decided = self._decide(op)
        if decided is not None:
            chosen = op.body if decided else op.orelse
            if chosen is None:
                erase(op)
            else:
                self._inline(op, chosen.block)
            return
        pairs = self.space.read(op, "where")
        self.under(pairs, op.body.block)
        if op.orelse is not None:
            self.block(op.orelse.block)
            if op.orelse.block.is_empty:
                op.detach_region(op.orelse)
        inner = op.body.block.first_op
        if op.orelse is None and op.body.block.is_empty:
            erase(op)
        elif op.orelse is None and isinstance(inner, IfOp) and inner.next_op is None and inner.orelse is None:
            merged = (*pairs, *self.space.read(inner, "where"))
            self._inline(inner, inner.body.block, again=False)
            self.space.write(op, where=merged)

    def under(self, pairs: Exprs, block: Block) -> None:
        """Simplify a block in which all ``pairs`` hold."""
        restored = [self._assume(lhs - rhs) for lhs, rhs in zip(pairs[::2], pairs[1::2])]
        self.block(block)
        for item in reversed(restored):
            self.facts.pop()
            if item is not None:
                self.space.ranges[item[0]] = item[1]

    def _assume(self, negative: SymExpr) -> tuple[str, Interval] | None:
        """Note that an expression is negative; a bound on one variable narrows its range."""
        self.facts.append(negative)
        terms, constant = negative.as_linear()
        if len(terms) != 1:
            return None
        ((term, scale),) = terms.items()
        if term.kind != "sym":
            return None
        low, high = self.space.ranges[term.name]
        if scale > 0:
            limit = (-constant - 1) // scale
            high = limit if high is None else min(high, limit)
        else:
            limit = constant // -scale + 1
            low = limit if low is None else max(low, limit)
        if low is not None and high is not None and low > high:
            return None
        old = self.space.ranges[term.name]
        self.space.ranges[term.name] = (low, high)
        return term.name, old

    def _load(self, op: LoadOp) -> None:
        if op.where is None or self._decide(op) is not False:
            return
        assert op.default is not None
        op.result.replace_all_uses_with(op.default)
        erase(op)

    def _decide(self, op: Operation) -> bool | None:
        """Drop the pairs of ``where`` that always hold; says what is left: holds, never holds, or unknown."""
        pairs = self.space.read(op, "where")
        kept: list[SymExpr] = []
        for lhs, rhs in zip(pairs[::2], pairs[1::2]):
            if self.holds(lhs, rhs):
                continue
            if prove_le(self.space, rhs, lhs):
                return False
            kept += [lhs, rhs]
        if len(kept) != len(pairs) and (kept or not isinstance(op, IfOp)):
            set_where(self.space, op, kept)
        return None if kept else True

    def holds(self, lhs: SymExpr, rhs: SymExpr) -> bool:
        """Whether lhs < rhs is known."""
        if prove_lt(self.space, lhs, rhs):
            return True
        return any(prove_le(self.space, lhs - rhs, fact) for fact in self.facts)

    def _inline(self, op: Operation, body: Block, again: bool = True) -> None:
        place = op.parent
        assert place is not None
        moved = list(body.ops)
        for inner in moved:
            detach(inner)
            place.insert_op_before(inner, op)
        erase(op)
        for inner in moved if again else ():
            if inner.parent is place:
                self.op(inner)


def set_where(space: IndexSpace, op: Operation, pairs: Sequence[SymExpr]) -> None:
    """Set a guard; a load without one has no default."""
    if isinstance(op, LoadOp) and not pairs:
        exprs = space.read(op, "map")
        args, (map_,) = space.pack(exprs)
        op.properties.pop("where", None)
        op.properties["map"] = map_
        op.properties["operandSegmentSizes"] = segment_sizes(1, len(args), 0)
        op.operands = [op.memref, *args]
        return
    space.write(op, where=pairs)
