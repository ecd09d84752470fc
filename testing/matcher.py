"""Expected diagnostics: comments in a test file say which messages must come, at which line.

    // expected-error@+1 {{inner dimensions differ: 64 and 32}}
    %0 = graph.matmul %a, %b : ...

Kinds: ``error``, ``warning``, ``remark``, ``note``. Places: none (this line), ``@+N``, ``@-N``, ``@above``,
``@below``, ``@unknown`` (a message without a position). The text is a part of the message; in the ``-re`` variant
``{{...}}`` inside of it are regular expressions. A missing message and an unexpected one are both failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..core.diagnostics import Diagnostic, Severity, file_location

_HEAD = re.compile(r"expected-(error|warning|remark|note)(-re)?\s*(?:@([+-]\d+|above|below|unknown))?\s*\{\{")
_BROKEN = re.compile(r"//.*\bexpected-(error|warning|remark|note)")


@dataclass
class Expectation:
    """One comment: a message of this kind with this text at ``line`` (``None``: without a position)."""

    severity: Severity
    pattern: re.Pattern[str]
    text: str
    line: int | None
    written_at: tuple[int, int]
    met: bool = False

    def matches(self, diagnostic: Diagnostic, filename: str) -> bool:
        position = diagnostic.position
        if position is not None and (position[0] != filename or position[1] < 1):
            position = None
        if (position is None) != (self.line is None) or (position is not None and position[1] != self.line):
            return False
        return diagnostic.severity is self.severity and self.pattern.search(diagnostic.message) is not None


def parse_expectations(text: str, first_line: int = 1) -> tuple[list[Expectation], list[tuple[int, str]]]:
    """The expectations in ``text``, and ``(line, problem)`` for comments that look like one but are malformed."""
    found: list[Expectation] = []
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=first_line):
        if "expected-" not in line:
            continue
        matches = list(_HEAD.finditer(line))
        if not matches and _BROKEN.search(line):
            problems.append((number, "malformed expectation, the form is expected-error@+1 {{text}}"))
        for match in matches:
            end = _closing(line, match.end())
            if end < 0:
                problems.append((number, "expectation without closing '}}'"))
                continue
            found.append(_expectation(match, line[match.end() : end], number))
    _place_adjacent(found, text, first_line)
    return found, problems


def check_expectations(
    expectations: list[Expectation], diagnostics: Iterable[Diagnostic], filename: str
) -> list[Diagnostic]:
    """The failures: each unexpected diagnostic and each expectation that was not met."""
    failures: list[Diagnostic] = []
    for diagnostic in _with_notes(diagnostics):
        hit = next((e for e in expectations if not e.met and e.matches(diagnostic, filename)), None)
        if hit is not None:
            hit.met = True
        elif not any(e.matches(diagnostic, filename) for e in expectations):
            kind = diagnostic.severity.value
            failures.append(Diagnostic(Severity.ERROR, f"unexpected {kind}: {diagnostic.message}", diagnostic.location))
    for expectation in expectations:
        if not expectation.met:
            where = file_location(filename, *expectation.written_at)
            message = f'expected {expectation.severity.value} "{expectation.text}" was not produced'
            failures.append(Diagnostic(Severity.ERROR, message, where))
    return failures


def _expectation(match: re.Match[str], text: str, number: int) -> Expectation:
    kind, regular, place = match.groups()
    if regular:
        pieces = re.split(r"\{\{(.*?)\}\}", text)
        pattern = "".join(p if i % 2 else re.escape(p) for i, p in enumerate(pieces))
    else:
        pattern = re.escape(text)
    line: int | None = number
    if place == "unknown":
        line = None
    elif place == "above":
        line = -number
    elif place == "below":
        line = 0
    elif place:
        line = number + int(place)
    return Expectation(Severity(kind), re.compile(pattern), text, line, (number, match.start() + 1))


def _place_adjacent(expectations: list[Expectation], text: str, first_line: int) -> None:
    """``@above`` and ``@below`` mean the nearest line that holds no expectation."""
    lines = text.split("\n")

    def free(number: int) -> bool:
        index = number - first_line
        return not 0 <= index < len(lines) or "expected-" not in lines[index]

    for expectation in expectations:
        if expectation.line is None or expectation.line > 0:
            continue
        step = 1 if expectation.line == 0 else -1
        number = expectation.written_at[0] + step
        while not free(number):
            number += step
        expectation.line = number


def _closing(line: str, start: int) -> int:
    """The index of the ``}}`` that closes the ``{{`` before ``start``; -1 without one."""
    depth, index = 1, start
    while index < len(line) - 1:
        pair = line[index : index + 2]
        if pair == "{{":
            depth, index = depth + 1, index + 2
        elif pair == "}}":
            depth -= 1
            if depth == 0:
                # '{{ {a = 1}}}': the last two braces close.
                while line[index + 2 : index + 3] == "}":
                    index += 1
                return index
            index += 2
        else:
            index += 1
    return -1


def _with_notes(diagnostics: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _with_notes(diagnostic.notes)
