"""Diagnostics: how they read, and where they point."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC, CallSiteLoc, FusedLoc

from tilewright.core.context import make_context
from tilewright.core.diagnostics import (
    Diagnostic,
    DiagnosticError,
    Severity,
    emit_error,
    error,
    file_location,
    fused_location,
    location_of,
    name_location,
    position_of,
    render,
    source_names,
)
from tilewright.text import parse_module

TEXT = "func.func @f(%a: i32) {\n\t%x = arith.addi %a, %a : i32\n  func.return\n}\n"


def test_rendering_with_source_caret_and_notes() -> None:
    module = parse_module(TEXT, filename="t.ir", context=make_context())
    func, add, ret = list(module.walk())[1:]
    problem = error(ret, "is wrong: 1 and 2", [(add.results[0], "defined here"), (func.body.block.args[0], "argument")])
    assert render(problem, {"t.ir": TEXT}).splitlines() == [
        "t.ir:3:3: error: 'func.return' op is wrong: 1 and 2",
        "  func.return",
        "  ^",
        "t.ir:2:7: note: defined here",
        "\t%x = arith.addi %a, %a : i32",
        "\t     ^",
        "t.ir:1:14: note: argument",
        "func.func @f(%a: i32) {",
        "             ^",
    ]


def test_source_model_names_are_shown() -> None:
    problem = Diagnostic(Severity.ERROR, "bad", name_location("conv 1", file_location("m.onnx", 0, 0)))
    assert render(problem) == "m.onnx: error: bad\nm.onnx: note: from the model's node 'conv 1'"


def test_locations() -> None:
    first, second = file_location("a", 1, 2), name_location("n", file_location("b", 3, 4))
    fused = fused_location([UNKNOWN_LOC, first, second, first])
    assert isinstance(fused, FusedLoc)
    assert position_of(fused) == ("a", 1, 2) and source_names(fused) == ("n",)
    assert fused_location([UNKNOWN_LOC]) == UNKNOWN_LOC and fused_location([second, second]) == second
    assert position_of(CallSiteLoc(second, first)) == ("b", 3, 4)
    assert position_of(UNKNOWN_LOC) is None
    assert location_of(None) == UNKNOWN_LOC


def test_errors_are_exceptions_with_all_diagnostics() -> None:
    with pytest.raises(DiagnosticError, match="f:1:2: error: no") as caught:
        emit_error(file_location("f", 1, 2), "no")
    assert len(caught.value.diagnostics) == 1
    both = DiagnosticError([*caught.value.diagnostics, Diagnostic(Severity.ERROR, "again")])
    assert str(both) == "f:1:2: error: no\nerror: again"


def test_long_lines_are_cut_around_the_caret() -> None:
    line = "x" * 5000
    shown = render(Diagnostic(Severity.ERROR, "m", file_location("t", 1, 3000)), {"t": line}).splitlines()
    assert len(shown[1]) == 200 and shown[2].index("^") == 99
