"""Passes for the tests of ``tilewright-bisect``: one with a bug, one that fails, one whose result depends on values."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from tilewright.core.context import TilewrightContext
from tilewright.core.diagnostics import emit_error
from tilewright.core.passes import ModulePass
from tilewright.core.registry import Registry
from tilewright.dialects.graph.elementwise import AbsOp, NegOp, ReluOp, TanhOp


def replace_all(module: ModuleOp, old: type, new: type) -> None:
    for op in list(module.walk()):
        if isinstance(op, old):
            made = new(op.operands[0])
            made.location = op.location
            Rewriter.replace_op(op, made)


@dataclass(frozen=True)
class WrongTanhPass(ModulePass):
    """Takes tanh for a negation."""

    name = "test-wrong-tanh"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        replace_all(op, TanhOp, NegOp)


@dataclass(frozen=True)
class WrongReluPass(ModulePass):
    """Takes relu for the absolute value, which shows for negative elements only."""

    name = "test-wrong-relu"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        replace_all(op, ReluOp, AbsOp)


@dataclass(frozen=True)
class RefuseExpPass(ModulePass):
    """Refuses exp."""

    name = "test-refuse-exp"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "graph.exp":
                emit_error(inner, "is not supported here")


@dataclass(frozen=True)
class BreakPass(ModulePass):
    """Leaves functions without their terminator."""

    name = "test-break"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for function in list(op.body.block.ops):
            function.regions[0].block.erase_op(function.regions[0].block.last_op, safe_erase=False)


@dataclass(frozen=True)
class StuckPass(ModulePass):
    """Makes functions declarations, which nothing can run."""

    name = "test-stuck"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for function in list(op.body.block.ops):
            region = function.regions[0]
            region.erase_block(region.block, safe_erase=False)
            function.properties["sym_visibility"] = function.properties["sym_name"].__class__("private")


def register(registry: Registry) -> None:
    for cls in (WrongTanhPass, WrongReluPass, RefuseExpPass, BreakPass, StuckPass):
        registry.add_pass(cls)
