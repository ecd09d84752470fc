"""The matcher of expected diagnostics: each form of expectation, missing and unexpected messages."""

from __future__ import annotations

import pytest

from tilewright.core.diagnostics import Diagnostic, Severity, file_location
from tilewright.testing.matcher import check_expectations, parse_expectations


def at(line: int, message: str, severity: Severity = Severity.ERROR, *notes: Diagnostic) -> Diagnostic:
    return Diagnostic(severity, message, file_location("t.ir", line, 1), notes)


def failures(text: str, *diagnostics: Diagnostic) -> list[str]:
    expectations, malformed = parse_expectations(text)
    assert not malformed
    return [d.message for d in check_expectations(expectations, diagnostics, "t.ir")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x // expected-error {{bad}}", 1),
        ("// expected-error@+2 {{bad}}", 3),
        ("\n\n\n// expected-error@-3 {{bad}}", 1),
        ("// expected-error@below {{bad}}\n// a comment\nop", 2),
        ("op\n// expected-error@above {{bad}}", 1),
        ("// expected-error-re {{b{{[a-z]}}d}}", 1),
        ("// expected-error {{is bad}}", 1),
    ],
)
def test_places(text: str, line: int) -> None:
    assert failures(text, at(line, "this is bad")) == []
    assert failures(text, at(line + 1, "this is bad"))[0] == "unexpected error: this is bad"
    assert "was not produced" in failures(text)[-1]


def test_severities_and_notes() -> None:
    text = "// expected-warning {{w}}\n// expected-note {{n}} expected-remark {{r}}"
    note = at(2, "n", Severity.NOTE)
    assert failures(text, at(1, "w", Severity.WARNING, note), at(2, "r", Severity.REMARK)) == []
    assert failures(text, at(1, "w", Severity.ERROR, note), at(2, "r", Severity.REMARK)) == [
        "unexpected error: w",
        'expected warning "w" was not produced',
    ]


def test_unknown_place() -> None:
    assert failures("// expected-error@unknown {{x}}", Diagnostic(Severity.ERROR, "x")) == []
    assert len(failures("// expected-error {{x}}", Diagnostic(Severity.ERROR, "x"))) == 2


def test_braces_in_the_text() -> None:
    assert failures("// expected-error {{found {a = 1}}}", at(1, "found {a = 1}")) == []


def test_malformed_expectations_are_reported() -> None:
    assert parse_expectations("\n// expected-error@+1 text")[1][0][0] == 2
    assert parse_expectations("// expected-error {{text")[1] == [(1, "expectation without closing '}}'")]
