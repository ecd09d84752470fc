"""The loop passes keep results with symbolic extents too; seeded faults in them are noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tilewright.core.context import make_context
from tilewright.core.pass_manager import run_pipeline
from tilewright.core.symbolic import sym
from tilewright.passes.loop import lanes, partition, simplify
from tilewright.passes.loop.schedule import Schedule, ScheduleError
from tilewright.passes.pipelines import LOWER_LOOPS
from tilewright.testing.kernels import random_inputs, run_kernel
from tilewright.testing.strategies.loop import matmul_kernel
from tilewright.testing.strategies.schedule import Sample, Step, apply_step, kernels, steps
from tilewright.text import print_module

CONTEXT = make_context()
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
SEEDED = settings(SETTINGS, max_examples=300, derandomize=True, database=None, phases=[Phase.generate, Phase.explicit])


def scheduled(kernel: FuncOp, program: list[Step]) -> FuncOp:
    result = kernel.clone()
    s = Schedule(result)
    for step in program:
        try:
            apply_step(s, step)
        except ScheduleError:
            continue
    return result


def check(kernel: FuncOp, program: list[Step], symbols: dict[str, int], passes: tuple[str, ...] = LOWER_LOOPS) -> None:
    lowered = scheduled(kernel, program)
    run_pipeline(ModuleOp([lowered]), passes, CONTEXT)
    inputs = random_inputs(kernel, 0, symbols)
    expected = run_kernel(kernel, inputs, CONTEXT, symbols)
    for a, b in zip(run_kernel(lowered, inputs, CONTEXT, symbols), expected):
        np.testing.assert_array_equal(a, b)


@SETTINGS
@given(steps(), st.integers(1, 9), st.integers(1, 5))
def test_symbolic_extents(program: list[Step], n: int, m: int) -> None:
    kernel = matmul_kernel(sym("n"), 6, sym("m"), ["m", "n"])
    check(kernel, program, {"n": n, "m": m})


@SETTINGS
@given(kernels(2), steps())
def test_simplify_is_idempotent(sample: Sample, program: list[Step]) -> None:
    module = ModuleOp([scheduled(sample.kernel, program)])
    run_pipeline(module, ["loop-lower-blocks", "loop-simplify"], CONTEXT)
    once = print_module(module)
    run_pipeline(module, ["loop-simplify"], CONTEXT)
    assert print_module(module) == once


def _extent_lost(original: Callable[..., Any]) -> Callable[..., Any]:
    def faulty(self: Any, loop: Any, start: Any, size: Any) -> Any:
        return original(self, loop, start, size - 1 if size.is_const() and size.const_value() > 1 else size)

    return faulty


FAULTS: list[tuple[str, object, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = [
    ("loop-partition", partition.Partitioner, "_part", _extent_lost),
    ("loop-simplify", simplify.Simplifier, "holds", lambda original: lambda self, lhs, rhs: True),
    ("loop-vectorize", lanes.LaneEmitter, "_is_consecutive", lambda original: lambda self, exprs: True),
]


@pytest.mark.parametrize(("name", "owner", "attribute", "fault"), FAULTS, ids=[f[0] for f in FAULTS])
def test_seeded_faults_are_noticed(
    name: str,
    owner: object,
    attribute: str,
    fault: Callable[[Callable[..., Any]], Callable[..., Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @SEEDED
    @given(kernels(2), steps())
    def run(sample: Sample, program: list[Step]) -> None:
        check(sample.kernel, program, {})

    monkeypatch.setattr(owner, attribute, fault(getattr(owner, attribute)))
    with pytest.raises(BaseException):  # noqa: B017  a wrong result, or an access out of bounds
        run()
