"""Passes that fail, for the tests of reproducers and of internal errors."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from tilewright.core.context import TilewrightContext
from tilewright.core.diagnostics import Diagnostic, Severity, emit_error, location_of
from tilewright.core.passes import ModulePass
from tilewright.core.registry import Registry


@dataclass(frozen=True)
class RefusePass(ModulePass):
    """Refuses every multiplication, with a diagnostic."""

    name = "test-refuse"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "arith.muli":
                emit_error(inner, "cannot be lowered", [(inner.operands[0], "because of this value")])


@dataclass(frozen=True)
class BugPass(ModulePass):
    """Has a bug."""

    name = "test-bug"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        raise IndexError("list index out of range")


@dataclass(frozen=True)
class BreakPass(ModulePass):
    """Leaves invalid IR: every function loses its terminator."""

    name = "test-break"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if inner.name == "func.return":
                inner.detach()


@dataclass(frozen=True)
class WarnPass(ModulePass):
    """Says something about every addition."""

    name = "test-warn"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "arith.addi":
                ctx.report(Diagnostic(Severity.WARNING, "an addition", location_of(inner)))


def register(registry: Registry) -> None:
    for pass_class in (RefusePass, BugPass, BreakPass, WarnPass):
        registry.add_pass(pass_class)
