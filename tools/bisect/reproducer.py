"""A small program for a finding: the input of the failing pass, reduced while the pass still does the same wrong.

Not every program that shows a difference shows a bug: a candidate counts only if it runs before the pass, the values
are what their types claim and finite (so that nothing is read which nobody wrote), and loops that claim independent
iterations have them as far as one can see.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ...core.context import TilewrightContext
from ...core.diagnostics import DiagnosticError
from ...core.pipeline import PipelineItem, build_pipeline
from ...core.symbolic import SymExpr
from ...dialects.loop.ops import BlockOp, ForOp, IndexOp, LoadOp, StoreOp
from ..reduce.measure import op_count
from ..reduce.reducer import Interesting, Progress, Reducer
from .program import Inputs, entry_function
from .runs import Run, execute
from .search import INVALID, VALUES, Finding, Step, gist, run_step

CLEAR = 100.0
"""A departure this far beyond the tolerance is no rounding; reduction keeps such ones as clear."""


@dataclass(frozen=True)
class Reproducer:
    """The reduced program, and whether it needs the given inputs (random ones show it otherwise)."""

    module: ModuleOp
    pass_spec: str
    needs_inputs: bool
    tests: int

    @property
    def ops(self) -> int:
        """The number of operations, the module not counted."""
        return op_count(self.module)


def reproduce(
    finding: Finding,
    context: TilewrightContext,
    inputs: Inputs | None = None,
    *,
    entry: str | None = None,
    report: Callable[[Progress], None] | None = None,
    max_tests: int | None = None,
    max_seconds: float | None = None,
) -> Reproducer:
    """Reduce the program before the failing pass. An interrupt ends the reduction, not the result."""
    inputs = Inputs() if inputs is None else inputs
    entry = entry_function(finding.before, entry).sym_name.data
    (item,) = build_pipeline(finding.pass_spec, context.registry)
    without = Inputs({}, inputs.seed, inputs.dims)
    needs_inputs = bool(inputs.given) and not shows(finding, item, context, without, entry)(finding.before.clone())
    chosen = inputs if needs_inputs else without
    reducer = Reducer(
        finding.before,
        shows(finding, item, context, chosen, entry),
        context,
        report=report,
        max_tests=max_tests,
        max_seconds=max_seconds,
    )
    return _finish(reducer, finding, needs_inputs)


def reproduce_code(
    module: ModuleOp,
    finding: Finding,
    context: TilewrightContext,
    test: Interesting,
    inputs: Inputs,
    *,
    entry: str | None = None,
    report: Callable[[Progress], None] | None = None,
    max_seconds: float | None = None,
) -> Reproducer:
    """Reduce a whole program (``module``, before all passes) whose compiled code departs, as ``test`` says.

    Not the program after the passes: code made from host programs and loops that reduction has damaged could do
    anything to this process.
    """
    name = entry_function(module, entry).sym_name.data

    def sound(candidate: ModuleOp) -> bool:
        return sound_run(candidate, context, inputs, name) is not None and test(candidate)

    reducer = Reducer(module, sound, context, report=report, max_seconds=max_seconds)
    return _finish(reducer, finding, bool(inputs.given))


def _finish(reducer: Reducer, finding: Finding, needs_inputs: bool) -> Reproducer:
    """Run until done, interrupted, or refused because the program as it is cannot be told from an unsound one."""
    with contextlib.suppress(KeyboardInterrupt, DiagnosticError):
        reducer.run()
    return Reproducer(reducer.best, finding.pass_spec, needs_inputs, reducer.tests)


def shows(
    finding: Finding, item: PipelineItem, context: TilewrightContext, inputs: Inputs, entry: str
) -> Interesting:
    """Whether the pass does to a module what it did in the finding."""

    def test(module: ModuleOp) -> bool:
        before = sound_run(module, context, inputs, entry)
        if before is None:
            return False
        args = inputs.make(entry_function(module, entry))
        step = run_step(module, context, item, entry, args, inputs, before)
        return same_failure(finding, step)

    return test


def same_failure(finding: Finding, step: Step) -> bool:
    """The same kind of departure, as clear as the first one; for errors, of the same beginning."""
    if step.kind != finding.kind:
        return False
    if step.kind == VALUES:
        return step.ratio > (CLEAR if finding.ratio > CLEAR else 1.0)
    if step.kind == INVALID:
        return True
    return gist(step.message) == gist(finding.message)


def sound_run(module: ModuleOp, context: TilewrightContext, inputs: Inputs, entry: str) -> Run | None:
    """A run of a program that means something; None if it does not."""
    try:
        args = inputs.make(entry_function(module, entry))
        first = execute(module, context, entry, args)
    except Exception:
        return None
    if not _has_independent_iterations(module) or _writes_inputs(module):
        return None
    finite = all(np.isfinite(a).all() for a in first.outputs if a.dtype.kind == "f")
    return first if finite else None


def _has_independent_iterations(module: Operation) -> bool:
    """Whether parallel and vectorized loops touch what they write only at indices that depend on their variable."""
    return all(
        _is_independent(op)
        for op in module.walk()
        if isinstance(op, ForOp) and op.kind.data in ("parallel", "vectorized")
    )


def _is_independent(loop: ForOp) -> bool:
    dependent: set[SSAValue] = {loop.var}
    inside: set[SSAValue] = set()
    accesses: list[LoadOp | StoreOp] = []
    for op in loop.walk():
        inside.update(op.results)
        if isinstance(op, LoadOp | StoreOp):
            accesses.append(op)
        if isinstance(op, BlockOp):
            _bind(op, dependent)
        elif isinstance(op, IndexOp) and _any(op.args, dependent):
            dependent.add(op.result)
    shared = {a.memref for a in accesses if isinstance(a, StoreOp) and a.memref not in inside}
    return all(_any(_used(a), dependent) for a in accesses if a.memref in shared)


def _used(access: LoadOp | StoreOp) -> list[SSAValue]:
    """What the index of an access, without its guard, depends on."""
    return _inputs_of(access.map.results, access.args)


def _inputs_of(exprs: Sequence[SymExpr], args: Sequence[SSAValue]) -> list[SSAValue]:
    names = sorted({name for expr in exprs for name in expr.symbols() if name[0] == "d" and name[1:].isdigit()})
    return [args[int(name[1:])] for name in names]


def _writes_inputs(module: ModuleOp) -> bool:
    """Whether a called kernel stores to one of its inputs."""
    kernels = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    for call in module.walk():
        callee = call.properties.get("callee", call.properties.get("kernel"))
        if call.name not in ("graph.call", "vm.call") or not isinstance(callee, SymbolRefAttr):
            continue
        kernel = kernels.get(callee.root_reference.data)
        if kernel is None:
            continue
        number = kernel.attributes.get("num_inputs")
        count = number.value.data if isinstance(number, IntegerAttr) else len(call.operands)
        inputs = set(kernel.body.block.args[:count])
        if any(isinstance(op, StoreOp) and op.memref in inputs for op in kernel.walk()):
            return True
    return False


def _bind(block: BlockOp, dependent: set[SSAValue]) -> None:
    """Iterators of a block that depend on the variable."""
    for index, binding in enumerate(block.bindings.results):
        if _any(_inputs_of([binding], block.args), dependent):
            dependent.update(region.block.args[index] for region in block.regions)


def _any(values: Sequence[Any], among: set[SSAValue]) -> bool:
    return any(v in among for v in values)


