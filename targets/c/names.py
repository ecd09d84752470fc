"""C identifiers and comments from names that a model may have: any text."""

from __future__ import annotations

import re

from .library import LIBRARY

_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
    bool true false and or not xor class new delete this template namespace private public protected operator
    I NULL NAN INFINITY EOF main errno assert
"""
RESERVED = frozenset(_KEYWORDS.split()) | frozenset(LIBRARY)
"""What no variable is called: keywords of C and C++, macros, and functions that the code may call."""


def identifier(name: str) -> str:
    """A C identifier that reads like the name."""
    text = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "value"
    if text[0].isdigit() or text.startswith("tw_") or text.endswith("_t"):
        text = f"v_{text}"
    return f"{text}_" if text in RESERVED or re.fullmatch(r"[A-Z0-9_]+_(MIN|MAX|C)", text) else text


class Names:
    """Names in use; scopes may be nested, and a name is free again when its scope is left."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._scopes: list[set[str]] = [set(taken)]

    def push(self) -> None:
        self._scopes.append(set())

    def pop(self) -> None:
        self._scopes.pop()

    def fresh(self, name: str) -> str:
        """The name as an identifier, with a number if it is in use."""
        base = identifier(name)
        found, number = base, 2
        while any(found in scope for scope in self._scopes):
            found = f"{base}_{number}"
            number += 1
        self._scopes[-1].add(found)
        return found


def comment(text: str) -> str:
    """Text that may stand in a comment."""
    return re.sub(r"\?(?=\?)", "? ", text.replace("*/", "* /").replace("/*", "/ *"))


def string_literal(text: str) -> str:
    """A string of C, in ASCII and without trigraphs."""
    pieces = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\?':
            pieces.append(f"\\{char}")
        else:
            pieces.append(char if 32 <= byte < 127 else f"\\{byte:03o}")
    return f'"{"".join(pieces)}"'
