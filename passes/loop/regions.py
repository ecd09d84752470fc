"""Which values an index expression takes while some loops run: the base of regions, placements and proofs.

A :class:`Span` says that an expression lies in ``low .. low + width``, where ``low`` may depend on the loops
that are held fixed and ``width`` does not. Spans are sound for quasi-affine expressions, and exact for the sums
of loop variables that splits and tiles make.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ...core.symbolic import ExprLike, SymExpr, as_expr, bounds, const, proves_le, sym_max, sym_min
from .index import IndexSpace

ZERO = const(0)


@dataclass(frozen=True)
class Span:
    """Values from ``low`` to ``low + width``, both included."""

    low: SymExpr
    width: SymExpr

    @property
    def high(self) -> SymExpr:
        """The largest value."""
        return self.low + self.width


def span(space: IndexSpace, expr: SymExpr, moving: Collection[str]) -> Span | None:
    """The span of ``expr`` while the names in ``moving`` take all their values; ``None`` where it is unbounded.

    Extents of moving loops must not depend on other moving loops.
    """
    if expr.symbols().isdisjoint(moving):
        return Span(expr, ZERO)
    kind = expr.kind
    if kind == "sym":
        extent = space.extents.get(expr.name)
        return None if extent is None else Span(ZERO, extent - 1)
    if kind == "add":
        return _sum([span(space, a, moving) for a in expr.args])
    if kind == "mul":
        return _product(space, expr, moving)
    if kind == "floordiv":
        return _floordiv(space, expr.args[0], expr.args[1], moving)
    if kind == "mod":
        return _mod(space, expr.args[0], expr.args[1], moving)
    return _extremum(kind, [span(space, a, moving) for a in expr.args])


def _sum(parts: list[Span | None]) -> Span | None:
    low, width = ZERO, ZERO
    for part in parts:
        if part is None:
            return None
        low, width = low + part.low, width + part.width
    return Span(low, width)


def _product(space: IndexSpace, expr: SymExpr, moving: Collection[str]) -> Span | None:
    """``factors * coefficient``: one factor may move, the others must have a known sign."""
    *factors, last = expr.args
    scale = last if last.is_const() else const(1)
    if not last.is_const():
        factors.append(last)
    moved = [f for f in factors if not f.symbols().isdisjoint(moving)]
    fixed = const(1)
    for f in factors:
        if f.symbols().isdisjoint(moving):
            if (bounds(f, space.ranges)[0] or 0) < 0 or bounds(f, space.ranges)[0] is None:
                return None
            fixed = fixed * f
    if len(moved) != 1:
        return None
    inner = span(space, moved[0], moving)
    if inner is None:
        return None
    factor = fixed * scale
    if scale.const_value() >= 0:
        return Span(inner.low * factor, inner.width * factor)
    return Span(inner.high * factor, inner.width * -factor)


def _floordiv(space: IndexSpace, a: SymExpr, b: SymExpr, moving: Collection[str]) -> Span | None:
    inner = span(space, a, moving)
    if inner is None or not b.symbols().isdisjoint(moving):
        return None
    low_divisor = bounds(b, space.ranges)[0]
    if low_divisor is None or low_divisor < 1:
        return None
    aligned = space.simplify(inner.low % b) == 0
    width = (inner.width if aligned else inner.width + b - 1) // b
    return Span(space.simplify(inner.low // b), space.simplify(width))


def _mod(space: IndexSpace, a: SymExpr, b: SymExpr, moving: Collection[str]) -> Span | None:
    if not b.symbols().isdisjoint(moving):
        return None
    inner = span(space, a, moving)
    if inner is not None:
        remainder = space.simplify(inner.low % b)
        if prove_lt(space, remainder + inner.width, b):
            return Span(remainder, inner.width)
    return Span(ZERO, b - 1)


def _extremum(kind: str, parts: list[Span | None]) -> Span | None:
    if any(p is None for p in parts):
        return None
    known = [p for p in parts if p is not None]
    widths = [p.width for p in known]
    pick = sym_min if kind == "min" else sym_max
    return Span(pick(*[p.low for p in known]), sym_max(*widths))


def hull(space: IndexSpace, spans: Iterable[Span]) -> Span | None:
    """One span that holds all of them; ``None`` where its width would depend on fixed loops."""
    spans = list(dict.fromkeys(spans))
    first = spans[0]
    if len(spans) == 1:
        return first
    offsets = [space.simplify(s.low - first.low) for s in spans]
    if not all(o.is_const() for o in offsets):
        return None
    start = min(o.const_value() for o in offsets)
    width = sym_max(*[s.width + (o.const_value() - start) for s, o in zip(spans, offsets)])
    return Span(first.low + start, space.simplify(width))


def prove_le(space: IndexSpace, a: ExprLike, b: ExprLike) -> bool:
    """Whether ``a <= b`` holds for all values of all names (``False`` means unknown)."""
    a, b = as_expr(a), as_expr(b)
    difference = b - a
    if proves_le(0, difference, space.ranges):
        return True
    if a.kind == b.kind == "floordiv" and a.args[1] == b.args[1] and prove_le(space, 1, a.args[1]):
        return prove_le(space, a.args[0], b.args[0])
    # Extents may be symbolic: put each variable at the end where the difference is smallest, innermost first.
    for _ in range(8):
        moving = difference.symbols() & space.extents.keys()
        inner = {n for n in moving if not any(n in space.extents[m].symbols() for m in moving)}
        found = span(space, difference, inner) if inner else None
        if found is None:
            return False
        difference = space.simplify(found.low)
        if proves_le(0, difference, space.ranges):
            return True
    return False


def prove_lt(space: IndexSpace, a: ExprLike, b: ExprLike) -> bool:
    """Whether ``a < b`` holds for all values of all names (``False`` means unknown)."""
    return prove_le(space, as_expr(a) + 1, b)
