"""``check_pass``: run a program before and after a pass in the reference interpreter, and compare.

    result = check_pass("graph-canonicalize", module, [x], context=context)
    assert result.changed

The backbone of the property tests: a pass must verify, print, parse back and compute the same. Integers and booleans
are compared exactly; floats within a tolerance per type that covers a different order of summation and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from ..core.context import TilewrightContext, make_context
from ..core.pass_manager import run_pipeline
from ..core.pipeline import PipelineItem
from ..core.verifier import verify
from .roundtrip import roundtrip

Array = npt.NDArray[Any]
Call = Callable[[ModuleOp, TilewrightContext, list[Array]], Sequence[Any]]

TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-10, 1e-12),
    "float32": (1e-4, 1e-5),
    "float16": (2e-2, 1e-3),
    "bfloat16": (5e-2, 1e-2),
}
"""(relative, absolute) by element type: sums of a few thousand terms in another order."""


@dataclass(frozen=True)
class CheckedPass:
    """What ``check_pass`` found: the transformed module, both results, and whether the text changed."""

    module: ModuleOp
    before: tuple[Array, ...]
    after: tuple[Array, ...]
    changed: bool


def check_pass(
    passes: str | Iterable[str | PipelineItem],
    module: ModuleOp,
    inputs: Sequence[Any],
    *,
    context: TilewrightContext | None = None,
    entry: str = "main",
    exact: bool = False,
    call: Call | None = None,
    call_after: Call | None = None,
) -> CheckedPass:
    """Apply ``passes`` to a copy of ``module`` and compare the results of ``entry``; ``AssertionError`` if they differ.

    Compared are the results and, for functions that write into their arguments, the arguments afterwards. ``call``
    replaces the interpreter's call of ``entry``; ``call_after`` only the second one, for passes that change the
    signature.
    """
    context = make_context() if context is None else context
    call = interpret(entry) if call is None else call
    arrays = [np.asarray(x) for x in inputs]
    transformed = module.clone()
    expected = _run(call, module, context, arrays)
    run_pipeline(transformed, passes, context, verify_each=True)
    verify(transformed)
    text = roundtrip(_text(transformed), context)
    found = _run(call if call_after is None else call_after, transformed, context, arrays)
    assert len(found) == len(expected), f"{len(found)} results after {passes}, {len(expected)} before"
    for index, (left, right) in enumerate(zip(found, expected)):
        assert_close(left, right, f"result {index} after {passes}", exact)
    return CheckedPass(transformed, expected, found, text != _text(module))


def interpret(entry: str) -> Call:
    """A call of ``entry`` in the reference interpreter that returns the results and then the (changed) arguments."""

    def call(module: ModuleOp, context: TilewrightContext, inputs: list[Array]) -> Sequence[Any]:
        from ..interp import Interpreter

        results = Interpreter(module, context).call(entry, list(inputs))
        return [*results, *inputs]

    return call


def assert_close(found: Any, expected: Any, what: str = "value", exact: bool = False) -> None:
    """Equal shape, type and values: exactly for integers, within ``TOLERANCES`` for floats; NaN equals NaN."""
    left, right = np.asarray(found), np.asarray(expected)
    assert left.shape == right.shape, f"{what}: shape {left.shape}, expected {right.shape}"
    assert left.dtype == right.dtype, f"{what}: type {left.dtype}, expected {right.dtype}"
    tolerance = None if exact else TOLERANCES.get(right.dtype.name)
    if tolerance is None:
        np.testing.assert_array_equal(left, right, err_msg=what)
    else:
        relative, absolute = tolerance
        wide = (left.astype(np.float64), right.astype(np.float64))
        np.testing.assert_allclose(*wide, rtol=relative, atol=absolute, equal_nan=True, err_msg=what)


def _run(call: Call, module: ModuleOp, context: TilewrightContext, inputs: list[Array]) -> tuple[Array, ...]:
    """Each run gets its own copies, since functions on memrefs write into their arguments."""
    with np.errstate(all="ignore"):
        return tuple(np.asarray(r) for r in call(module, context, [x.copy() for x in inputs]))


def _text(module: ModuleOp) -> str:
    from ..text import print_module

    return print_module(module)
