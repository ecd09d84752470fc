"""Mixed-radix reading of index expressions: are different iterations different places?

``io * 16 + ii`` with ``ii < 16`` can be read back: both variables are *digits* of the number. So can ``f
floordiv 56`` beside ``f mod 56``. Parallel loops, moved consumers and vector lanes all ask this one question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ...core.symbolic import SymExpr, ceildiv, const
from .index import IndexSpace
from .regions import ZERO, prove_le, prove_lt


@dataclass(frozen=True)
class Digit:
    """``(name floordiv divisor) mod modulus``; a ``modulus`` of ``None`` is the leading digit. ``size`` bounds
    its values."""

    name: str
    divisor: SymExpr
    modulus: SymExpr | None
    size: SymExpr


def digit_of(space: IndexSpace, term: SymExpr) -> Digit | None:
    """The digit that a term is, if it is one."""
    kind = term.kind
    if kind == "mod":
        inner, modulus = term.args
        found = digit_of(space, inner)
        if found is None or found.modulus is not None:
            return None
        size = modulus if prove_le(space, modulus, found.size) else found.size
        return Digit(found.name, found.divisor, modulus, size)
    if kind == "floordiv" and term.args[0].kind == "sym":
        extent = space.extents.get(term.args[0].name)
        divisor = term.args[1]
        return None if extent is None else Digit(term.args[0].name, divisor, None, ceildiv(extent, divisor))
    if kind == "sym" and term.name in space.extents:
        return Digit(term.name, const(1), None, space.extents[term.name])
    return None


def readable_digits(space: IndexSpace, expr: SymExpr, moving: Collection[str]) -> list[tuple[int, Digit]] | None:
    """``(stride, digit)`` of all moving parts of ``expr``, smallest stride first, if each can be read back from
    the value (the fixed rest being known); ``None`` if not."""
    found: list[tuple[int, Digit]] = []
    for term, stride in expr.as_linear()[0].items():
        if term.symbols().isdisjoint(moving):
            continue
        digit = digit_of(space, term)
        if digit is None:
            return None
        found.append((abs(stride), digit))
    found.sort(key=lambda pair: pair[0])
    reach = ZERO
    for stride, digit in found:
        if not prove_lt(space, reach, stride):
            return None
        reach = reach + (digit.size - 1) * stride
    return found


def is_dense(space: IndexSpace, digits: Iterable[tuple[int, Digit]], start: SymExpr | int = 1) -> bool:
    """Whether the digits count without gaps from ``start`` (the size of what lies below them)."""
    expected = const(start) if isinstance(start, int) else start
    for stride, digit in digits:
        if expected != stride:
            return False
        expected = expected * digit.size
    return True


def determines(space: IndexSpace, digits: Iterable[Digit], name: str) -> bool:
    """Whether the digits of ``name`` among ``digits`` give its whole value."""
    own = sorted({d for d in digits if d.name == name}, key=lambda d: (d.divisor.is_const(), str(d)))
    reached = const(1)
    if prove_le(space, space.extents[name], reached):
        return True
    while own:
        step = next((d for d in own if d.divisor == reached), None)
        if step is None:
            return False
        if step.modulus is None:
            return True
        own.remove(step)
        reached = reached * step.modulus
        if prove_le(space, space.extents[name], reached):
            return True
    return False


def recovers(space: IndexSpace, exprs: Iterable[SymExpr], moving: Collection[str], name: str) -> bool:
    """Whether the value of ``name`` can be read back from the values of ``exprs``, all of ``moving`` being unknown."""
    digits: list[Digit] = []
    for expr in exprs:
        digits += [d for _, d in readable_digits(space, expr, moving) or ()]
    return determines(space, digits, name)
