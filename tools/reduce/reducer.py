"""The search: strategies propose edits, candidates that are valid, smaller and interesting become the best so far.

Each strategy lists targets (places in the best module) and edits a copy at a set of them. Sets are tried as in delta
debugging: all at once, then halves, quarters, ... single ones. Rounds over all strategies go on until a whole round
changes nothing. There is no randomness: equal modules and tests give equal results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...core.context import TilewrightContext, make_context
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity
from ...core.verifier import verify
from ...text import parse_module, print_module
from .measure import Measure, measure, op_count, symbols_used

Interesting = Callable[[ModuleOp], bool]
"""Says whether a module still shows what is looked for; it may change the module, which is a copy."""


@dataclass
class Candidate:
    """A copy of the best module under edit. Targets address operations by their place in ``ops`` (walk order)."""

    module: ModuleOp
    context: TilewrightContext
    ops: list[Operation] = field(init=False)

    def __post_init__(self) -> None:
        self.ops = list(self.module.walk())


class Strategy:
    """A kind of edit."""

    name = ""

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        """The places that can be edited, those whose edit helps the others first."""
        raise NotImplementedError

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        """Edit at the chosen targets where possible; whether anything changed."""
        raise NotImplementedError

    def run(self, reducer: Reducer) -> None:
        """Try sets of targets; the default is delta debugging."""
        targets = list(self.targets(reducer.best, reducer.context))
        size = len(targets)
        while size >= 1:
            start = 0
            while start < len(targets):
                if reducer.attempt(self, targets[start : start + size]):
                    # What was refused before this place stays refused; the rest is new.
                    targets = list(self.targets(reducer.best, reducer.context))
                    size = min(size, max(len(targets), 1))
                else:
                    start += size
            size //= 2


@dataclass
class Progress:
    """What a reduction has done so far, for whoever shows it."""

    strategy: str
    tests: int
    ops: int
    original_ops: int
    accepted: bool


class Reducer:
    """One reduction; ``best`` is valid at any time, also after an interrupt."""

    def __init__(
        self,
        module: ModuleOp,
        is_interesting: Interesting,
        context: TilewrightContext | None = None,
        *,
        strategies: Sequence[Strategy] | None = None,
        report: Callable[[Progress], None] | None = None,
        max_tests: int | None = None,
        max_seconds: float | None = None,
    ) -> None:
        if strategies is None:
            from .strategies import default_strategies

            strategies = default_strategies()
        self.best = module.clone()
        self.context = make_context() if context is None else context
        self.tests = 0
        self._interesting = is_interesting
        self._strategies = strategies
        self._report = report
        self._max_tests = max_tests
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self._measure: Measure = measure(self.best)
        self._original = op_count(self.best)
        self._known_dangling = _dangling(self.best)
        self._seen: set[str] = set()

    def run(self) -> ModuleOp:
        """Reduce as far as the strategies go; ``DiagnosticError`` if the module is not interesting to begin with."""
        verify(self.best)
        if not self._test(self.best):
            message = "the input is not interesting: the test does not hold for it"
            raise DiagnosticError(Diagnostic(Severity.ERROR, message))
        while not self.finished:
            before = self._measure
            for strategy in self._strategies:
                self._run(strategy)
            if self._measure == before:
                break
        return self.best

    def _run(self, strategy: Strategy) -> None:
        """One strategy; what it leaves must read back from its text, or is as if it had not been.

        Checked once per strategy, not per step: parsing costs more than most tests.
        """
        confirmed = self.best, self._measure
        try:
            strategy.run(self)
        finally:
            if self.best is not confirmed[0] and not self._reads_back(self.best):
                self.best, self._measure = confirmed

    @property
    def finished(self) -> bool:
        """Whether the limit of tests or of time is reached."""
        if self._max_tests is not None and self.tests >= self._max_tests:
            return True
        return self._deadline is not None and time.monotonic() > self._deadline

    def attempt(self, strategy: Strategy, chosen: Sequence[Any]) -> bool:
        """Edit a copy of the best module, and keep it if it is valid, smaller and interesting."""
        if self.finished or not chosen:
            return False
        candidate = self.best.clone()
        if not _edit(strategy, Candidate(candidate, self.context), chosen):
            return False
        found = measure(candidate)
        if found >= self._measure or not self._is_new_and_valid(candidate):
            return False
        accepted = self._test(candidate)
        if accepted:
            self.best, self._measure = candidate, found
        if self._report is not None:
            self._report(Progress(strategy.name, self.tests, op_count(self.best), self._original, accepted))
        return accepted

    def _is_new_and_valid(self, candidate: ModuleOp) -> bool:
        if _dangling(candidate) - self._known_dangling or not _is_valid(candidate):
            return False
        try:
            text = print_module(candidate)
        except Exception:
            return False  # a printer, too, may assume what no verifier asks for
        if text in self._seen:
            return False
        self._seen.add(text)
        return True

    def _test(self, module: ModuleOp) -> bool:
        self.tests += 1
        try:
            return bool(self._interesting(module.clone()))
        except DiagnosticError:
            return False

    def _reads_back(self, module: ModuleOp) -> bool:
        """Whether the text of the module is one that the parser and the verifier take."""
        try:
            verify(parse_module(print_module(module), filename="<candidate>", context=self.context))
        except DiagnosticError:
            return False
        return True


def reduce(
    module: ModuleOp,
    is_interesting: Interesting,
    context: TilewrightContext | None = None,
    *,
    report: Callable[[Progress], None] | None = None,
    max_tests: int | None = None,
    max_seconds: float | None = None,
) -> ModuleOp:
    """The smallest module found for which ``is_interesting`` holds; ``module`` itself is not changed.

    A ``DiagnosticError`` from ``is_interesting`` means no. Every candidate it sees is verified, and the result also
    parses from its text.
    """
    limits = {"max_tests": max_tests, "max_seconds": max_seconds}
    return Reducer(module, is_interesting, context, report=report, **limits).run()  # type: ignore[arg-type]


def _edit(strategy: Strategy, candidate: Candidate, chosen: Sequence[Any]) -> bool:
    """An edit may run into anything: what an operation accepts is known only to its definition."""
    try:
        return strategy.apply(candidate, chosen)
    except Exception:
        return False


def _is_valid(candidate: ModuleOp) -> bool:
    try:
        verify(candidate)
    except DiagnosticError:
        return False
    except Exception:
        # A verifier may assume what an edit has broken before it gets there; for a candidate that is a no.
        return False
    return True


def _dangling(module: ModuleOp) -> set[str]:
    defined = {
        name.data
        for op in module.walk()
        if (name := op.properties.get("sym_name", op.attributes.get("sym_name"))) is not None and hasattr(name, "data")
    }
    return symbols_used(module) - defined
