"""Greedy pattern rewriting that keeps locations and always ends.

A thin driver over xDSL's patterns. What it adds: ops that a pattern creates take the location (and so the source
model's node name) of the op they replace; patterns that undo each other are a diagnostic instead of an endless loop;
a failing pattern does not print the whole module. Conversions between levels use ``conversion`` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import ErasedSSAValue, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriterListener, RewritePattern
from xdsl.rewriter import InsertPoint

from .diagnostics import emit_error

MAX_ITERATIONS = 10
_REWRITES_PER_OP = 64


class LocatedRewriter(PatternRewriter):
    """xDSL's rewriter; inserted ops without a location take that of the matched op."""

    def __init__(self, op: Operation, listener: PatternRewriterListener | None = None) -> None:
        super().__init__(op)
        self.matched = op
        self.operation_insertion_handler.append(self._give_location)
        if listener is not None:
            self.extend_from_listener(listener)

    def start(self, op: Operation) -> None:
        """Move on to another matched op."""
        self.matched = op
        self._current_operation = op
        self.has_done_action = False
        self.insertion_point = InsertPoint.before(op)
        self.name_hint = None

    def _give_location(self, op: Operation) -> None:
        give_location(op, self.matched)


def give_location(op: Operation, source: Operation) -> None:
    """Ops in and including ``op`` that have no location take that of ``source``."""
    if isinstance(source.location, UnknownLoc):
        return
    for inner in op.walk() if op.regions else (op,):
        if isinstance(inner.location, UnknownLoc):
            inner.location = source.location


def apply_patterns(
    op: Operation,
    patterns: Sequence[RewritePattern],
    *,
    max_iterations: int = MAX_ITERATIONS,
    erase_dead: bool = True,
    recursive: bool = True,
) -> bool:
    """Apply ``patterns`` to all ops inside ``op`` until none applies; returns whether anything changed.

    The first pattern that acts on an op wins. ``erase_dead`` also erases pure ops without uses. ``recursive=False``
    visits each present op once and not the new ones. No fixed point after ``max_iterations`` walks, or after far more
    rewrites than there are ops, is a diagnostic that names the last pattern.
    """
    driver = _GreedyDriver(op, patterns, erase_dead, recursive)
    changed = False
    for _ in range(max_iterations):
        if not driver.walk():
            return changed
        changed = True
        if not recursive:
            return True
    driver.report_endless()
    return changed


class _GreedyDriver:
    def __init__(self, op: Operation, patterns: Sequence[RewritePattern], erase_dead: bool, recursive: bool) -> None:
        self.op = op
        self.patterns = tuple(patterns)
        self.erase_dead = erase_dead
        self.recursive = recursive
        # Insertion-ordered and with O(1) removal: the last entry is processed first.
        self.worklist: dict[Operation, None] = {}
        self.last: RewritePattern | None = None

    def walk(self) -> bool:
        """Visit everything once, and what changes on the way again; returns whether anything changed."""
        for region in reversed(self.op.regions):
            for op in region.walk(reverse=True, region_first=True):
                self.worklist[op] = None
        budget = max(1000, _REWRITES_PER_OP * len(self.worklist))
        listener = PatternRewriterListener(
            operation_insertion_handler=[self._push_tree],
            operation_removal_handler=[self._removed],
            operation_modification_handler=[self._push],
            operation_replacement_handler=[self._replaced],
        )
        rewriter: LocatedRewriter | None = None
        changed = False
        while self.worklist:
            op, _ = self.worklist.popitem()
            if rewriter is None:
                rewriter = LocatedRewriter(op, listener)
            rewriter.start(op)
            if self._visit(op, rewriter):
                changed = True
                budget -= 1
                if budget < 0:
                    self.report_endless()
        return changed

    def _visit(self, op: Operation, rewriter: LocatedRewriter) -> bool:
        if self.erase_dead and op.results and _is_dead(op):
            rewriter.erase(op)
            return True
        for pattern in self.patterns:
            try:
                pattern.match_and_rewrite(op, rewriter)
            except Exception as problem:
                problem.add_note(f"while {type(pattern).__name__} was applied to '{op.name}'")
                raise
            if rewriter.has_done_action:
                self.last = pattern
                return True
        return False

    def report_endless(self) -> None:
        name = type(self.last).__name__
        emit_error(self.op, f"rewriting does not reach a fixed point, the last pattern was {name}")

    def _push(self, op: Operation) -> None:
        if self.recursive:
            self.worklist[op] = None

    def _push_tree(self, op: Operation) -> None:
        if self.recursive:
            for inner in op.walk(reverse=True, region_first=True) if op.regions else (op,):
                self.worklist[inner] = None

    def _removed(self, op: Operation) -> None:
        removed = tuple(op.walk()) if op.regions else (op,)
        if self.recursive:
            for inner in removed:
                self._push_definitions(inner.operands)
        # After that: definitions inside the removed op are gone as well.
        for inner in removed:
            self.worklist.pop(inner, None)

    def _push_definitions(self, operands: Iterable[SSAValue]) -> None:
        for operand in operands:
            owner = operand.owner
            if isinstance(owner, Operation) and not isinstance(operand, ErasedSSAValue):
                self.worklist[owner] = None

    def _replaced(self, op: Operation, new_results: Sequence[SSAValue | None]) -> None:
        for result in op.results:
            for use in result.uses:
                self._push(use.operation)


def _is_dead(op: Operation) -> bool:
    from xdsl.transforms.dead_code_elimination import is_trivially_dead

    dead: bool = is_trivially_dead(op)
    return dead
