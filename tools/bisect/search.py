"""The search: run the passes one by one, and the program after each; stop where the result departs.

A pass also departs by failing, by leaving invalid IR, and by leaving a program that cannot be run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ...core.context import TilewrightContext
from ...core.diagnostics import DiagnosticError
from ...core.pass_manager import InternalPassError, PassManager
from ...core.pipeline import PipelineItem, build_pipeline
from ...core.verifier import verify
from ...text import print_module
from .program import Array, Inputs, entry_function, failure, output_names
from .runs import Difference, Run, arguments_after, difference, execute
from .trace import Departure, first_departure

VALUES, FAILS, INVALID, STUCK, INPUT, CODE = "values", "fails", "invalid", "cannot run", "input", "code"
"""How a result departs: other values, a failing pass, invalid IR, IR that does not run; before any pass; in code."""


@dataclass(frozen=True)
class Finding:
    """The first departure from the reference."""

    kind: str
    pass_spec: str
    """The text of the pass; for ``input`` and ``code`` what happens there."""
    index: int
    """Its place in the pipeline, from 0."""
    message: str
    before: ModuleOp
    """The program before the pass."""
    ratio: float = 0.0
    """For values: how far beyond the tolerance."""
    departure: Departure | None = None
    """The first operation whose value departs, where places before and after correspond."""

    @property
    def pass_name(self) -> str:
        """The name without options."""
        return self.pass_spec.partition("{")[0]


@dataclass(frozen=True)
class Step:
    """What one pass did to one program: its run before, and after it a run or a way to fail."""

    kind: str | None
    message: str = ""
    after: Run | None = None
    ratio: float = 0.0


Report = Callable[[int, int, str], None]
"""Told which pass (number, count, text) is next."""


def bisect(
    module: ModuleOp,
    context: TilewrightContext,
    passes: str | Iterable[str | PipelineItem],
    inputs: Inputs | None = None,
    *,
    entry: str | None = None,
    expected: Sequence[Array] | None = None,
    report: Report | None = None,
    keep: list[ModuleOp] | None = None,
) -> Finding | None:
    """The first pass after which ``entry`` computes something else than ``expected``; None if none does.

    ``expected`` is by default what ``module`` itself gives in the interpreter. ``keep`` receives the module after all
    passes. ``module`` is not changed.
    """
    inputs = Inputs() if inputs is None else inputs
    pipeline = build_pipeline(passes, context.registry)
    current = module.clone()
    function = entry_function(current, entry)
    inputs.check(function)
    entry, names = function.sym_name.data, output_names(function)
    args = inputs.make(function)
    run = first_run(current, context, entry, args)
    reference = run.outputs if expected is None else list(expected)
    wrong = difference(run.outputs, reference, names)
    if wrong is not None:
        return Finding(INPUT, "the program as given", -1, str(wrong), current, wrong.ratio)
    text = print_module(current)
    for index, item in enumerate(pipeline):
        if report is not None:
            report(index, len(pipeline), item.spec())
        before = current.clone()
        step = run_step(current, context, item, entry, args, inputs, Run(reference, run.trace), names, text)
        if step.kind is not None:
            departure = None if step.after is None else first_departure(run, step.after)
            return Finding(step.kind, item.spec(), index, step.message, before, step.ratio, departure)
        if step.after is not None:
            run, text = step.after, print_module(current)
    if keep is not None:
        keep.append(current)
    return None


def first_run(module: ModuleOp, context: TilewrightContext, entry: str, args: Sequence[Any]) -> Run:
    """The run that others are compared with: what goes wrong here is an error of the user's."""
    try:
        return execute(module, context, entry, args)
    except DiagnosticError:
        raise
    except Exception as problem:
        raise failure(f"the interpreter cannot run '{entry}' on these inputs: {describe(problem)}") from None


def run_step(
    module: ModuleOp,
    context: TilewrightContext,
    item: PipelineItem,
    entry: str,
    args: Sequence[Any],
    inputs: Inputs,
    reference: Run,
    names: Sequence[str] = (),
    text: str | None = None,
) -> Step:
    """Apply one pass to ``module`` and run it; with the ``text`` from before, not if the pass changed nothing."""
    try:
        PassManager(context, [item], verify_each=False).run(module)
    except (DiagnosticError, InternalPassError) as problem:
        return Step(FAILS, describe(problem))
    try:
        verify(module)
    except Exception as problem:
        return Step(INVALID, describe(problem))
    if text is not None and print_module(module) == text:
        return Step(None)
    try:
        after = execute(module, context, entry, arguments_after(entry_function(module, entry), args, inputs))
    except Exception as problem:
        return Step(STUCK, describe(problem))
    wrong: Difference | None = difference(after.outputs, reference.outputs, names)
    if wrong is None:
        return Step(None, "", after)
    return Step(VALUES, str(wrong), after, wrong.ratio)


def describe(problem: BaseException) -> str:
    """One line about an exception."""
    text = str(problem).strip().partition("\n")[0]
    if isinstance(problem, DiagnosticError | InternalPassError):
        return text
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def gist(message: str) -> str:
    """A message without what names places and numbers."""
    words = message.partition("error: ")[2] or message
    return " ".join(w for w in words.split() if w.isalpha())[:60]
