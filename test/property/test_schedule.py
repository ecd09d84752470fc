"""Random kernels, random schedules: every accepted schedule keeps the interpreter's result, through all
lowering passes; every refused step leaves the kernel as it was; a recorded schedule replays to the same loops,
also from its text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tilewright.core.context import make_context
from tilewright.core.pass_manager import run_pipeline
from tilewright.dialects.schedule.ops import ScheduleFuncOp
from tilewright.passes.loop.apply_schedule import apply_schedule
from tilewright.passes.loop.schedule import Schedule, ScheduleBuilder, ScheduleError
from tilewright.passes.pipelines import LOWER_LOOPS
from tilewright.testing.kernels import random_inputs, run_kernel
from tilewright.testing.strategies.schedule import STEP_KINDS, Sample, Step, apply_step, kernels, steps
from tilewright.text import parse_module, print_module

COVERS = ("apply-schedule",)
CONTEXT = make_context()
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
SEEDED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def apply_all(s: Schedule, program: list[Step]) -> int:
    """Apply what is legal; returns how many steps were accepted. Refused steps must change nothing."""
    accepted = 0
    for step in program:
        before = print_module(s.kernel)
        try:
            apply_step(s, step)
            accepted += 1
        except ScheduleError:
            assert print_module(s.kernel) == before, f"the refused step {step} changed the kernel"
    return accepted


def same(kernel: FuncOp, scheduled: FuncOp, seed: int) -> None:
    inputs = random_inputs(kernel, seed)
    expected = run_kernel(kernel, inputs, CONTEXT)
    found = run_kernel(scheduled, inputs, CONTEXT)
    for a, b in zip(expected, found):
        np.testing.assert_array_equal(b, a)


@SETTINGS
@given(kernels(), steps(), st.integers(0, 3))
def test_accepted_schedules_keep_the_result(sample: Sample, program: list[Step], seed: int) -> None:
    kernel = sample.kernel
    scheduled = kernel.clone()
    apply_all(Schedule(scheduled), program)
    scheduled.verify()
    same(kernel, scheduled, seed)


@SETTINGS
@given(kernels(), steps(), st.integers(0, 3))
def test_lowering_keeps_the_result(sample: Sample, program: list[Step], seed: int) -> None:
    kernel = sample.kernel
    scheduled = kernel.clone()
    apply_all(Schedule(scheduled), program)
    module = ModuleOp([scheduled])
    for spec in LOWER_LOOPS:
        run_pipeline(module, [spec], CONTEXT, verify_each=True)
        try:
            same(kernel, scheduled, seed)
        except AssertionError as error:
            raise AssertionError(f"after {spec}: {error}") from None


@SETTINGS
@given(kernels(), steps(12))
def test_recorded_schedules_replay(sample: Sample, program: list[Step]) -> None:
    # From its text, so that index operands stand in the order in which text names them on both sides.
    (kernel,) = parse_module(repr(sample), context=CONTEXT).body.block.ops
    assert isinstance(kernel, FuncOp)
    builder = ScheduleBuilder(kernel)
    apply_all(builder, program)
    module = ModuleOp([kernel.clone(), builder.finish()])
    module.verify()
    text = print_module(module)
    again = parse_module(text, context=CONTEXT)
    assert print_module(again) == text
    fresh, func = again.body.block.ops
    assert isinstance(func, ScheduleFuncOp) and isinstance(fresh, FuncOp)
    apply_schedule(func, fresh)
    assert print_module(fresh) == print_module(builder.kernel)


def test_random_steps_are_both_accepted_and_refused() -> None:
    """Otherwise the properties above say little."""
    accepted: set[str] = set()
    refused: set[str] = set()

    @settings(SEEDED, max_examples=200)
    @given(kernels(), steps())
    def collect(sample: Sample, program: list[Step]) -> None:
        s = Schedule(sample.kernel.clone())
        for step in program:
            try:
                apply_step(s, step)
                accepted.add(step[0])
            except ScheduleError:
                refused.add(step[0])

    collect()
    assert accepted == set(STEP_KINDS)
    assert refused >= set(STEP_KINDS) - {"annotate"}


def test_a_wrong_schedule_is_noticed() -> None:
    """Seeded fault: a split that forgets its guard."""
    from tilewright.passes.loop.primitives import split as module

    original = module.prove_le
    module.prove_le = lambda space, a, b: True

    @settings(SEEDED, max_examples=200)
    @given(kernels(1), steps())
    def check(sample: Sample, program: list[Step]) -> None:
        kernel = sample.kernel
        scheduled = kernel.clone()
        apply_all(Schedule(scheduled), program)
        same(kernel, scheduled, 0)

    try:
        with pytest.raises(BaseException):  # noqa: B017  an assertion, or an access out of bounds
            check()
    finally:
        module.prove_le = original
