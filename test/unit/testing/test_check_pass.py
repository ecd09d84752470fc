"""check_pass: accepts a right pass, catches wrong ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.passes import ModulePass
from tilewright.core.rewriting import apply_patterns
from tilewright.testing.check_pass import assert_close, check_pass
from tilewright.text import parse_module

TEXT = """
func.func @main(%a: i32, %b: i32) -> i32 {
  %x = arith.subi %a, %b : i32
  %y = arith.addi %x, %x : i32
  func.return %y : i32
}
"""


class SwapSub(RewritePattern):
    """Wrong: a - b = b - a. Marked, so that it is applied once."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.SubiOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, arith.SubiOp(op.rhs, op.lhs))


class SwapAdd(RewritePattern):
    """a + b = b + a"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, arith.MuliOp(op.lhs, op.rhs)) if op.lhs != op.rhs else None


@dataclass(frozen=True)
class WrongPass(ModulePass):
    """(a - b) --> (b - a)"""

    name = "test-wrong"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        apply_patterns(op, [SwapSub()], recursive=False)


@dataclass(frozen=True)
class RightPass(ModulePass):
    """Nothing --> nothing"""

    name = "test-right"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        apply_patterns(op, [SwapAdd()])


@dataclass(frozen=True)
class InvalidPass(ModulePass):
    """Leaves a block without terminator."""

    name = "test-invalid"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        next(o for o in op.walk() if o.name == "func.return").detach()


def test_right_and_wrong_passes() -> None:
    context = make_context()
    module = parse_module(TEXT, context=context)
    result = check_pass([RightPass()], module, [np.int32(7), np.int32(3)], context=context)
    assert not result.changed and int(result.after[0]) == 8
    with pytest.raises(AssertionError, match="result 0 after"):
        check_pass([WrongPass()], module, [np.int32(7), np.int32(3)], context=context)
    with pytest.raises(DiagnosticError):
        check_pass([InvalidPass()], module, [np.int32(7), np.int32(3)], context=context)


def test_assert_close() -> None:
    assert_close(np.float32([1, np.nan]), np.float32([1.00001, np.nan]))
    for found, expected in (
        (np.float32([1]), np.float32([1.001])),
        (np.int32([1]), np.int32([2])),
        (np.int32([1]), np.int64([1])),
        (np.zeros((2, 1)), np.zeros((1, 2))),
    ):
        with pytest.raises(AssertionError):
            assert_close(found, expected)
    with pytest.raises(AssertionError):
        assert_close(np.float32([1]), np.float32([1.00001]), exact=True)
