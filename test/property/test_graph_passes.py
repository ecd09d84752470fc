"""Every graph pass keeps the meaning of random programs, does something to many of them, and a wrong variant is caught.

Meaning is what the reference interpreter gives. Passes that claim exactness are compared bit by bit (NaN equal to
NaN). The two that reassociate floats, ``graph-fold-scale`` and ``graph-simplify-float``, are compared on programs
that are continuous, within 1e-4 of the largest magnitude: float32 has 6e-8, and a program has some tens of operations
with sums of up to a few hundred terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.transforms import common_subexpression_elimination
from xdsl.utils.exceptions import VerifyException

from tilewright.core.attributes import shape_exprs
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.passes import Pass
from tilewright.core.registry import load_object
from tilewright.core.verifier import verify
from tilewright.dialects.graph import broadcasting, elementwise, shape
from tilewright.passes.graph import (
    choose_layout,
    dce,
    fold_constants,
    fold_scale,
    fuse,
    infer_shapes,
    rules_algebra,
    rules_float,
    rules_movement,
)
from tilewright.passes.table import PASSES
from tilewright.testing.strategies import graph as programs
from tilewright.testing.strategies.graph import GraphProgram, graph_programs

FLOAT_TOLERANCE = 1e-4
EXAMPLES = 60
SETTINGS: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

NETWORK_STEPS = (
    programs.convolution, programs.convolution, programs.matmul, programs.batch_norm, programs.binary, programs.unary,
    programs.pool, programs.concat, programs.pad, programs.slices, programs.transpose, programs.reduction,
    programs.normalise, programs.repeat, programs.conditional,
)  # fmt: skip

FOLDING_STEPS = (*programs.ALL_STEPS, *[programs.on_constants] * len(programs.ALL_STEPS))


def network_programs() -> st.SearchStrategy[GraphProgram]:
    return graph_programs(steps=NETWORK_STEPS, mixed=False, images=True)


@dataclass(frozen=True)
class Case:
    """A pass, made for a program, the programs it is tried on, and whether results may change in rounding."""

    name: str
    strategy: st.SearchStrategy[GraphProgram]
    exact: bool = True
    options: Callable[[GraphProgram], dict[str, Any]] = lambda _: {}

    def make(self, program: GraphProgram) -> Pass:
        made = load_object(PASSES[self.name])(**self.options(program))
        assert isinstance(made, Pass) and made.name == self.name
        return made


def bind_batch(program: GraphProgram) -> dict[str, Any]:
    return {"bind": (f"n={program.inputs[0].shape[0]}",)}


CASES = (
    Case("graph-infer-shapes", graph_programs(), options=bind_batch),
    Case("graph-canonicalize", graph_programs()),
    Case("graph-simplify", graph_programs()),
    Case("graph-simplify-float", programs.smooth_graph_programs(), exact=False),
    Case("graph-fold-constants", graph_programs(steps=FOLDING_STEPS)),
    Case("graph-fold-scale", network_programs(), exact=False),
    Case("graph-choose-layout", network_programs(), options=lambda _: {"block": 8}),
    Case("graph-fuse", graph_programs()),
    Case("cse", graph_programs()),
    Case("dce", graph_programs()),
)
BY_NAME = {case.name: case for case in CASES}


def same(before: Sequence[Any], after: Sequence[Any], exact: bool) -> None:
    for old, new in zip(before, after, strict=True):
        assert old.dtype == new.dtype and old.shape == new.shape
        if exact:
            np.testing.assert_array_equal(new, old)
            if old.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(new)[~np.isnan(new)], np.signbit(old)[~np.isnan(old)])
        else:
            scale = max(1.0, float(np.nanmax(np.abs(old), initial=0.0, where=np.isfinite(old))))
            np.testing.assert_allclose(new, old, rtol=FLOAT_TOLERANCE, atol=FLOAT_TOLERANCE * scale)


def apply_checked(case: Case, program: GraphProgram) -> bool:
    """Applies the pass, compares results, and says whether the program was changed."""
    before = program.run()
    old = program.module.clone()
    case.make(program).apply(program.context, program.module)
    verify(program.module)
    same(before, program.run(), case.exact)
    return not is_same_text(old, program.module)


def is_same_text(old: ModuleOp, new: ModuleOp) -> bool:
    return old.is_structurally_equivalent(new) and str(old) == str(new)


@pytest.mark.parametrize("name", BY_NAME)
def test_keeps_results_and_changes_many_programs(name: str) -> None:
    case, outcomes = BY_NAME[name], []

    @given(case.strategy)
    @settings(max_examples=EXAMPLES, **SETTINGS)
    def run(program: GraphProgram) -> None:
        outcomes.append(apply_checked(case, program))

    run()
    assert sum(outcomes) * 5 >= len(outcomes), f"only {sum(outcomes)} of {len(outcomes)} programs were changed"


@pytest.mark.parametrize(
    "name", ["graph-canonicalize", "graph-simplify", "graph-choose-layout", "graph-fuse", "dce"]
)
def test_second_application_changes_nothing(name: str) -> None:
    case = BY_NAME[name]

    @given(case.strategy)
    @settings(max_examples=EXAMPLES // 2, **SETTINGS)
    def run(program: GraphProgram) -> None:
        made = case.make(program)
        made.apply(program.context, program.module)
        once = program.module.clone()
        made.apply(program.context, program.module)
        assert is_same_text(once, program.module)

    run()


@given(network_programs())
@settings(max_examples=EXAMPLES // 2, **SETTINGS)
def test_whole_pipeline_keeps_results(program: GraphProgram) -> None:
    from tilewright.core.pass_manager import PassManager
    from tilewright.passes.pipelines import graph_optimize

    before = program.run()
    PassManager(program.context, graph_optimize(block=8)).run(program.module)
    same(before, program.run(), exact=False)


# A wrong variant of each pass: a function that plants a bug, by replacing a name or a method.


def any_transpose_is_a_reshape(self: RewritePattern, op: Any, rewriter: PatternRewriter) -> None:
    if isinstance(op, shape.TransposeOp):
        rewriter.replace(op, shape.ReshapeOp(op.input, shape_exprs(op.result.type)))


def forget_constants(self: RewritePattern, op: Any, rewriter: PatternRewriter) -> None:
    if isinstance(op, broadcasting.AddOp) and rules_float.is_constant(op.rhs) and op.lhs.type == op.result.type:
        rewriter.replace(op, [], [op.lhs])


def erase_what_is_used(region: Any) -> None:
    for op in region.walk():
        if isinstance(op, elementwise.UnaryOp) and op.input.type == op.result.type:
            op.result.replace_all_uses_with(op.input)


WRONG_VARIANTS: dict[str, tuple[Any, str, Any]] = {
    "graph-infer-shapes": (infer_shapes, "_parse_bindings", lambda func, pairs: {"n": infer_shapes.as_expr(7)}),
    "graph-canonicalize": (rules_movement.TransposeIsReshape, "match_and_rewrite", any_transpose_is_a_reshape),
    "graph-simplify": (rules_algebra, "_is_identity", lambda op: rules_algebra.splat_value(op.rhs) is not None),
    "graph-simplify-float": (rules_float.AddZero, "match_and_rewrite", forget_constants),
    "graph-fold-constants": (
        fold_constants,
        "dense_constant",
        lambda array, type: rules_algebra.dense_constant(-array if array.dtype != bool else ~array, type),
    ),
    "graph-fold-scale": (fold_scale, "SubOp", broadcasting.AddOp),
    "graph-choose-layout": (choose_layout._LayoutChoice, "_row_major", lambda self, op: None),
    "graph-fuse": (fuse, "fusion_groups", lambda nodes, limit: [len(nodes) - 1] * len(nodes)),
    "cse": (
        common_subexpression_elimination.OperationInfo,
        "__eq__",
        lambda self, other: self.name == other.name and self.op.result_types == other.op.result_types,
    ),
    "dce": (dce, "region_dce", erase_what_is_used),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_wrong_variant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, (owner, attribute, wrong) = BY_NAME[name], WRONG_VARIANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    if name == "cse":
        monkeypatch.setattr(owner, "__hash__", lambda self: hash(self.name))

    @given(case.strategy)
    @settings(max_examples=600, phases=[Phase.generate], report_multiple_bugs=False, **SETTINGS)
    def run(program: GraphProgram) -> None:
        apply_checked(case, program)

    with pytest.raises((AssertionError, DiagnosticError, VerifyException)):
        run()


def test_every_graph_pass_is_here() -> None:
    registered = {name for name, path in PASSES.items() if path.startswith("tilewright.passes.graph.")}
    assert registered == set(BY_NAME) == set(WRONG_VARIANTS)
