"""Names for index values while code with index expressions is built: expressions in, operands and an index map out.

Lowerings compute with symbolic expressions over placeholders; an op wants its index values as operands and a map over
``d0, d1, ...``. The scope knows which value each placeholder stands for, and its range, with which expressions are
simplified and guards proved away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from xdsl.ir import SSAValue

from ...core.attributes import IndexMapAttr
from ...core.indexmap import dim, in_order_of_use
from ...core.symbolic import ExprLike, SymExpr, as_expr, bounds, simplify, sym

Exprs = tuple[SymExpr, ...]
Range = tuple[int | None, int | None]


def extent_range(extent: SymExpr) -> Range:
    """The range of an index that runs over ``extent``."""
    return 0, extent.const_value() - 1 if extent.is_const() else None


class SymbolRanges(dict[str, Range]):
    """Ranges of placeholders; any other name is a symbolic dimension, which is not negative."""

    def __missing__(self, name: str) -> Range:
        return 0, None

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]

    def __contains__(self, name: object) -> bool:
        return True


class IndexScope:
    """Placeholders, the values they stand for, and their ranges."""

    def __init__(self) -> None:
        self.values: dict[str, SSAValue] = {}
        self.ranges = SymbolRanges()
        self.extents: dict[str, SymExpr] = {}
        """Symbolic extents of indices: what a range of integers cannot say."""
        self._simplified: dict[SymExpr, SymExpr] = {}

    def add(self, prefix: str, value: SSAValue, range_: Range = (None, None)) -> SymExpr:
        """A placeholder ``prefix$k`` for an index value."""
        symbol = sym(f"{prefix}${len(self.values)}")
        self.bind(symbol.name, value, range_)
        return symbol

    def bind(self, name: str, value: SSAValue, range_: Range = (0, None)) -> None:
        """Let ``name`` stand for ``value``."""
        self.values[name] = value
        self.ranges[name] = range_

    def add_index(self, prefix: str, value: SSAValue, extent: SymExpr) -> SymExpr:
        """A placeholder for an index that runs over ``extent``."""
        symbol = self.add(prefix, value)
        self.bind_index(symbol.name, value, extent)
        return symbol

    def bind_index(self, name: str, value: SSAValue, extent: SymExpr) -> None:
        """Let ``name`` stand for an index that runs over ``extent``."""
        self.bind(name, value, extent_range(extent))
        if not extent.is_const():
            self.extents[name] = extent

    def simplified(self, expr: ExprLike) -> SymExpr:
        """``expr``, with divisions and extrema decided where the ranges allow."""
        expr = as_expr(expr)
        found = self._simplified.get(expr)
        if found is None:
            found = self._simplified[expr] = simplify(expr, self.ranges)
        return found

    def operands(self, exprs: Iterable[SymExpr]) -> tuple[list[SSAValue], IndexMapAttr]:
        """The index values that ``exprs`` need, and the map from them to the expressions."""
        exprs = tuple(exprs)
        used = frozenset[str]().union(*(e.symbols() for e in exprs))
        names = tuple(n for n in self.values if n in used)
        chosen, map_ = _positional_map(exprs, names)
        return [self.values[n] for n in chosen], map_

    def guards(self, exprs: Sequence[SymExpr], shape: Sequence[SymExpr]) -> list[SymExpr]:
        """Pairs (lhs, rhs), flattened: lhs < rhs says that the index is inside ``shape``; proved ones are left out."""
        pairs: list[SymExpr] = []
        for expr, extent in zip(exprs, shape, strict=True):
            if not self._at_least(expr, 0):
                pairs += [as_expr(-1), self._coarser(expr, 0)[0]]
            if not self._at_least(extent - expr, 1):
                pairs += self._coarser(expr, extent.const_value()) if extent.is_const() else (expr, extent)
        return pairs

    def _coarser(self, expr: SymExpr, limit: int) -> tuple[SymExpr, SymExpr]:
        """``expr < limit`` without the digits that do not matter: ``c * 16 + d < 64`` is ``c < 4`` for d below 16."""
        terms, _ = expr.as_linear()
        for factor in sorted({abs(c) for c in terms.values()} - {1}, reverse=True):
            quotient = self.simplified(expr // factor)
            if limit % factor == 0 and all(t.kind in ("sym", "mul") for t in quotient.as_linear()[0]):
                return quotient, as_expr(limit // factor)
        return expr, as_expr(limit)

    def _at_least(self, expr: SymExpr, least: int) -> bool:
        """Whether ``expr >= least`` is proved; an index of symbolic extent is at its worst at one of its ends."""
        for name, extent in self.extents.items():
            coefficient = expr.coefficient(name)
            if coefficient:
                expr = expr.subs({name: 0 if coefficient > 0 else extent - 1})
        low, _ = bounds(expr, self.ranges)
        return low is not None and low >= least


@lru_cache(maxsize=65536)
def _positional_map(exprs: Exprs, names: tuple[str, ...]) -> tuple[tuple[str, ...], IndexMapAttr]:
    """The map over ``d0, d1, ...`` in place of ``names``, in the order of their use, and the names in that order."""
    renamed = {n: dim(k) for k, n in enumerate(names)}
    results, order = in_order_of_use(tuple(e.subs(renamed) for e in exprs), len(names))
    return tuple(names[k] for k in order), IndexMapAttr(len(order), results)
