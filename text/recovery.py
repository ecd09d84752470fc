"""Several errors in one text: after an error the parser goes on at the next operation.

What was begun is dropped from the parser's stack, down to a place where an operation may stand, and the text is
skipped to the next line that begins like an operation (or ends the region). Braces are counted on the way, so that the
region of a broken operation is skipped as a whole. Names that occur in what was dropped are *doubtful*: nobody hears
that they are undefined, so one mistake gives one message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..core.diagnostics import Diagnostic
from .driver import Driver, SyntaxFault, Token, Unexpected
from .tables import END

if TYPE_CHECKING:
    from .builder import Builder

MOST_ERRORS = 20
"""Errors of one text that are reported."""

_PIECE = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*|[{}\n]')
_OPERATION = re.compile(
    r'[ \t]*(?=%[\w$.-]+\s*[,=:]|[a-zA-Z_]\w*(?:\.\w|\s)|"[\w$.]+"\s*\(|\^[\w$.-]+\s*[(:]|[#!]\w+\s*=|\})'
)
_NAME = re.compile(r"[%^#!][\w$.-]+")


class Recovery:
    """The errors of one text, and how to go on after one."""

    def __init__(self, builder: Builder, diagnose: Callable[[SyntaxFault | Unexpected], Diagnostic]) -> None:
        self._found: list[tuple[int, Diagnostic]] = []
        self._builder = builder
        self._diagnose = diagnose
        self._last = -1
        self._latest: Exception | None = None

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The errors, in the order of the text."""
        return [diagnostic for _, diagnostic in sorted(self._found, key=lambda found: found[0])]

    def report(self, fault: SyntaxFault | Unexpected) -> None:
        """Keeps an error, unless it follows from an earlier one."""
        if fault is self._latest or len(self._found) >= MOST_ERRORS:
            return
        self._latest = fault
        if isinstance(fault, SyntaxFault) and fault.doubtful:
            return
        if self._found and isinstance(fault, Unexpected) and fault.kind in (END, "}"):
            return
        pos = fault.pos if isinstance(fault, SyntaxFault) else fault.token.pos
        if all(pos != other for other, _ in self._found):
            self._found.append((pos, self._diagnose(fault)))

    def resume(
        self, driver: Driver, fault: SyntaxFault | Unexpected, states: list[int], values: list[Any], place: int
    ) -> int | None:
        """Where to go on after an error at the token at ``place``; None where that makes no sense."""
        self.report(fault)
        if isinstance(fault, SyntaxFault):
            place = max(place, fault.pos)
            if fault.fatal:
                return None
        if place >= len(self._builder.text.rstrip()):
            return None
        top = _boundary(driver, states, isinstance(fault, Unexpected))
        if top is None or len(self._found) >= MOST_ERRORS:
            return None
        dropped = values[top:]
        opened = sum(_opens_region(driver, states, k) for k in range(1, top + 1))
        begin = min([place, *(t.pos for t in _tokens(dropped))])
        del states[top + 1 :]
        del values[top:]
        self._builder.abandon(opened)
        depth = sum(type(v) is str and v == "{" for v in dropped)
        stop = self._skip(place, depth, bool(dropped))
        self._builder.doubtful.update(str(t) for t in _tokens(dropped))
        self._builder.doubtful.update(_NAME.findall(self._builder.text, begin, stop))
        return stop

    def _skip(self, place: int, depth: int, may_stay: bool) -> int:
        """Start of the next line after ``place`` that begins an operation, outside of the braces opened on the way."""
        text = self._builder.text
        line = text.rfind("\n", 0, place) + 1
        at_line_start = place != self._last and not text[line:place].strip()
        if may_stay and depth == 0 and at_line_start and _OPERATION.match(text, place) is not None:
            self._last = place
            return place
        pos = place if text[place : place + 1] == "{" or may_stay else place + 1
        while (piece := _PIECE.search(text, pos)) is not None:
            pos = piece.end()
            if piece[0] == "{":
                depth += 1
            elif piece[0] == "}":
                if depth == 0:
                    return piece.start()
                depth -= 1
            elif piece[0] == "\n" and depth == 0:
                found = _OPERATION.match(text, pos)
                if found is not None:
                    self._last = found.end()
                    return found.end()
        return len(text)


def _boundary(driver: Driver, states: list[int], may_be_complete: bool) -> int | None:
    """The place on the stack up to which it stays: all of it, if what was read before the error is complete."""
    last = len(states) - 1
    ends = driver.accepts(states, "}") or driver.accepts(states, END)
    if (
        may_be_complete
        and ends
        and driver.accepts(states, "$STRING")
        and driver.tables.row(states[last]).get("$PCT_ID", -1) < 0
    ):
        return last
    return next((k for k in range(last, -1, -1) if _is_boundary(driver, states, k)), None)


def _is_boundary(driver: Driver, states: list[int], k: int) -> bool:
    """Whether an operation may begin in a state of the stack."""
    goto = driver.tables.goto(states[k])
    if "operation" in goto or "region_ops" in goto or "toplevel" in goto:
        return True
    return k > 0 and driver.tables.goto(states[k - 1]).get("block_head") == states[k]


def _opens_region(driver: Driver, states: list[int], k: int) -> bool:
    return driver.tables.goto(states[k - 1]).get("region_open") == states[k]


def _tokens(values: Iterable[Any]) -> Iterable[Token]:
    """Tokens in what was read, also in lists and tuples."""
    for value in values:
        if isinstance(value, Token):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tokens(value)
