"""Reducing random programs: whatever operation is asked for stays, the result is valid and small."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.pass_manager import run_pipeline
from tilewright.core.verifier import verify
from tilewright.testing.strategies.graph import GraphProgram, graph_programs
from tilewright.text import parse_module, print_module
from tilewright.tools.reduce import reduce
from tilewright.tools.reduce.measure import op_count

PIPELINES = ("dce", "graph-optimize", "graph-optimize,lower-kernels")


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graph_programs(max_steps=5), st.sampled_from(PIPELINES), st.integers(0, 1000))
def test_an_operation_of_a_random_program_is_isolated(program: GraphProgram, passes: str, choice: int) -> None:
    module, context = program.module, program.context
    try:
        run_pipeline(module, passes, context)
    except DiagnosticError:
        return  # not every program can be lowered
    names = sorted({op.name for op in module.walk() if op is not module})
    name = names[choice % len(names)]

    def has(candidate: ModuleOp) -> bool:
        return any(op.name == name for op in candidate.walk())

    result = reduce(module, has, context)
    verify(result)
    assert has(parse_module(print_module(result), context=make_context(resources=context.resources)))
    assert op_count(result) <= 8, (name, print_module(result))
