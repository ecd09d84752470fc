"""Names of symbolic dimensions: the model's own where they are names, made-up ones elsewhere."""

from __future__ import annotations

import re

from ...core.symbolic import KEYWORDS, SymExpr, sym

LIMIT = 10**9
"""No dimension is so large."""


class SymbolNames:
    """The symbols of one function.

    All are at least 1, except those that data-dependent ops introduce, and below ``LIMIT``: exporters write ends of
    slices like 10 ** 9 for "all".
    """

    def __init__(self) -> None:
        self._by_param: dict[str, SymExpr] = {}
        self._used: set[str] = set()
        self._maybe_zero: set[str] = set()

    def named(self, param: str, hint: str) -> SymExpr:
        """The symbol of a ``dim_param``; the same name is the same symbol, ``?`` is none."""
        if not any(c.isalnum() for c in param):
            return self.fresh(hint, maybe_zero=False)
        if param not in self._by_param:
            self._by_param[param] = self._unused(param)
        return self._by_param[param]

    def fresh(self, hint: str, maybe_zero: bool = True) -> SymExpr:
        """A new symbol."""
        symbol = self._unused(hint)
        if maybe_zero:
            self._maybe_zero.add(symbol.name)
        return symbol

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Ranges of all symbols."""
        return {name: (0 if name in self._maybe_zero else 1, LIMIT - 1) for name in self._used}

    def _unused(self, hint: str) -> SymExpr:
        base = re.sub(r"[^A-Za-z0-9_]+", "_", hint).strip("_") or "n"
        if base[0].isdigit() or base in KEYWORDS or re.fullmatch(r"d\d+", base):
            base = f"dim_{base}"
        name, count = base, 0
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        return sym(name)
