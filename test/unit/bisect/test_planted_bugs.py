"""Bugs planted in passes one by one: bisecting names the pass, and what it writes is small and shows the bug.

Shown by the reproducer alone: read back from its text it departs, and without the bug it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.pipeline import build_pipeline
from tilewright.dialects.graph.broadcasting import AddOp, MulOp
from tilewright.dialects.graph.structure import ConstantOp
from tilewright.passes.convert import te_to_loop_body
from tilewright.passes.convert.graph_to_te.elements import ElementCode
from tilewright.passes.graph import cse, dce, fold_constants, fold_scale, fuse, rules_algebra
from tilewright.passes.loop import lower_blocks, partition, simplify, vectorize
from tilewright.passes.te import inline
from tilewright.passes.vm import arena
from tilewright.text import parse_module, print_module
from tilewright.tools.bisect import bisect, reproduce
from tilewright.tools.stages import stages

MAX_OPS = 20

NETWORK = """
func.func @main(%x: tensor<1x4x6x6xf32> {tw.name = "x"}, %z: tensor<1x8xf32> {tw.name = "z"})
    -> (tensor<1x5xf32> {tw.name = "y"}) {
  %w = graph.constant dense_resource<w> : tensor<8x4x3x3xf32>
  %scale = graph.constant dense<[1.0, 2.0, 0.5, 1.5, 1.25, 3.0, 0.75, 1.0]> : tensor<8xf32>
  %shift = graph.constant dense<[0.5, 1.0, -0.5, 0.25, 1.0, -1.0, 2.0, -4.0]> : tensor<8xf32>
  %mean = graph.constant dense<0.25> : tensor<8xf32>
  %variance = graph.constant dense<2.0> : tensor<8xf32>
  %v = graph.constant dense_resource<v> : tensor<8x5xf32>
  %bias = graph.constant dense<[1.0, -1.0, 0.5, 2.0, 0.25]> : tensor<5xf32>
  %three = graph.constant dense<3.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.conv %x, %w {CONV} : (tensor<1x4x6x6xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x6x6xf32>
  %1 = graph.batch_norm %0, %scale, %shift, %mean, %variance {epsilon = 1.0e-05 : f64} : (tensor<1x8x6x6xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x6x6xf32>
  %2 = graph.reduce_max %1 {axes = array<i64: 2, 3>} : (tensor<1x8x6x6xf32>) -> tensor<1x8xf32>
  %3 = graph.neg %2 : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %4 = graph.neg %3 : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %5 = graph.exp %z : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %6 = graph.tanh %z : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %7 = graph.mul %5, %6 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  %8 = graph.sub %7, %4 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  %9 = graph.matmul %8, %v : (tensor<1x8xf32>, tensor<8x5xf32>) -> tensor<1x5xf32>
  %10 = graph.add %9, %bias : (tensor<1x5xf32>, tensor<5xf32>) -> tensor<1x5xf32>
  %11 = graph.add %three, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %12 = graph.mul %10, %11 : (tensor<1x5xf32>, tensor<f32>) -> tensor<1x5xf32>
  %13 = graph.softmax %12 {axis = 1 : i64} : (tensor<1x5xf32>) -> tensor<1x5xf32>
  %14 = graph.add %13, %12 : (tensor<1x5xf32>, tensor<1x5xf32>) -> tensor<1x5xf32>
  func.return %14 : tensor<1x5xf32>
}
"""

WINDOW = """
func.func @main(%x: tensor<1x2x3x3xf32> {tw.name = "x"}) -> (tensor<1x1x3x3xf32> {tw.name = "y"}) {
  %w = graph.constant dense_resource<u> : tensor<1x2x3x3xf32>
  %0 = graph.conv %x, %w {CONV} : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x1x3x3xf32>
  %1 = graph.relu %0 : (tensor<1x1x3x3xf32>) -> tensor<1x1x3x3xf32>
  func.return %1 : tensor<1x1x3x3xf32>
}
"""

CHAIN = """
func.func @main(%x: tensor<4x4xf32> {tw.name = "x"}) -> (tensor<4x4xf32> {tw.name = "y"}) {
  %w = graph.constant dense_resource<s> : tensor<4x4xf32>
  %0 = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.matmul %0, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.matmul %1, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %2 : tensor<4x4xf32>
}
"""

WEIGHTS = {"w": (8, 4, 3, 3), "v": (8, 5), "u": (1, 2, 3, 3), "s": (4, 4)}
CONV = "strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64"

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """A pass and how to break it."""

    pass_name: str
    plant: Plant
    text: str = NETWORK


def identity_of_any_factor(patch: pytest.MonkeyPatch) -> None:
    """Multiplying by any number is taken for multiplying by one."""
    wrong = lambda op: isinstance(op, MulOp) and isinstance(op.rhs.owner, ConstantOp)  # noqa: E731
    patch.setattr(rules_algebra, "_is_identity", wrong)


def negation_cancels_alone(patch: pytest.MonkeyPatch) -> None:
    """-(-x) becomes -x."""

    def wrong(self: Any, op: Operation, rewriter: Any) -> None:
        if op.name == "graph.neg" and op.operands[0].owner.name == "graph.neg":
            rewriter.replace(op, [], [op.operands[0]])

    patch.setattr(rules_algebra.Involution, "match_and_rewrite", wrong)


def constants_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """Folded constants are one too large."""
    right = fold_constants.dense_constant
    patch.setattr(fold_constants, "dense_constant", lambda array, element: right(array + 1, element))


def names_are_enough(patch: pytest.MonkeyPatch) -> None:
    """Operations on the same operands are taken for equal."""

    def wrong(module: ModuleOp) -> None:
        seen: dict[Any, Operation] = {}
        for op in list(module.walk()):
            if op.name.startswith("graph.") and op.operands and len(op.results) == 1 and not op.regions:
                first = seen.setdefault((tuple(op.operands), op.results[0].type), op)
                if first is not op:
                    op.results[0].replace_all_uses_with(first.results[0])
                    Rewriter.erase_op(op)

    patch.setattr(cse, "cse", wrong)


def shift_without_factor(patch: pytest.MonkeyPatch) -> None:
    """(y + t) * f becomes y * f + t."""

    def wrong(self: Any, op: Operation, rewriter: Any) -> None:
        if not isinstance(op, MulOp) or not isinstance(op.lhs.owner, AddOp) or not isinstance(op.rhs.owner, ConstantOp):
            return
        inner = op.lhs.owner
        if isinstance(inner.rhs.owner, ConstantOp) and inner.lhs.type == op.result.type:
            scaled = MulOp(inner.lhs, op.rhs)
            rewriter.replace(op, [scaled, AddOp(scaled.result, inner.rhs)])

    patch.setattr(fold_scale.ScaleShift, "match_and_rewrite", wrong)


def tanh_is_dead(patch: pytest.MonkeyPatch) -> None:
    """Dead code elimination drops every tanh, too."""
    right = dce.region_dce

    def wrong(region: Any) -> bool:
        for op in list(region.walk()):
            if op.name == "graph.tanh":
                op.results[0].replace_all_uses_with(op.operands[0])
        return right(region)

    patch.setattr(dce, "region_dce", wrong)


def kernels_get_the_second_twice(patch: pytest.MonkeyPatch) -> None:
    """Kernels get their second operand for the first, too."""
    right = fuse._make_kernel

    def wrong(ops: Any) -> None:
        right(ops)
        for kernel in [op for op in ops[-1].parent_op().parent.ops if op.name == "graph.kernel"]:
            if len(kernel.operands) >= 2 and kernel.operands[0].type == kernel.operands[1].type:
                kernel.operands = [kernel.operands[1], kernel.operands[1], *kernel.operands[2:]]

    patch.setattr(fuse, "_make_kernel", wrong)


def subtraction_backwards(patch: pytest.MonkeyPatch) -> None:
    """a - b is lowered as b - a."""
    right = ElementCode.binary

    def wrong(self: Any, name: str, a: Any, b: Any) -> Any:
        return right(self, name, *((self.like(b, a), a) if name == "sub" else (a, b)))

    patch.setattr(ElementCode, "binary", wrong)


def computes_alike(patch: pytest.MonkeyPatch) -> None:
    """Computes on the same tensors are taken for equal whatever they compute."""
    patch.setattr(inline, "structural_key", lambda region: ())


def reductions_start_from_one(patch: pytest.MonkeyPatch) -> None:
    """Sums and maxima start from 1."""
    patch.setattr(te_to_loop_body, "identities", lambda combiners, outputs: [1] * len(combiners))


def no_initial_value(patch: pytest.MonkeyPatch) -> None:
    """Reductions keep what the buffer held."""

    def wrong(space: Any, block: Any) -> None:
        block.detach_region(block.init)

    patch.setattr(lower_blocks, "_separate_init", wrong)


def no_tail(patch: pytest.MonkeyPatch) -> None:
    """Iterations beyond whole vectors are lost."""
    right = vectorize.chunks
    patch.setattr(vectorize, "chunks", lambda extent: right(extent)[:1])


def guards_decided_wrongly(patch: pytest.MonkeyPatch) -> None:
    """Guards that hold in a part of a loop are taken for those that do not."""
    right = partition._resolve
    patch.setattr(partition, "_resolve", lambda space, places, holds: right(space, places, not holds))


def guards_never_hold(patch: pytest.MonkeyPatch) -> None:
    """A guarded load is its default."""
    right = simplify.Simplifier._load

    def wrong(self: Any, op: Any) -> None:
        right(self, op)
        if op.parent is not None and op.where is not None:
            op.result.replace_all_uses_with(op.default)

    patch.setattr(simplify.Simplifier, "_load", wrong)


def lifetimes_never_meet(patch: pytest.MonkeyPatch) -> None:
    """All buffers lie at one place."""
    patch.setattr(arena.Interval, "meets", lambda self, other: False)


BUGS = [
    Bug("graph-canonicalize", identity_of_any_factor),
    Bug("graph-simplify", negation_cancels_alone),
    Bug("graph-fold-constants", constants_off_by_one),
    Bug("cse", names_are_enough),
    Bug("dce", tanh_is_dead),
    Bug("graph-fold-scale", shift_without_factor),
    Bug("graph-fuse", kernels_get_the_second_twice),
    Bug("convert-graph-to-te", subtraction_backwards),
    Bug("te-inline", computes_alike),
    Bug("convert-te-to-loop", reductions_start_from_one),
    Bug("loop-lower-blocks", no_initial_value),
    Bug("loop-simplify", guards_never_hold, WINDOW),
    Bug("loop-partition", guards_decided_wrongly, WINDOW),
    Bug("loop-vectorize", no_tail),
    Bug("vm-plan-memory", lifetimes_never_meet, CHAIN),
]


def program(text: str = NETWORK) -> tuple[ModuleOp, TilewrightContext]:
    context = make_context()
    random = np.random.default_rng(7)
    for name, shape in WEIGHTS.items():
        context.resources.add(random.standard_normal(shape).astype(np.float32), name)
    return parse_module(text.replace("CONV", CONV), filename="network.ir", context=context), context


def pipeline(context: TilewrightContext) -> list[Any]:
    target = context.registry.resolve("target", "llvm")
    passes = [item for stage in stages(target, target.machine("x86-64-v3", None)) for item in stage.passes]
    return list(build_pipeline(passes, context.registry))


def test_nothing_is_found_without_a_bug() -> None:
    module, context = program()
    assert bisect(module, context, pipeline(context)) is None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.pass_name)
def test_a_planted_bug_is_named_and_shrunk(bug: Bug) -> None:
    module, context = program(bug.text)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        finding = bisect(module, context, pipeline(context))
        assert finding is not None
        assert finding.pass_name == bug.pass_name, finding
        small = reproduce(finding, context)
        assert small.ops <= MAX_OPS, print_module(small.module)
        again = parse_module(print_module(small.module), context=context)
        shown = bisect(again, context, small.pass_spec)
        assert shown is not None
        assert shown.kind == finding.kind
    assert bisect(again, context, small.pass_spec) is None
