"""The last step: code generation, checked by running the compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from ...core.context import TilewrightContext
from ...runtime import Model
from ..compilation import STAGE_ATTRIBUTE
from ..driver import compile
from .program import Array, Inputs, entry_function, output_names
from .runs import difference, execute
from .search import CODE, Finding, describe, gist


@dataclass(frozen=True)
class Machine:
    """What to make code for, as the command line says it."""

    target: str
    mcpu: str | None = None
    mattr: str | None = None


def run_compiled(
    module: ModuleOp, context: TilewrightContext, machine: Machine, entry: str, args: Sequence[Any], stage: str | None
) -> list[Array]:
    """Compile a copy of ``module`` from ``stage`` on, and call ``entry``."""
    copy = module.clone()
    if stage is not None:
        copy.attributes[STAGE_ATTRIBUTE] = StringAttr(stage)
    model = cast(Model, compile((copy, context), target=machine.target, mcpu=machine.mcpu, mattr=machine.mattr))
    results = model.entries[entry](*args)
    return [np.asarray(r) for r in (results if isinstance(results, tuple) else (results,))]


def check_code(
    module: ModuleOp,
    context: TilewrightContext,
    machine: Machine,
    entry: str,
    args: Sequence[Any],
    expected: Sequence[Array],
    index: int,
    stage: str,
) -> Finding | None:
    """Whether the code of a fully lowered ``module`` computes what is expected."""
    names = output_names(entry_function(module, entry))
    spec = f"code generation for {machine.target}"
    try:
        found = run_compiled(module, context, machine, entry, args, stage)
    except Exception as problem:
        return Finding(CODE, spec, index, f"fails: {describe(problem)}", module)
    wrong = difference(found, expected, names)
    return None if wrong is None else Finding(CODE, spec, index, str(wrong), module, wrong.ratio)


def code_departs(
    finding: Finding, context: TilewrightContext, machine: Machine, inputs: Inputs, entry: str, stage: str | None
) -> Callable[[ModuleOp], bool]:
    """Whether a program, compiled from ``stage`` on, fails as in the finding, or computes something else than in the
    interpreter if that was found.
    """
    failed = not finding.ratio

    def test(module: ModuleOp) -> bool:
        args = inputs.make(entry_function(module, entry))
        expected = execute(module, context, entry, args).outputs
        try:
            found = run_compiled(module, context, machine, entry, args, stage)
        except Exception as problem:
            return failed and gist(f"fails: {describe(problem)}") == gist(finding.message)
        return not failed and difference(found, expected) is not None

    return test
