"""Range analysis and range-aware simplification of symbolic expressions.

``ranges`` maps a symbol to its inclusive ``(low, high)``; ``None`` is unbounded, and so is a missing symbol.
All results are sound for every assignment within the ranges (divisions by zero aside); none is promised to be
the tightest. ``mod`` needs no rules of its own: the stored form has only ``floordiv`` (see ``symexpr``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd

from .symexpr import Atom, ExprLike, Monomial, SymExpr, as_expr, const, floordiv, linear_sum, rebuild

Interval = tuple[int | None, int | None]
Ranges = Mapping[str, tuple[int | None, int | None]]
UNBOUNDED: Interval = (None, None)
_MAX_ROUNDS = 4


def bounds(expr: ExprLike, ranges: Ranges) -> Interval:
    """Inclusive lower and upper bound of ``expr``; ``None`` where there is none."""
    terms, constant = as_expr(expr).terms_and_constant()
    low: int | None = constant
    high: int | None = constant
    for monomial, c in terms:
        lo, hi = _monomial_bounds(monomial, ranges)
        if c < 0:
            lo, hi = hi, lo
        low = None if low is None or lo is None else low + c * lo
        high = None if high is None or hi is None else high + c * hi
        if low is None and high is None:
            return UNBOUNDED
    return low, high


def _monomial_bounds(monomial: Monomial, ranges: Ranges) -> Interval:
    result = _atom_bounds(monomial[0], ranges)
    if len(monomial) == 1:
        return result
    for atom in monomial[1:]:
        result = _multiply(result, _atom_bounds(atom, ranges))
    if len(monomial) % 2 == 0 and all(atom is monomial[0] for atom in monomial):
        return max(result[0] or 0, 0), result[1]  # an even power
    return result


def _multiply(a: Interval, b: Interval) -> Interval:
    if None not in a and None not in b:
        products = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(products), max(products)
    (a_low, a_high), (b_low, b_high) = a, b
    if a_low is not None and b_low is not None and a_low >= 0 and b_low >= 0:
        high = a_high * b_high if a_high is not None and b_high is not None else None
        if a_high == 0 or b_high == 0:
            high = 0
        return a_low * b_low, high
    return UNBOUNDED


def _atom_bounds(atom: Atom, ranges: Ranges) -> Interval:
    kind = atom.kind
    if kind == "sym":
        return ranges.get(atom.name, UNBOUNDED)
    if kind == "floordiv":
        return _floordiv_bounds(atom.args[0], atom.args[1], ranges)
    if kind == "mod":
        return _mod_bounds(atom.args[0], atom.args[1], ranges)
    intervals = [bounds(a, ranges) for a in atom.args]
    lows = [lo for lo, _ in intervals if lo is not None]
    highs = [hi for _, hi in intervals if hi is not None]
    every = len(intervals)
    if kind == "min":
        return min(lows) if len(lows) == every else None, min(highs, default=None)
    return max(lows, default=None), max(highs) if len(highs) == every else None


def _floordiv_bounds(dividend: SymExpr, divisor: SymExpr, ranges: Ranges) -> Interval:
    low, high = bounds(dividend, ranges)
    small, large = bounds(divisor, ranges)
    if small is None or small <= 0:
        return UNBOUNDED
    # The quotient is monotone in the dividend; its sign says which end of the divisor is extreme.
    if low is not None:
        divide_by = large if low >= 0 else small
        low = low // divide_by if divide_by is not None else 0
    if high is not None:
        divide_by = small if high >= 0 else large
        high = high // divide_by if divide_by is not None else -1
    return low, high


def _mod_bounds(dividend: SymExpr, divisor: SymExpr, ranges: Ranges) -> Interval:
    small, large = bounds(divisor, ranges)
    if small is None or small <= 0:
        return UNBOUNDED
    low, high = bounds(dividend, ranges)
    if low is not None and high is not None:
        if small == large and low // small == high // small:
            return low % small, high % small
        if low >= 0 and high < small:
            return low, high
    if low is not None and low >= 0 and high is not None and (large is None or high < large):
        return 0, high
    return 0, None if large is None else large - 1


def simplify(expr: ExprLike, ranges: Ranges) -> SymExpr:
    """An expression equal within ``ranges``, its divisions and extrema decided where the ranges allow.

    (a * 16 + b) floordiv 16 --> a  and  (a * 16 + b) mod 16 --> b  for 0 <= b < 16
    min(a, 64) --> a  for a <= 64
    """
    expr = as_expr(expr)
    names = expr.sorted_symbols
    # Schedules ask the same again and again: what matters are the ranges of the symbols in the expression.
    return _simplify(expr, tuple([ranges.get(name, UNBOUNDED) for name in names])) if names else expr


@lru_cache(maxsize=65536)
def _simplify(expr: SymExpr, intervals: tuple[Interval, ...]) -> SymExpr:
    ranges = dict(zip(expr.sorted_symbols, intervals))
    for _ in range(_MAX_ROUNDS):
        new = _simplify_once(expr, ranges)
        if new is expr or all(a.kind == "sym" for m in new._poly for a in m):
            return new
        expr = new
    return expr


def _simplify_once(expr: SymExpr, ranges: Ranges) -> SymExpr:
    kept: dict[Monomial, int] = {}
    parts: list[tuple[SymExpr, int]] = []
    for monomial, c in expr._poly.items():
        if len(monomial) == 1:
            new = _simplify_atom(monomial[0], ranges)
            if new is monomial[0]._expr:
                kept[monomial] = c
            else:
                parts.append((as_expr(new), c))
        else:
            product: ExprLike = 1
            for atom in monomial:
                product = _simplify_atom(atom, ranges) * product
            parts.append((as_expr(product), c))
    new = linear_sum([(SymExpr(kept, expr._const), 1), *parts]) if parts else expr
    return expr if new == expr else new


def _simplify_atom(atom: Atom, ranges: Ranges) -> ExprLike:
    if atom.kind == "sym":
        low, high = ranges.get(atom.name, UNBOUNDED)
        return low if low is not None and low == high else atom.expr
    args = [simplify(a, ranges) for a in atom.args]
    if atom.kind == "floordiv":
        return _simplify_floordiv(args[0], args[1], ranges)
    kept = _undominated(args, atom.kind, ranges)
    return kept[0] if len(kept) == 1 else rebuild(atom.kind, kept)


def _simplify_floordiv(dividend: SymExpr, divisor: SymExpr, ranges: Ranges) -> SymExpr:
    if divisor._poly:
        return _simplify_symbolic_floordiv(dividend, divisor, ranges)
    decided = divide(dividend, divisor.const_value(), ranges)
    return floordiv(dividend, divisor) if decided is None else decided


def divide(dividend: SymExpr, d: int, ranges: Ranges) -> SymExpr | None:
    """``dividend floordiv d`` where the ranges decide it: for g | d and k * g <= r < (k + 1) * g,

    (g * x + r) floordiv d --> (x + k) floordiv (d floordiv g)
    """
    if d <= 0:
        return None
    candidates = {gcd(c, d) for c in dividend._poly.values()} | {d}
    for g in sorted(candidates - {1}, reverse=True):
        multiple = {m: c // g for m, c in dividend._poly.items() if c % g == 0}
        rest = SymExpr({m: c for m, c in dividend._poly.items() if c % g}, dividend._const)
        low, high = bounds(rest, ranges)
        if low is None or high is None or low // g != high // g:
            continue
        quotient = SymExpr(multiple, low // g)
        if g == d:
            return quotient
        decided = divide(quotient, d // g, ranges)
        return floordiv(quotient, d // g) if decided is None else decided
    return None


def _simplify_symbolic_floordiv(dividend: SymExpr, divisor: SymExpr, ranges: Ranges) -> SymExpr:
    """Symbolic divisor: what remains after multiples have left is 0 when 0 <= remainder < divisor."""
    result = floordiv(dividend, divisor)
    decided: list[tuple[SymExpr, int]] = []
    for monomial, c in result._poly.items():
        atom = monomial[0]
        if len(monomial) == 1 and atom.kind == "floordiv" and atom.args[1] == divisor:
            remainder = atom.args[0]
            if proves_le(0, remainder, ranges) and proves_lt(remainder, divisor, ranges):
                continue
        decided.append((SymExpr({monomial: 1}, 0), c))
    return linear_sum(decided, result._const)


def _undominated(args: list[SymExpr], kind: str, ranges: Ranges) -> list[SymExpr]:
    kept: list[SymExpr] = []
    for arg in args:
        if any(_dominates(other, arg, kind, ranges) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(arg, other, kind, ranges)]
        kept.append(arg)
    return kept


def _dominates(a: SymExpr, b: SymExpr, kind: str, ranges: Ranges) -> bool:
    return proves_le(a, b, ranges) if kind == "min" else proves_le(b, a, ranges)


def proves_le(a: ExprLike, b: ExprLike, ranges: Ranges) -> bool:
    """Whether ``a <= b`` for all values within the ranges is proved (``False`` means unknown)."""
    low, _ = bounds(as_expr(b) - as_expr(a), ranges)
    return low is not None and low >= 0


def proves_lt(a: ExprLike, b: ExprLike, ranges: Ranges) -> bool:
    low, _ = bounds(as_expr(b) - as_expr(a), ranges)
    return low is not None and low > 0


def proves_eq(a: ExprLike, b: ExprLike, ranges: Ranges) -> bool:
    difference = as_expr(a) - as_expr(b)
    return difference == 0 or simplify(difference, ranges) == const(0)
