"""How a symbolic expression reads: ``mod`` recovered from the stored form, and the text.

The stored form (``symexpr``) has no ``mod``; code generation, range analysis and people want it back. The
text is what ``symtext`` and the ``.ir`` grammar parse: ``d0 * 16 + d1 floordiv 4``, ``min(a, b)``, with as
few parentheses as parse back.
"""

from __future__ import annotations

from collections.abc import Mapping

from .symexpr import Atom, Monomial, SymExpr, atom_key, const, floordiv, linear_sum, make_atom, monomial_key


def recover_mod(expr: SymExpr) -> tuple[tuple[Monomial, int], ...]:
    """Write ``C * (e - d * (e floordiv d))`` as ``C * (e mod d)`` wherever that makes the sum shorter.

    The last pair is ``((), constant)``.
    """
    found: dict[Monomial, int] = {}
    divisions = {a for m in expr._poly for a in m if a.kind == "floordiv"}
    if divisions and (len(expr._poly) > 1 or expr._const):
        for atom in sorted(divisions, key=atom_key):
            expr = _recover_one(expr, atom, divisions, found)
    merged = linear_sum(((expr, 1), (SymExpr(found, 0), 1)))
    ordered = sorted(merged._poly.items(), key=lambda item: monomial_key(item[0]))
    return (*ordered, ((), merged._const))


def _recover_one(expr: SymExpr, atom: Atom, divisions: set[Atom], found: dict[Monomial, int]) -> SymExpr:
    """Move the multiples of ``atom`` out of ``expr`` into ``found`` as a ``mod``, if that shortens it."""
    factor, rest = _coefficient_of(expr, atom)
    if not factor._poly and not factor._const:
        return expr
    dividend, divisor = atom.args
    for candidate in _mod_divisors(divisor, factor, divisions):
        scale = _exact_quotient(-factor, candidate)
        if scale is None:
            continue
        inner = dividend if candidate is divisor else floordiv(dividend, divisor._const // candidate._const)
        left = linear_sum(((rest, 1), (scale * inner, -1)))
        if _size(left) + _size(scale) < _size(expr):
            for monomial, c in [*scale._poly.items(), ((), scale._const)]:
                if c:
                    product = tuple(sorted((*monomial, make_atom("mod", (inner, candidate))), key=atom_key))
                    found[product] = found.get(product, 0) + c
            return left
    return expr


def _coefficient_of(expr: SymExpr, atom: Atom) -> tuple[SymExpr, SymExpr]:
    """``(factor, rest)``: ``expr = factor * atom + rest``, ``rest`` free of first powers of ``atom``."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in expr._poly.items():
        if monomial.count(atom) == 1:
            factor[tuple(a for a in monomial if a is not atom)] = c
        else:
            rest[monomial] = c
    return SymExpr(factor, factor.pop((), 0)), SymExpr(rest, expr._const)


def _mod_divisors(divisor: SymExpr, factor: SymExpr, divisions: set[Atom]) -> list[SymExpr]:
    """Divisors to try: the atom's own, and b of ``x floordiv (a * b) = (x floordiv a) floordiv b``."""
    if divisor._poly:
        return [divisor]
    d = divisor._const
    others = {d // k for a in divisions if not a.args[1]._poly and d % (k := a.args[1]._const) == 0}
    others |= {abs(c) for c in (*factor._poly.values(), factor._const) if c and d % abs(c) == 0}
    return [divisor, *(const(k) for k in sorted(others - {1, d}, reverse=True))]


def _exact_quotient(expr: SymExpr, divisor: SymExpr) -> SymExpr | None:
    if not divisor._poly:
        d = divisor._const
        if expr._const % d or any(c % d for c in expr._poly.values()):
            return None
        return SymExpr({m: c // d for m, c in expr._poly.items()}, expr._const // d)
    monomial, c = next(iter(divisor._poly.items()))
    ratio = expr._poly.get(monomial, 0) // c
    return const(ratio) if ratio and divisor * ratio == expr else None


def _size(expr: SymExpr) -> int:
    return len(expr._poly) + (expr._const != 0)


# Text. Precedence: 0 sum, 1 product/floordiv/mod (left-associative), 2 atom.


def format_expr(expr: SymExpr, names: Mapping[str, str] | None, precedence: int) -> str:
    terms, constant = expr.terms_and_constant()
    if not terms:
        return str(constant) if constant >= 0 or precedence == 0 else f"({constant})"
    pieces: list[str] = []
    for monomial, c in terms:
        # A leading minus binds tighter than floordiv: '-(a floordiv 4)'.
        first = 2 if c < 0 and not pieces else 1
        pieces += [" - " if c < 0 else " + ", _format_term(monomial, abs(c), names, precedence, first)]
    if constant:
        pieces += [" - " if constant < 0 else " + ", str(abs(constant))]
    pieces[0] = "-" if pieces[0] == " - " else ""
    text = "".join(pieces)
    compound = len(terms) > 1 or constant != 0 or terms[0][1] < 0
    return f"({text})" if compound and precedence > 0 else text


def _format_term(
    monomial: Monomial, coefficient: int, names: Mapping[str, str] | None, precedence: int, first: int
) -> str:
    factors = [format_atom(a, names, 2 if i else first) for i, a in enumerate(monomial)]
    if coefficient != 1:
        factors.append(str(coefficient))
    text = " * ".join(factors)
    if precedence < 2 or (len(factors) == 1 and monomial[0].kind in ("sym", "min", "max")):
        return text
    return f"({text})"


def format_atom(atom: Atom, names: Mapping[str, str] | None, precedence: int) -> str:
    if atom.name:
        return atom.name if names is None else names.get(atom.name, atom.name)
    if atom.kind in ("min", "max"):
        return f"{atom.kind}({', '.join(format_expr(a, names, 0) for a in atom.args)})"
    left, right = format_expr(atom.args[0], names, 1), format_expr(atom.args[1], names, 2)
    text = f"{left} {atom.kind} {right}"
    return f"({text})" if precedence > 1 else text
