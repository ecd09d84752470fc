"""Core on random input: pipelines print and parse back, dominance is what paths say, conversions of types compose."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import cf
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.dialects.test import TestOp, TestTermOp
from xdsl.ir import Block, Operation, Region

from tilewright.core.context import TilewrightContext
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.dominance import RegionDominance
from tilewright.core.passes import FunctionPass, ModulePass
from tilewright.core.pipeline import NestedPasses, build_pipeline, print_pipeline
from tilewright.core.registry import Registry
from tilewright.core.verifier import verify


@dataclass(frozen=True)
class ModuleOptionsPass(ModulePass):
    name = "module-options"
    text: str = "x"
    sizes: tuple[int, ...] = ()
    level: int | None = None
    scale: float = 1.0
    fast: bool = False

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class FunctionOptionsPass(FunctionPass):
    name = "function-options"
    factor: int = 4

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None: ...


REGISTRY = Registry()
REGISTRY.add_pass(ModuleOptionsPass)
REGISTRY.add_pass(FunctionOptionsPass)

WORDS = st.text(st.characters(codec="ascii", exclude_characters=","), max_size=8)
MODULE_PASSES = st.builds(
    ModuleOptionsPass,
    WORDS,
    st.lists(st.integers(-99, 99), max_size=3).map(tuple),
    st.none() | st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
FUNCTION_PASSES = st.builds(FunctionOptionsPass, st.integers())
GROUPS = st.builds(NestedPasses, st.just("func.func"), st.lists(FUNCTION_PASSES, max_size=3).map(tuple))


@settings(max_examples=100, deadline=None)
@given(st.lists(MODULE_PASSES | FUNCTION_PASSES | GROUPS, max_size=4))
def test_pipelines_print_and_parse_back(items: list[object]) -> None:
    text = print_pipeline(items)  # type: ignore[arg-type]
    assert list(build_pipeline(text, REGISTRY)) == items


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from('module-options{}()=, "\\x1é\n'), max_size=40))
def test_malformed_pipelines_are_diagnostics(text: str) -> None:
    try:
        build_pipeline(text, REGISTRY)
    except DiagnosticError as problem:
        assert problem.diagnostics[0].position is not None


@st.composite
def control_flow_graphs(draw: st.DrawFn) -> list[list[int]]:
    """Successors (0 to 2, never the entry) of each block."""
    count = draw(st.integers(1, 7))
    targets = st.lists(st.integers(1, count - 1), max_size=2) if count > 1 else st.just([])
    return [draw(targets) for _ in range(count)]


def make_region(graph: list[list[int]]) -> tuple[Region, list[Block]]:
    blocks = [Block() for _ in graph]
    for block, successors in zip(blocks, graph):
        value = TestOp.create(result_types=[i1])
        block.add_op(value)
        if len(successors) == 2:
            block.add_op(cf.ConditionalBranchOp(value.results[0], blocks[successors[0]], [], blocks[successors[1]], []))
        elif successors:
            block.add_op(cf.BranchOp(blocks[successors[0]]))
        else:
            block.add_op(TestTermOp.create())
    return Region(blocks), blocks


def reachable(graph: list[list[int]], without: int | None = None) -> set[int]:
    """Blocks that some path from the entry reaches without passing ``without``."""
    seen: set[int] = set()
    stack = [0] if without != 0 else []
    while stack:
        block = stack.pop()
        if block not in seen:
            seen.add(block)
            stack += [s for s in graph[block] if s != without]
    return seen


@settings(max_examples=150, deadline=None)
@given(control_flow_graphs(), st.data())
def test_dominance_and_the_verifier_agree_with_paths(graph: list[list[int]], data: st.DataObject) -> None:
    region, blocks = make_region(graph)
    dominance = RegionDominance(region)
    alive = reachable(graph)
    for a in range(len(graph)):
        for b in alive:
            expected = a == b or b not in reachable(graph, without=a)
            assert dominance.dominates(blocks[a], blocks[b]) == (expected and a in alive)

    source, user = data.draw(st.integers(0, len(graph) - 1)), data.draw(st.integers(0, len(graph) - 1))
    value = blocks[source].first_op.results[0]  # type: ignore[union-attr]
    blocks[user].insert_op_before(TestOp.create(operands=[value]), blocks[user].last_op)  # type: ignore[arg-type]
    module = ModuleOp([TestOp.create(regions=[region])])
    legal = user not in alive or (source in alive and dominance.dominates(blocks[source], blocks[user]))
    try:
        verify(module)
        assert legal
    except DiagnosticError as problem:
        assert not legal, str(problem)
