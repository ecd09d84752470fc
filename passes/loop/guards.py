"""Guards inside a loop, and where they hold: the analysis behind ``loop-partition``.

A guard is one pair lhs < rhs of a ``where``. Its *excess* ``lhs - rhs + 1`` is at most 0 exactly where it
holds; the largest excess over the loops inside decides whether one iteration of a loop is free of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ...core.symbolic import SymExpr, as_expr, ceildiv, const
from ...dialects.loop.ops import ForOp, IfOp, LoadOp, StoreOp
from .digits import Digit, digit_of
from .index import IndexSpace
from .nest import loops_around
from .regions import prove_le, span


@dataclass(frozen=True)
class Guard:
    """Pair number ``pair`` of the ``where`` of ``op``; ``worst`` is the largest excess over the loops inside
    the loop that the guard was collected for, ``exact`` whether no inner loop changes it."""

    op: Operation
    pair: int
    worst: SymExpr
    exact: bool
    inner: tuple[ForOp, ...]
    """The loops inside that change the guard."""


def guards_in(space: IndexSpace, loop: ForOp) -> list[Guard]:
    """All guards inside ``loop`` that depend on its variable and that some iterations may be free of."""
    name = space.name(loop.var)
    found: list[Guard] = []
    for op in loop.body.walk():
        if not isinstance(op, LoadOp | StoreOp | IfOp) or op.where is None:
            continue
        pairs = space.read(op, "where")
        around = loops_around(op)
        inside = around[around.index(loop) + 1 :]
        for number, (lhs, rhs) in enumerate(zip(pairs[::2], pairs[1::2])):
            excess = space.simplify(lhs - rhs + 1)
            if name not in excess.symbols():
                continue
            inner = tuple(x for x in inside if space.name(x.var) in excess.symbols())
            worst = _worst(space, excess, inner)
            if worst is not None and not prove_le(space, 1, worst):
                found.append(Guard(op, number, worst, not inner, inner))
    return found


def _worst(space: IndexSpace, excess: SymExpr, inner: tuple[ForOp, ...]) -> SymExpr | None:
    for loop in reversed(inner):
        found = span(space, excess, {space.name(loop.var)})
        if found is None:
            return None
        excess = space.simplify(found.high)
    return excess


def true_range(space: IndexSpace, loop: ForOp, guard: Guard) -> tuple[SymExpr, SymExpr] | None:
    """Iterations ``low .. high - 1`` of ``loop`` in which the guard always holds; ``None`` where it is not linear."""
    name = space.name(loop.var)
    scale = guard.worst.coefficient(name)
    if not scale:
        return None
    rest = guard.worst - space.var(loop.var) * scale
    extent = space.extent(loop)
    if scale > 0:
        return const(0), space.simplify((-rest) // scale + 1)
    return space.simplify(ceildiv(rest, -scale)), extent


@dataclass(frozen=True)
class DigitCondition:
    """A guard that depends on one digit of a loop variable: it holds where ``low <= digit < high``."""

    digit: Digit
    low: int
    high: int
    size: int

    @property
    def only_false(self) -> int | None:
        """The digit's value where the guard does not hold, if it is a single one."""
        outside = [v for v in range(self.size) if not self.low <= v < self.high]
        return outside[0] if len(outside) == 1 else None


def digit_condition(space: IndexSpace, loop: ForOp, worst: SymExpr) -> DigitCondition | None:
    """The digit of the loop's variable that ``worst`` depends on, if that is all it depends on."""
    terms, constant = worst.as_linear()
    if len(terms) != 1:
        return None
    ((term, scale),) = terms.items()
    digit = digit_of(space, term)
    if digit is None or digit.name != space.name(loop.var) or not digit.size.is_const():
        return None
    size = digit.size.const_value()
    if size > 1 << 16:
        return None
    holds = [v for v in range(size) if scale * v + constant <= 0]
    if not holds:
        return None
    return DigitCondition(digit, holds[0], holds[-1] + 1, size)


def as_pair(worst: SymExpr) -> tuple[SymExpr, SymExpr]:
    """``worst <= 0`` as a pair lhs < rhs without negative terms."""
    terms, constant = (worst - 1).as_linear()
    lhs, rhs = as_expr(0), as_expr(0)
    for term, scale in terms.items():
        if scale > 0:
            lhs = lhs + term * scale
        else:
            rhs = rhs + term * -scale
    return (lhs + constant, rhs) if constant > 0 else (lhs, rhs - constant)
