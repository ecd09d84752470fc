"""``loop-partition``: guards leave the inner loops.

    for io in 0..7                                   for io in 0..6
      for ii in 0..16                                  for ii in 0..16 { A[io * 16 + ii] }
        if (io * 16 + ii < 109) { A[.. ] }     -->   for ii in 0..13 { A[96 + ii] }

A loop whose variable appears linearly in a guard is cut into a part where the guard always holds and the rest,
outermost loops first; what is known in a part is simplified at once, so nothing remains of guards over
constants. Where the bound depends on outer variables (a padded window inside a fused parallel loop), serial
loops get bounds that are computed.

A parallel loop is never cut (its parts would wait for each other) and a fused variable is not linear; there the body
exists twice, under a ``loop.if`` that asks once per iteration, and the second body knows the digit that made it fail:

    for f in 0..28 parallel                          for f in 0..28 parallel
      for ii in 0..16 vectorized                       if (f mod 7 * 16 + 15 < 109)
        if (f mod 7 * 16 + ii < 109) { .. }    -->       for ii in 0..16 vectorized { .. }
                                                       else
                                                         for ii in 0..13 vectorized { .. [96 + ii] }

A vectorised loop whose guard has no constant bound becomes serial (a scalar tail).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region

from ...core.symbolic import SymExpr, const, sym, sym_max, sym_min
from ...dialects.loop.ops import ForOp, IfOp, LoadOp, StoreOp
from .guards import DigitCondition, Guard, as_pair, digit_condition, guards_in, true_range
from .index import INDEX_ATTRS, IndexSpace
from .kernel_pass import KernelPass
from .nest import detach, erase, loops_around
from .regions import prove_le
from .simplify import Simplifier, set_where

_MOST_COMPUTED_CUTS = 3
_LARGEST_BOUND = 48
"""Bounds that are computed grow with each cut: how many cuts of one loop, and how many terms, pay off."""


@dataclass(frozen=True)
class LoopPartitionPass(KernelPass):
    """Cut loops so that their bodies need no guards; see the module. ``max_copies`` bounds the growth per kernel."""

    name = "loop-partition"
    max_copies: int = 48

    def apply_to_kernel(self, kernel: FuncOp) -> None:
        Partitioner(IndexSpace(kernel), self.max_copies).block(kernel.body.block)


class Partitioner:
    """Partitions the loops of one kernel."""

    def __init__(self, space: IndexSpace, budget: int) -> None:
        self.space = space
        self.budget = budget
        self.simplifier = Simplifier(space)
        self.computed: dict[ForOp, int] = {}
        """How often a loop was cut at a bound that is computed at run time."""
        self.rests: set[ForOp] = set()
        """What is left of a loop beside the part where a guard over symbols holds: not cut for such a guard again."""

    def block(self, block: Block) -> None:
        """Partition all loops in a block, outermost first."""
        op = block.first_op
        while op is not None:
            if isinstance(op, ForOp):
                before = op.prev_op
                if self._loop(op):
                    op = block.first_op if before is None else before.next_op
                    continue
                self.block(op.body.block)
            elif isinstance(op, IfOp):
                self.block(op.body.block)
                if op.orelse is not None:
                    self.block(op.orelse.block)
            op = op.next_op

    def _loop(self, loop: ForOp) -> bool:
        """Try to remove guards by changing ``loop``; says whether something changed."""
        guards = guards_in(self.space, loop) if self.budget > 0 else []
        if not guards:
            return False
        if loop.kind.data != "parallel" and self._cut(loop, guards):
            return True
        return self._unswitch(loop, guards)

    # Cutting.

    def _cut(self, loop: ForOp, guards: Sequence[Guard]) -> bool:
        extent = self.space.extent(loop)
        if extent.is_const() and self._cut_constant(loop, guards, extent.const_value()):
            return True
        return self._cut_dynamic(loop, guards, extent)

    def _cut_constant(self, loop: ForOp, guards: Sequence[Guard], extent: int) -> bool:
        """All guards at once where that leaves an interior, otherwise one after the other."""
        ranges: list[tuple[Guard, int, int]] = []
        for guard in guards:
            found = true_range(self.space, loop, guard)
            if found is None or not (found[0].is_const() and found[1].is_const()):
                continue
            low, high = max(found[0].const_value(), 0), min(found[1].const_value(), extent)
            if low < high:
                ranges.append((guard, low, high))
        if not ranges:
            return False
        low, high = max(r[1] for r in ranges), min(r[2] for r in ranges)
        chosen = [r[0] for r in ranges]
        if low >= high:
            _, low, high = ranges[0]
            chosen = [g for g, a, b in ranges if (a, b) == (low, high)]
        if high - low < extent:
            for part in self._emit(loop, chosen, [const(0), const(low), const(high), const(extent)], decide_rest=False):
                self.simplifier.op(part)
        else:
            _resolve(self.space, [(g.op, g.pair) for g in chosen], True)
            self.simplifier.op(loop)
        return True

    def _cut_dynamic(self, loop: ForOp, guards: Sequence[Guard], extent: SymExpr) -> bool:
        """One bound that is computed: over symbols, or over outer variables where it decides the guard completely."""
        if loop.kind.data == "unrolled" or self.computed.get(loop, 0) >= _MOST_COMPUTED_CUTS:
            return False
        loop_names = self.space.extents.keys()
        for guard in guards:
            found = true_range(self.space, loop, guard)
            if found is None or (found[0].is_const() and found[1].is_const()):
                continue
            symbolic = (found[0].symbols() | found[1].symbols()).isdisjoint(loop_names)
            if not guard.exact and not (symbolic and loop.kind.data == "serial" and loop not in self.rests):
                continue
            low = self._clamp(found[0], extent)
            high = self._clamp(found[1], extent)
            if low == high or (not guard.exact and self.space.simplify(high - low) == 0):
                continue
            if _weight(low) + _weight(high) > _LARGEST_BOUND:
                continue
            if loop.kind.data == "vectorized":
                loop.kind = StringAttr("serial")
            same = [g for g in guards if g.worst == guard.worst and g.exact == guard.exact]
            made = self._emit(loop, same, [const(0), low, high, extent], decide_rest=guard.exact)
            self.computed.update(dict.fromkeys(made, self.computed.get(loop, 0) + 1))
            for part in made:
                self.simplifier.op(part)
            return True
        return False

    def _clamp(self, bound: SymExpr, extent: SymExpr) -> SymExpr:
        bound = self.space.simplify(bound)
        low = bound if prove_le(self.space, 0, bound) else sym_max(bound, 0)
        return low if prove_le(self.space, low, extent) else self.space.simplify(sym_min(low, extent))

    def _emit(self, loop: ForOp, chosen: Sequence[Guard], cuts: Sequence[SymExpr], decide_rest: bool) -> list[ForOp]:
        """Replace ``loop`` by its parts between ``cuts`` and return them; in the middle one the chosen guards hold."""
        walk = list(loop.body.walk())
        places = [(walk.index(g.op), g.pair) for g in chosen]
        block = loop.parent
        assert block is not None
        made: list[ForOp] = []
        for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
            size = self.space.simplify(stop - start)
            if size == 0:
                continue
            part = self._part(loop, start, size)
            block.insert_op_before(part, loop)
            ops = list(part.body.walk())
            if number == 1:
                _resolve(self.space, [(ops[i], p) for i, p in places], True)
            elif decide_rest:
                _resolve(self.space, [(ops[i], p) for i, p in places], False)
            else:
                self.rests.add(part)
            made.append(part)
        erase(loop)
        self.budget -= len(made) - 1
        return made

    def _part(self, loop: ForOp, start: SymExpr, size: SymExpr) -> ForOp:
        part = self.space.new_loop(size, loop.var.name_hint, loop.kind.data)
        part.attributes.update(loop.attributes)
        clone = loop.clone()
        for op in list(clone.body.block.ops):
            detach(op)
            part.body.block.add_op(op)
        self.space.name(clone.var)
        self.space.replace_value(clone.var, start + self.space.var(part.var))
        clone.erase()
        return part

    # Two versions of a body.

    def _unswitch(self, loop: ForOp, guards: Sequence[Guard]) -> bool:
        """Ask once per iteration for a guard that no serial loop inside can be cut for."""
        for guard in guards:
            direct = guard.exact and loops_around(guard.op)[-1] is loop
            if direct or any(x.kind.data == "serial" for x in guard.inner) or self._decided(loop, guard):
                continue
            self._emit_versions(loop, _together(guards, guard), guard)
            return True
        return False

    def _decided(self, loop: ForOp, guard: Guard) -> bool:
        """Whether an enclosing version already asks this question (then its answer here is no)."""
        current: Operation | None = guard.op
        pair = as_pair(guard.worst)
        while current is not None and current is not loop:
            if isinstance(current, IfOp) and current is not guard.op:
                asked = self.space.read(current, "where")
                if pair in list(zip(asked[::2], asked[1::2])):
                    return True
            current = current.parent_op()
        return False

    def _emit_versions(self, loop: ForOp, chosen: Sequence[Guard], guard: Guard) -> None:
        body = loop.body.block
        walk = list(loop.body.walk())
        places = [(walk.index(g.op), g.pair) for g in chosen]
        second = loop.clone()
        self.space.replace_value(second.var, self.space.var(loop.var))
        questions = [e for worst in dict.fromkeys(g.worst for g in chosen) for e in as_pair(worst)]
        args, (map_,) = self.space.pack(questions)
        version = IfOp(args, map_, Region(Block()), Region(Block()))
        _resolve(self.space, [(walk[i], p) for i, p in places], True)
        assert version.orelse is not None
        for source, target in ((body, version.body.block), (second.body.block, version.orelse.block)):
            for op in list(source.ops):
                detach(op)
                target.add_op(op)
        second.erase()
        body.add_op(version)
        found = digit_condition(self.space, loop, guard.worst)
        if guard.exact:
            self._decide_version(version.orelse.block, places)
        elif found is not None and found.only_false is not None:
            self._fix_digit(version.orelse.block, loop, found, found.only_false)
        self.budget -= 1
        self.simplifier.op(version)

    def _decide_version(self, block: Block, places: Sequence[tuple[int, int]]) -> None:
        ops = list(block.walk())
        _resolve(self.space, [(ops[i], p) for i, p in places], False)

    def _fix_digit(self, block: Block, loop: ForOp, found: DigitCondition, value: int) -> None:
        """Everything in ``block`` may use that the digit has this value: v = (high * modulus + value) * divisor
        + low."""
        digit, var = found.digit, self.space.var(loop.var)
        divisor, modulus = digit.divisor, digit.modulus
        high_value = const(0) if modulus is None else var // (divisor * modulus)
        low_value = var % divisor
        high, low = sym("high$"), sym("low$")
        self.space.ranges["low$"] = (0, divisor.const_value() - 1 if divisor.is_const() else None)
        self.space.ranges["high$"] = (0, None)
        known = (high * (modulus if modulus is not None else 1) + value) * divisor + low
        rewrite = _rewriter(self.space, digit.name, known, {"high$": high_value, "low$": low_value})
        for op in block.walk():
            rewrite(op)


def _weight(expr: SymExpr) -> int:
    return 1 + sum(_weight(a) for a in expr.args)


def _together(guards: Sequence[Guard], guard: Guard) -> list[Guard]:
    """Guards to ask for at once: equal ones, and for loads, whose default holds where any pair fails, all pairs
    of the same loads that no inner loop changes."""
    same = [g for g in guards if g.worst == guard.worst]
    ops = {g.op for g in same}
    if not guard.exact or not all(isinstance(op, LoadOp) for op in ops):
        return same
    for worst in dict.fromkeys(g.worst for g in guards):
        group = [g for g in guards if g.worst == worst]
        if worst != guard.worst and all(g.exact for g in group) and {g.op for g in group} == ops:
            same += group
    return same


def _rewriter(space: IndexSpace, name: str, known: SymExpr, back: dict[str, SymExpr]) -> Callable[[Operation], None]:
    def rewrite(op: Operation) -> None:
        changed: dict[str, tuple[SymExpr, ...]] = {}
        for prop in INDEX_ATTRS.get(type(op), ()):
            old = space.read(op, prop)
            if any(name in e.symbols() for e in old):
                changed[prop] = tuple(space.simplify(e.subs({name: known})).subs(back) for e in old)
        if changed:
            space.write(op, **changed)

    return rewrite


def _resolve(space: IndexSpace, places: Sequence[tuple[Operation, int]], holds: bool) -> None:
    """Drop pairs that hold; where a pair never holds, give its op a guard that says so plainly."""
    by_op: dict[Operation, list[int]] = {}
    for op, pair in places:
        by_op.setdefault(op, []).append(pair)
    for op, numbers in by_op.items():
        pairs = space.read(op, "where")
        kept = [e for i, e in enumerate(pairs) if i // 2 not in numbers] if holds else [const(0), const(0)]
        if kept or not isinstance(op, IfOp):
            assert isinstance(op, IfOp | LoadOp | StoreOp)
            set_where(space, op, kept)
        else:
            set_where(space, op, [const(0), const(1)])
