"""Every level below the graph computes the same: graph kernels, te, merged te, outlined te, loops.

Integers are compared exactly, floats within the tolerances of ``check_pass``: merging and reordering change nothing
but the order of sums. A wrong variant of each pass is caught by the same tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from xdsl.utils.exceptions import VerifyException

from tilewright.core.attributes import layout_of
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.symbolic import as_expr
from tilewright.dialects.te.ops import ComputeOp, ReadOp
from tilewright.passes.convert import outline_kernels, te_to_loop_body
from tilewright.passes.convert.graph_to_te import elementwise
from tilewright.passes.table import PASSES
from tilewright.passes.te import dce, rebuild
from tilewright.testing.check_pass import CheckedPass, check_pass
from tilewright.testing.strategies.graph import GraphProgram, graph_programs
from tilewright.testing.strategies.te import TeProgram, te_programs

SETTINGS: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}
EXAMPLES = 25
LOWERING = "graph-fuse,convert-graph-to-te"
TO_LOOPS = "outline-kernels,convert-te-to-loop"


def check(passes: str, program: GraphProgram | TeProgram) -> CheckedPass:
    """Compares ``@main`` before and after; values that overflow say nothing about a pass."""
    for result in program.run():
        if result.dtype.kind == "f":
            assume(bool(np.all(np.abs(result[~np.isnan(result)]) < 1e6)))
    return check_pass(passes, program.module, program.inputs, context=program.context)


GRAPH_CASES = {
    "convert-graph-to-te": LOWERING,
    "outline-kernels": f"{LOWERING},outline-kernels",
    "all levels": f"{LOWERING},te-inline,te-dce,{TO_LOOPS}",
}
TE_CASES = {
    "te-inline": "te-inline",
    "te-dce": "te-dce",
    "convert-te-to-loop": TO_LOOPS,
    "all levels of te": f"te-inline,te-dce,{TO_LOOPS}",
}


@pytest.mark.parametrize("name", GRAPH_CASES)
def test_graph_programs_keep_their_results(name: str) -> None:
    @given(graph_programs())
    @settings(max_examples=EXAMPLES, **SETTINGS)
    def run(program: GraphProgram) -> None:
        check(GRAPH_CASES[name], program)

    run()


@pytest.mark.parametrize("name", TE_CASES)
def test_te_programs_keep_their_results_and_many_change(name: str) -> None:
    outcomes: list[bool] = []

    @given(te_programs())
    @settings(max_examples=EXAMPLES, **SETTINGS)
    def run(program: TeProgram) -> None:
        outcomes.append(check(TE_CASES[name], program).changed)

    run()
    assert sum(outcomes) * 5 >= len(outcomes), f"only {sum(outcomes)} of {len(outcomes)} programs were changed"


@given(te_programs())
@settings(max_examples=EXAMPLES, **SETTINGS)
def test_merging_twice_changes_nothing(program: TeProgram) -> None:
    once = check_pass("te-inline", program.module, program.inputs, context=program.context)
    twice = check_pass("te-inline", once.module, program.inputs, context=program.context)
    assert not twice.changed


def test_programs_have_layouts_and_reductions() -> None:
    """Guards the strategy itself."""
    seen = {"layout": 0, "reduction": 0, "guard": 0}

    @given(te_programs())
    @settings(max_examples=EXAMPLES, phases=[Phase.generate], **SETTINGS)
    def run(program: TeProgram) -> None:
        for op in program.module.walk():
            if isinstance(op, ComputeOp):
                seen["layout"] += any(layout_of(r.type) is not None for r in op.results_)
                seen["reduction"] += bool(op.reduce_extents.exprs)
            seen["guard"] += isinstance(op, ReadOp) and op.default is not None

    run()
    assert min(seen.values()) >= 5, seen


# A wrong variant of each pass, by replacing one name.


def replace_used(block: Any) -> bool:
    for op in block.ops:
        if isinstance(op, ComputeOp) and op.inputs and op.inputs[0].type == op.results_[0].type:
            op.results_[0].replace_all_uses_with(op.inputs[0])
    return True


INLINED = rebuild._Rebuild._inlined


def inline_at_origin(self: Any, tensor: Any, producer: Any, exprs: Any) -> Any:
    return INLINED(self, tensor, producer, tuple(as_expr(0) for _ in exprs))


WRONG_VARIANTS: dict[str, tuple[Any, str, Any]] = {
    "convert-graph-to-te": (
        elementwise,
        "broadcast_read",
        lambda e, tensor, index: e.read(tensor, [0] * len(tensor.type.get_shape())),
    ),
    "te-inline": (rebuild._Rebuild, "_inlined", inline_at_origin),
    "te-dce": (dce, "erase_unused", replace_used),
    "outline-kernels": (outline_kernels, "structural_key", lambda region: tuple(a.type for a in region.block.args)),
    "convert-te-to-loop": (te_to_loop_body, "identities", lambda combiners, outputs: [1] * len(outputs)),
}


@pytest.mark.parametrize("name", WRONG_VARIANTS)
def test_wrong_variant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong = WRONG_VARIANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    strategy: Any = graph_programs() if name in GRAPH_CASES else te_programs()
    passes = GRAPH_CASES.get(name) or TE_CASES[name]

    @given(strategy)
    @settings(max_examples=600, phases=[Phase.generate], report_multiple_bugs=False, **SETTINGS)
    def run(program: GraphProgram | TeProgram) -> None:
        check(passes, program)

    with pytest.raises((AssertionError, DiagnosticError, VerifyException)):
        run()


def test_every_pass_is_here() -> None:
    here = ("tilewright.passes.te.", "tilewright.passes.convert.")
    registered = {n for n, path in PASSES.items() if path.startswith(here) and n != "convert-graph-to-vm"}
    assert registered == set(WRONG_VARIANTS) == {*GRAPH_CASES, *TE_CASES} - {"all levels", "all levels of te"}
