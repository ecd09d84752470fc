"""Symbolic integer expressions in a canonical form: the data type behind ``core.symbolic``.

Why: shapes, index maps, loop bounds and block bindings are all integer expressions; when every constructor
returns the canonical form, attribute equality is shape equality and no pass needs its own arithmetic.

The form: a polynomial (monomial -> coefficient, plus a constant) over atoms. An atom is a symbol, a
``floordiv``, a ``min`` or a ``max``. ``mod`` is never stored: ``a mod b = a - b * (a floordiv b)`` holds for
floor semantics, so with ``floordiv`` alone every identity between the two is polynomial arithmetic.
``SymExpr.terms`` gives the reader's view with the ``mod`` recovered; printing, ``kind``/``args`` and range
analysis read that view.

Elsewhere: the reader's view and printing in ``symview``, range analysis and simplification in ``symranges``,
the parser in ``symtext``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import gcd
from types import ModuleType
from typing import Any, Union
from weakref import WeakValueDictionary

KEYWORDS = frozenset({"floordiv", "ceildiv", "mod", "min", "max"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
_DIGITS = re.compile(r"(\d+)")


class Atom:
    """An indivisible factor of a monomial, interned: equal atoms are one object."""

    __slots__ = ("__weakref__", "_expr", "_key", "args", "kind", "name", "symbols")

    kind: str
    name: str
    args: tuple[SymExpr, ...]
    symbols: frozenset[str]

    @property
    def expr(self) -> SymExpr:
        if self._expr is None:
            self._expr = mod(*self.args) if self.kind == "mod" else SymExpr({(self,): 1}, 0)
        return self._expr

    @property
    def key(self) -> tuple[Any, ...]:
        """Sort key: symbols first, numbers inside names by value (``d2`` before ``d10``)."""
        if self._key is None:
            text = self.name or _view().format_atom(self, None, 0)
            pieces = tuple(int(p) if i % 2 else p for i, p in enumerate(_DIGITS.split(text)))
            self._key = (0 if self.name else 1, pieces, text)
        return self._key

    _expr: SymExpr | None
    _key: tuple[Any, ...] | None


Monomial = tuple[Atom, ...]
ExprLike = Union["SymExpr", int]

# Interning is not state: it holds weak references only, and equal keys always denote the same atom.
_ATOMS: WeakValueDictionary[tuple[Any, ...], Atom] = WeakValueDictionary()
_LOCK = threading.Lock()


def make_atom(kind: str, args: tuple[SymExpr, ...], name: str = "") -> Atom:
    key = (kind, name, args)
    with _LOCK:
        found = _ATOMS.get(key)
        if found is None:
            found = Atom()
            found.kind, found.name, found.args = kind, name, args
            found.symbols = frozenset((name,)) if name else frozenset().union(*[a.symbols() for a in args])
            found._expr = found._key = None
            _ATOMS[key] = found
    return found


class SymExpr:
    """An immutable integer expression in canonical form, so that equal polynomials are equal objects."""

    __slots__ = ("_const", "_hash", "_names", "_poly", "_str", "_symbols", "_terms")

    _poly: dict[Monomial, int]
    _const: int
    _hash: int | None
    _str: str | None
    _names: tuple[str, ...] | None
    _symbols: frozenset[str] | None
    _terms: tuple[tuple[Monomial, int], ...] | None

    def __init__(self, poly: dict[Monomial, int], constant: int) -> None:
        """Internal: use ``const``, ``sym`` and operators. ``poly`` holds no zero, monomials are sorted."""
        self._poly = poly
        self._const = constant
        self._hash = self._str = self._symbols = self._names = self._terms = None

    # Comparison. A constant equals and hashes like the int.
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, SymExpr):
            return self._const == other._const and self._poly == other._poly
        if isinstance(other, int):
            return not self._poly and self._const == other
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            if self._poly:
                self._hash = hash((frozenset(self._poly.items()), self._const))
            else:
                self._hash = hash(self._const)
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        from .symtext import parse_expr

        return parse_expr, (str(self),)

    # Arithmetic.
    def __add__(self, other: ExprLike) -> SymExpr:
        if isinstance(other, int):
            return SymExpr(self._poly, self._const + other) if other else self
        if not isinstance(other, SymExpr):
            return NotImplemented
        poly = self._poly.copy()
        get = poly.get
        for monomial, c in other._poly.items():
            total = get(monomial, 0) + c
            if total:
                poly[monomial] = total
            else:
                del poly[monomial]
        return SymExpr(poly, self._const + other._const)

    def __radd__(self, other: int) -> SymExpr:
        return self + other

    def __sub__(self, other: ExprLike) -> SymExpr:
        if isinstance(other, int):
            return SymExpr(self._poly, self._const - other) if other else self
        if not isinstance(other, SymExpr):
            return NotImplemented
        return linear_sum(((self, 1), (other, -1)))

    def __rsub__(self, other: int) -> SymExpr:
        return linear_sum(((self, -1),), other)

    def __neg__(self) -> SymExpr:
        return linear_sum(((self, -1),))

    def __mul__(self, other: ExprLike) -> SymExpr:
        if isinstance(other, int):
            if other in (0, 1):
                return self if other else const(0)
            return SymExpr({m: c * other for m, c in self._poly.items()}, self._const * other)
        if not isinstance(other, SymExpr):
            return NotImplemented
        if not other._poly:
            return self * other._const
        if not self._poly:
            return other * self._const
        return _product(self, other)

    def __rmul__(self, other: int) -> SymExpr:
        return self * other

    def __floordiv__(self, other: ExprLike) -> SymExpr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> SymExpr:
        return floordiv(other, self)

    def __mod__(self, other: ExprLike) -> SymExpr:
        return mod(self, other)

    def __rmod__(self, other: int) -> SymExpr:
        return mod(other, self)

    # Reading.
    def is_const(self) -> bool:
        return not self._poly

    def const_value(self) -> int:
        """The value of a constant expression; ``ValueError`` for any other."""
        if self._poly:
            raise ValueError(f"'{self}' is not a constant")
        return self._const

    @property
    def constant(self) -> int:
        """The constant summand of ``terms`` (``n * 4 + 1`` has 1)."""
        return self.terms_and_constant()[1]

    @property
    def terms(self) -> tuple[tuple[tuple[SymExpr, ...], int], ...]:
        """The summands but the constant: ``(factors, coefficient)`` in canonical order, ``mod`` recovered."""
        return tuple((tuple(a.expr for a in m), c) for m, c in self.terms_and_constant()[0])

    def terms_and_constant(self) -> tuple[tuple[tuple[Monomial, int], ...], int]:
        """The reader's view: sorted ``(monomial, coefficient)`` pairs, with ``mod``, and the constant."""
        if self._terms is None:
            self._terms = _view().recover_mod(self)
        return self._terms[:-1], self._terms[-1][1]

    @property
    def kind(self) -> str:
        """What ``args`` are combined by: const, sym, add, mul, floordiv, mod, min or max."""
        if not self._poly:
            return "const"
        terms, constant = self.terms_and_constant()
        if constant or len(terms) > 1:
            return "add"
        monomial, coefficient = terms[0]
        return "mul" if coefficient != 1 or len(monomial) > 1 else monomial[0].kind

    @property
    def args(self) -> tuple[SymExpr, ...]:
        """The operands of ``kind``: for code generation and other structural walks."""
        kind = self.kind
        if kind in ("const", "sym"):
            return ()
        terms, constant = self.terms_and_constant()
        if kind == "add":
            summands = tuple(_monomial_expr(m) * c for m, c in terms)
            return (*summands, const(constant)) if constant else summands
        monomial, coefficient = terms[0]
        if kind == "mul":
            factors = tuple(a.expr for a in monomial)
            return (*factors, const(coefficient)) if coefficient != 1 else factors
        return monomial[0].args

    @property
    def name(self) -> str:
        """The name of a ``sym``; ``ValueError`` for any other expression."""
        if self.kind != "sym":
            raise ValueError(f"'{self}' is not a symbol")
        return next(iter(self._poly))[0].name

    def symbols(self) -> frozenset[str]:
        if self._symbols is None:
            self._symbols = frozenset().union(*[a.symbols for m in self._poly for a in m])
        return self._symbols

    @property
    def sorted_symbols(self) -> tuple[str, ...]:
        """The symbols in alphabetical order."""
        if self._names is None:
            self._names = tuple(sorted(self.symbols()))
        return self._names

    def as_linear(self) -> tuple[dict[SymExpr, int], int]:
        """``({term: coefficient}, constant)``. A term is a symbol, a product, a floordiv, mod, min or max."""
        terms, constant = self.terms_and_constant()
        return {_monomial_expr(m): c for m, c in terms}, constant

    def coefficient(self, name: str) -> int | None:
        """The coefficient of symbol ``name``; ``None`` when the expression is not linear in it."""
        found = 0
        for monomial, c in self._poly.items():
            if len(monomial) == 1 and monomial[0].name == name:
                found = c
            elif any(name in a.symbols for a in monomial):
                return None
        return found

    # Substitution and evaluation.
    def subs(self, values: Mapping[str, ExprLike]) -> SymExpr:
        """Replace symbols, all at once; names that do not occur are ignored."""
        if not self._poly or self.symbols().isdisjoint(values):
            return self
        return self.map_atoms(lambda a: _subs_atom(a, values))

    def map_atoms(self, function: Callable[[Atom], ExprLike]) -> SymExpr:
        """Rebuild with each atom of the stored form replaced."""
        parts: list[tuple[SymExpr, int]] = []
        for monomial, c in self._poly.items():
            product: ExprLike = function(monomial[0])
            for atom in monomial[1:]:
                product = product * function(atom)
            parts.append((as_expr(product), c))
        return linear_sum(parts, self._const)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value under ``values``; a missing symbol is a ``KeyError``."""
        total = self._const
        for monomial, c in self._poly.items():
            for atom in monomial:
                c *= _evaluate_atom(atom, values)
            total += c
        return total

    # Text.
    def __str__(self) -> str:
        if self._str is None:
            self._str = self.format()
        return self._str

    def __repr__(self) -> str:
        return f"SymExpr({str(self)!r})"

    def format(self, names: Mapping[str, str] | None = None) -> str:
        """The text form; ``names`` renames symbols in the output (to ``%i``, say)."""
        text: str = _view().format_expr(self, names, 0)
        return text


def _view() -> ModuleType:
    from . import symview

    return symview


def as_expr(value: ExprLike) -> SymExpr:
    return value if isinstance(value, SymExpr) else const(value)


@lru_cache(maxsize=4096)
def const(value: int) -> SymExpr:
    return SymExpr({}, int(value))


@lru_cache(maxsize=4096)
def sym(name: str) -> SymExpr:
    """A symbol. The name is an identifier (dots allowed) and no operator word."""
    if _NAME.match(name) is None or name in KEYWORDS:
        raise ValueError(f"'{name}' cannot name a symbol")
    return make_atom("sym", (), name).expr


def linear_sum(parts: Iterable[tuple[SymExpr, int]], constant: int = 0) -> SymExpr:
    """``sum(coefficient * expression) + constant`` in one pass."""
    poly: dict[Monomial, int] = {}
    get = poly.get
    for expr, scale in parts:
        if not scale:
            continue
        constant += expr._const * scale
        for monomial, c in expr._poly.items():
            total = get(monomial, 0) + c * scale
            if total:
                poly[monomial] = total
            else:
                del poly[monomial]
    return SymExpr(poly, constant)


def _product(a: SymExpr, b: SymExpr) -> SymExpr:
    poly: dict[Monomial, int] = {}
    rows = [*a._poly.items(), ((), a._const)] if a._const else list(a._poly.items())
    columns = [*b._poly.items(), ((), b._const)] if b._const else list(b._poly.items())
    for left, c in rows:
        for right, k in columns:
            monomial = tuple(sorted(left + right, key=atom_key)) if left and right else left or right
            total = poly.get(monomial, 0) + c * k
            if total:
                poly[monomial] = total
            else:
                del poly[monomial]
    return SymExpr(poly, poly.pop((), 0))


def atom_key(atom: Atom) -> tuple[Any, ...]:
    return atom.key


def floordiv(a: ExprLike, b: ExprLike) -> SymExpr:
    """Division rounded to minus infinity."""
    if isinstance(a, int) and isinstance(b, int):
        return const(a // b)
    a, b = as_expr(a), as_expr(b)
    return _floordiv_const(a, b._const) if not b._poly else _floordiv_symbolic(a, b)


def mod(a: ExprLike, b: ExprLike) -> SymExpr:
    """The remainder of ``floordiv``, with the sign of ``b``: ``a - b * (a floordiv b)``."""
    a, b = as_expr(a), as_expr(b)
    return a - b * floordiv(a, b)


def ceildiv(a: ExprLike, b: ExprLike) -> SymExpr:
    """Division rounded to plus infinity."""
    a, b = as_expr(a), as_expr(b)
    if not b._poly and b._const > 0:
        return floordiv(a + (b._const - 1), b)
    return -floordiv(-a, b)


@lru_cache(maxsize=65536)
def _floordiv_const(a: SymExpr, d: int) -> SymExpr:
    """``a floordiv d``: multiples of d leave, common divisors cancel, nested divisions merge."""
    if d == 0:
        raise ZeroDivisionError(f"division of '{a}' by zero")
    if d < 0:
        return _floordiv_const(-a, -d)
    if d == 1:
        return a
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    common = d
    for monomial, c in a._poly.items():
        # Whole multiples only: taking 4 * n out of 5 * n would tear the two summands of a mod apart.
        if c % d == 0:
            quotient[monomial] = c // d
        else:
            rest[monomial] = c
            common = gcd(common, c)
    q, r = divmod(a._const, d)
    if not rest:
        return SymExpr(quotient, q)
    # (g * x + r) floordiv (g * e) = (x + r floordiv g) floordiv e
    inner = SymExpr({m: c // common for m, c in rest.items()}, r // common)
    return linear_sum(((SymExpr(quotient, q), 1), (_floordiv_rest(inner, d // common), 1)))


def _floordiv_rest(inner: SymExpr, d: int) -> SymExpr:
    if d == 1:
        return inner
    if len(inner._poly) > 1 and any(a.kind != "sym" for m in inner._poly for a in m):
        from .symranges import divide

        decided = divide(inner, d, {})  # a mod has a range of its own
        if decided is not None:
            return decided
    divisions = [m for m in inner._poly if any(a.kind == "floordiv" for a in m)]
    if len(divisions) == 1 and len(divisions[0]) == 1 and inner._poly[divisions[0]] == 1:
        dividend, divisor = divisions[0][0].args
        if not divisor._poly:
            # (x floordiv e + y) floordiv d = (x + y * e) floordiv (d * e)
            other = SymExpr({m: c for m, c in inner._poly.items() if m is not divisions[0]}, inner._const)
            return _floordiv_const(dividend + other * divisor._const, d * divisor._const)
    return make_atom("floordiv", (inner, const(d))).expr


def _floordiv_symbolic(a: SymExpr, b: SymExpr) -> SymExpr:
    """``a floordiv b`` for a divisor with symbols: multiples of a one-term divisor leave."""
    if a == 0:
        return a
    if a == b:
        return const(1)
    if b._const or len(b._poly) > 1:
        return make_atom("floordiv", (a, b)).expr
    ((divisor, scale),) = b._poly.items()
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    constant = 0
    for monomial, c in a._poly.items():
        left = _divide_monomial(monomial, divisor) if c % scale == 0 else None
        if left is None:
            rest[monomial] = c
        elif left:
            quotient[left] = c // scale
        else:
            constant = c // scale
    remainder = SymExpr(rest, a._const)
    if remainder == 0:
        return SymExpr(quotient, constant)
    return SymExpr(quotient, constant) + make_atom("floordiv", (remainder, b)).expr


def _divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def sym_min(*args: ExprLike) -> SymExpr:
    return _extremum("min", args)


def sym_max(*args: ExprLike) -> SymExpr:
    return _extremum("max", args)


def _extremum(kind: str, args: tuple[ExprLike, ...]) -> SymExpr:
    """Flatten, keep one argument of those that differ by a constant only, sort."""
    if not args:
        raise ValueError(f"{kind} of nothing")
    choose = min if kind == "min" else max
    best: dict[frozenset[tuple[Monomial, int]], SymExpr] = {}
    pending = [as_expr(a) for a in args]
    while pending:
        arg = pending.pop()
        nested = _as_extremum(arg, kind)
        if nested is not None:
            pending.extend(nested)
            continue
        key = frozenset(arg._poly.items())
        other = best.get(key)
        best[key] = arg if other is None or choose(arg._const, other._const) == arg._const else other
    if len(best) == 1:
        return next(iter(best.values()))
    return make_atom(kind, tuple(sorted(best.values(), key=_expr_key))).expr


def _as_extremum(expr: SymExpr, kind: str) -> tuple[SymExpr, ...] | None:
    """The arguments, with the constant summand pushed inside, when ``expr`` is ``kind(...) + constant``."""
    if len(expr._poly) != 1:
        return None
    ((monomial, c),) = expr._poly.items()
    if c != 1 or len(monomial) != 1 or monomial[0].kind != kind:
        return None
    return tuple(a + expr._const for a in monomial[0].args)


def _expr_key(expr: SymExpr) -> tuple[Any, ...]:
    return (not expr._poly, [a.key for m in sorted(expr._poly, key=monomial_key) for a in m], str(expr))


def _subs_atom(atom: Atom, values: Mapping[str, ExprLike]) -> ExprLike:
    if atom.name:
        found = values.get(atom.name)
        return atom.expr if found is None else found
    if atom.symbols.isdisjoint(values):
        return atom.expr
    return rebuild(atom.kind, [a.subs(values) for a in atom.args])


def rebuild(kind: str, args: list[SymExpr]) -> SymExpr:
    """The expression ``kind`` makes of ``args`` (floordiv, mod, min, max)."""
    if kind == "floordiv":
        return floordiv(args[0], args[1])
    if kind == "mod":
        return mod(args[0], args[1])
    return _extremum(kind, tuple(args))


def _evaluate_atom(atom: Atom, values: Mapping[str, int]) -> int:
    kind = atom.kind
    if kind == "sym":
        return values[atom.name]
    if kind == "floordiv":
        return atom.args[0].evaluate(values) // atom.args[1].evaluate(values)
    return (min if kind == "min" else max)(a.evaluate(values) for a in atom.args)


def monomial_key(monomial: Monomial) -> tuple[Any, ...]:
    return tuple([a.key for a in monomial])


@lru_cache(maxsize=16384)
def _monomial_expr(monomial: Monomial) -> SymExpr:
    if len(monomial) == 1:
        return monomial[0].expr
    product = monomial[0].expr
    for atom in monomial[1:]:
        product = product * atom.expr
    return product
