"""The default schedules of the LLVM target keep the meaning of random kernels, for machines of several vector widths.

Random networks are lowered to plain loops and interpreted; then ``attach-schedules``, ``apply-schedule`` and all loop
passes run, and the interpreter must say the same. A rule with a planted fault is caught.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp

from tilewright.core.pass_manager import PassManager
from tilewright.core.target import TargetInfo, host_target
from tilewright.dialects.loop.ops import ForOp
from tilewright.dialects.schedule.ops import ScheduleFuncOp
from tilewright.passes.loop.schedule import Schedule
from tilewright.passes.pipelines import LOWER_LOOPS
from tilewright.targets.llvm.schedules import schedule_kernel
from tilewright.testing.check_pass import assert_close
from tilewright.testing.strategies.graph import GraphProgram, graph_programs, smooth_graph_programs

COVERS = ("attach-schedules",)
SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
SEEDED = settings(SETTINGS, max_examples=40, derandomize=True, database=None, phases=[Phase.generate])


def machines() -> list[TargetInfo]:
    wide = host_target()
    sizes = [(512, 32, 2), (256, 16, 8), (128, 16, 1), (64, 8, 2)]
    return [replace(wide, vector_bits=bits, vector_registers=count, cores=cores) for bits, count, cores in sizes]


def lower(program: GraphProgram, info: TargetInfo) -> int:
    """Lower to scheduled loops; gives how many kernels a schedule changed."""
    to_loops = ["graph-cleanup", "graph-fold-scale", "graph-choose-layout{block=4}", "graph-fuse", "cse", "dce"]
    to_loops += ["convert-graph-to-te", "te-inline", "outline-kernels", "convert-te-to-loop"]
    PassManager(program.context, to_loops).run(program.module)
    kernels = [op for op in program.module.ops if isinstance(op, FuncOp) and "tw.kernel" in op.attributes]
    schedules: list[ScheduleFuncOp] = [schedule_kernel(kernel, info) for kernel in kernels]
    for schedule in schedules:
        program.module.body.block.add_op(schedule)
    PassManager(program.context, ["apply-schedule"]).run(program.module)
    return sum(bool(list(s.body.block.ops)) for s in schedules)


def check(program: GraphProgram, info: TargetInfo) -> None:
    before = program.run()
    lower(program, info)
    PassManager(program.context, [p for p in LOWER_LOOPS if p != "apply-schedule"]).run(program.module)
    for found, expected in zip(program.run(), before, strict=True):
        assert_close(found, expected)


@given(graph_programs(max_steps=6), st.sampled_from(machines()))
@SETTINGS
def test_random_programs(program: GraphProgram, info: TargetInfo) -> None:
    check(program, info)


@given(graph_programs(max_steps=5, mixed=False, images=True), st.sampled_from(machines()))
@SETTINGS
def test_random_networks(program: GraphProgram, info: TargetInfo) -> None:
    check(program, info)


def test_a_planted_fault_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A split that forgets the last iteration of its outer loop is noticed."""
    right = Schedule.split

    def wrong(self: Schedule, loop: ForOp, factors: list[int | None]) -> list[ForOp]:
        loops = right(self, loop, factors)
        extent = self.constant_extent(loops[0])
        if extent is not None and extent > 1:
            self.space.write(loops[0], extent=[self.space.extent(loops[0]) - 1])
        return loops

    monkeypatch.setattr(Schedule, "split", wrong)

    @given(smooth_graph_programs())
    @SEEDED
    def run(program: GraphProgram) -> None:
        with np.errstate(all="ignore"):
            check(program, machines()[-1])

    with pytest.raises(AssertionError):
        run()


def test_most_kernels_get_a_schedule() -> None:
    counts: list[int] = []

    @given(smooth_graph_programs())
    @SEEDED
    def run(program: GraphProgram) -> None:
        counts.append(lower(program, machines()[0]))

    run()
    assert sum(c > 0 for c in counts) >= len(counts) / 5
