"""Says in the field's words what is wrong with a text: ``expected ':' or '{' in 'arith.addf', found 'f32'``.

The parse tables know which tokens could come next; here they get words (``a type``, ``an SSA value (%name)``), and the
operation around the place is named.
"""

from __future__ import annotations

from typing import Any

from ..core.diagnostics import Diagnostic, Severity, file_location
from .driver import Driver, SyntaxFault, Token, Unexpected
from .grammar import Language
from .tables import END

_WORDS = {
    "$PCT_ID": "an SSA value (%name)",
    "$CARET_ID": "a block label (^name)",
    "$AT_ID": "a symbol name (@name)",
    "$STRING": "a string literal",
    "$INT": "an integer",
    "$HEX": "a hexadecimal integer",
    "$FLOAT": "a float",
    "$BARE_ID": "an identifier",
    "$HASH_NUM": "a result number (#n)",
    "$DIMS": "dimensions (4x?x)",
    "$VDIMS": "vector dimensions (4x)",
    "$UNRANKED": "'*x'",
    "$SCALAR": "a scalar type",
    "$HASH_ALIAS": "an attribute alias (#name)",
    "$BANG_ALIAS": "a type alias (!name)",
    "$ATTR_RAW": "a dialect attribute (#dialect.attr)",
    "$TYPE_RAW": "a dialect type (!dialect.type)",
    "$ANGLE_BODY": "'<'",
    END: "end of file",
}
_GROUPS = (
    ("op_body", "an operation"),
    ("attr", "an attribute"),
    ("type", "a type"),
    ("nonfn_type", "a type"),
    ("number", "a number"),
)
_MOST = 6
"""Alternatives that a message lists before it says '...'."""


def fault_error(fault: SyntaxFault, text: str, filename: str) -> Diagnostic:
    """The diagnostic of a fault."""
    notes = tuple(
        _diagnostic(Severity.NOTE, message, place, text, filename)
        if isinstance(place, int)
        else Diagnostic(Severity.NOTE, message, place)
        for message, place in fault.notes
    )
    return _diagnostic(Severity.ERROR, fault.message, fault.pos, text, filename, notes)


def unexpected_error(error: Unexpected, language: Language, text: str, filename: str) -> Diagnostic:
    """The diagnostic of a token that may not stand where it stands."""
    message = unexpected_message(error, language)
    return _diagnostic(Severity.ERROR, message, error.token.pos, text, filename)


def unexpected_message(error: Unexpected, language: Language) -> str:
    """What was expected, where, and what was found."""
    driver = language.driver
    accepted = set(driver.accepted(error.states))
    at_operation = set(driver.tables.first.get("op_body", ())) <= accepted
    if at_operation and error.kind == "$BARE_ID" and "$BARE_ID" not in accepted:
        return language.unknown_op(str(error.token))
    found = _found(error)
    words = _expected(driver, accepted)
    if len(words) > _MOST:
        words = [*words[: _MOST - 1], "..."]
    expected = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing more"
    where = _operation_around(error.values)
    return f"expected {expected}{f' in {where!r}' if where else ''}, found {found}"


def _found(error: Unexpected) -> str:
    if error.kind == END:
        return "end of file"
    if error.token == '"':
        return "an unterminated string"
    shown = error.token if len(error.token) <= 40 else error.token[:37] + "..."
    return f"'{shown}'"


def _expected(driver: Driver, accepted: set[str]) -> list[str]:
    words: list[str] = []
    left = {a for a in accepted if not a.startswith(("$OP_", "$SYNTAX_", "$ATTR_", "$TYPE_"))}
    for nonterminal, word in _GROUPS:
        first = set(driver.tables.first.get(nonterminal, ()))
        if len(first) > 1 and first <= accepted and first & left:
            words.append(word)
            left -= first
    if words:
        left -= {"loc", "$HASH_ALIAS", "$BANG_ALIAS", "{-#"}
    if words[:1] == ["an operation"]:
        left.discard("$PCT_ID")
    rest = sorted({_word(a) for a in left}, key=lambda w: (w[0] != "'", w))
    return words + rest


def _word(terminal: str) -> str:
    if not terminal.startswith("$"):
        return f"'{terminal}'"
    return _WORDS.get(terminal, terminal[1:].lower().replace("_", " "))


def _operation_around(values: list[Any]) -> str | None:
    """Name of the operation whose text is being read: the last name on the stack that no ``{`` of a region follows."""
    for value in reversed(values):
        if value == "{":
            return None
        if isinstance(value, Token) and value[:1].isalpha() and "." in value:
            return str(value)
        if isinstance(value, Token) and value[:1] == '"' and "." in value:
            return value[1:-1]
    return None


def _diagnostic(
    severity: Severity, message: str, pos: int, text: str, filename: str, notes: tuple[Diagnostic, ...] = ()
) -> Diagnostic:
    pos = min(max(pos, 0), len(text))
    line = text.count("\n", 0, pos) + 1
    column = pos - (text.rfind("\n", 0, pos) + 1) + 1
    return Diagnostic(severity, message, file_location(filename, line, column), notes)
