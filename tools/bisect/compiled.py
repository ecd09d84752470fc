"""The last step: code generation, checked by running the compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from ...core.context import TilewrightContext
from ...core.diagnostics import DiagnosticError
from ...runtime import Model
from ...runtime.errors import TilewrightError
from ..compilation import STAGE_ATTRIBUTE
from ..driver import compile
from .program import Array, Inputs, entry_function, output_names
from .runs import difference, execute
from .search import CODE, Finding, describe


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
    except (DiagnosticError, TilewrightError) as problem:
        return Finding(CODE, spec, index, describe(problem), module)
    wrong = difference(found, expected, names)
    return None if wrong is None else Finding(CODE, spec, index, str(wrong), module, wrong.ratio)


def code_departs(
    context: TilewrightContext, machine: Machine, inputs: Inputs, entry: str, stage: str | None
) -> Callable[[ModuleOp], bool]:
    """Whether a program, compiled from ``stage`` on, computes something else than in the interpreter."""

    def test(module: ModuleOp) -> bool:
        args = inputs.make(entry_function(module, entry))
        expected = execute(module, context, entry, args).outputs
        try:
            found = run_compiled(module, context, machine, entry, args, stage)
        except (DiagnosticError, TilewrightError):
            return False
        return difference(found, expected) is not None

    return test
