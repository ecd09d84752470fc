"""A small parser for symbolic expressions, and the lists and maps that ``core.attributes`` makes of them.

Op syntax in ``.ir`` files is read by the Lark grammar; both build through the constructors of ``symexpr``.

    sum     := product (('+' | '-') product)*
    product := unary (('*' | 'floordiv' | 'ceildiv' | 'mod') unary)*
    unary   := '-' unary | integer | name | ('min' | 'max') '(' sum (',' sum)* ')' | '(' sum ')'
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .symexpr import ExprLike, SymExpr, ceildiv, const, floordiv, mod, sym, sym_max, sym_min

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_$.]*)|(->|[-+*(),=\[\]]))")
_MAX_DEPTH = 200

BINARY: dict[str, Callable[[ExprLike, ExprLike], SymExpr]] = {
    "*": lambda a, b: a * b if isinstance(a, SymExpr) else const(a) * b,
    "floordiv": floordiv,
    "ceildiv": ceildiv,
    "mod": mod,
}


def parse_expr(text: str) -> SymExpr:
    """The expression that ``text`` denotes; ``ValueError`` says what is wrong and at which column."""
    parser = ExprParser(text)
    result = parser.sum()
    parser.end()
    return result


class ExprParser:
    """Recursive descent over the tokens of one short text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        self.index = self.depth = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                found = text[position:].lstrip()[:1]
                column = text.index(found, position) + 1
                raise ValueError(f"column {column}: unexpected '{found}' in '{text}'")
            position = match.end()
            token = next(group for group in match.groups() if group)
            self.tokens.append((token, position - len(token)))

    @property
    def token(self) -> str:
        return self.tokens[self.index][0] if self.index < len(self.tokens) else ""

    def end(self) -> None:
        if self.token:
            raise self.error("the end")

    def error(self, expected: str) -> ValueError:
        column = self.tokens[self.index][1] + 1 if self.token else len(self.text) + 1
        found = f"'{self.token}'" if self.token else "the end"
        return ValueError(f"column {column}: expected {expected}, found {found} in '{self.text}'")

    def take(self) -> str:
        token = self.token
        self.index += 1
        return token

    def expect(self, token: str) -> None:
        if self.token != token:
            raise self.error(f"'{token}'")
        self.index += 1

    def accept(self, token: str) -> bool:
        if self.token != token:
            return False
        self.index += 1
        return True

    def expr_list(self, opening: str, closing: str) -> tuple[SymExpr, ...]:
        """``opening (sum (',' sum)*)? closing``"""
        self.expect(opening)
        items: list[SymExpr] = []
        if self.accept(closing):
            return ()
        items.append(self.sum())
        while self.accept(","):
            items.append(self.sum())
        self.expect(closing)
        return tuple(items)

    def sum(self) -> SymExpr:
        result = self.product()
        while self.token in ("+", "-"):
            result = result + self.product() if self.take() == "+" else result - self.product()
        return result

    def product(self) -> SymExpr:
        result = self.unary()
        while self.token in BINARY:
            operator = self.take()
            right = self.unary()
            try:
                result = BINARY[operator](result, right)
            except ZeroDivisionError:
                raise ValueError(f"division by zero in '{self.text}'") from None
        return result

    def unary(self) -> SymExpr:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ValueError(f"'{self.text[:40]}...' is nested too deeply")
        result = self.primary()
        self.depth -= 1
        return result

    def primary(self) -> SymExpr:
        token = self.token
        if token == "-":
            self.take()
            return -self.unary()
        if token == "(":
            self.take()
            result = self.sum()
            self.expect(")")
            return result
        if token in ("min", "max"):
            self.take()
            args = self.expr_list("(", ")")
            if not args:
                raise self.error(f"an argument of '{token}'")
            return sym_min(*args) if token == "min" else sym_max(*args)
        if token[:1].isdigit():
            return const(int(self.take()))
        if token[:1].isalpha() or token[:1] == "_":
            if token in BINARY:
                raise self.error("an expression")
            return sym(self.take())
        raise self.error("an expression")
