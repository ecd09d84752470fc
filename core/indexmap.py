"""Index maps as plain functions: positional variables, image shapes, composition and inversion.

An index map takes ``d0 .. d{k-1}`` to a tuple of expressions. ``core.attributes.IndexMapAttr`` wraps these
functions; they live here because layouts, accesses and bindings all need them without the attribute around.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from .symexpr import ExprLike, SymExpr, as_expr, ceildiv, const, floordiv, mod, sym
from .symranges import bounds, simplify

Results = tuple[SymExpr, ...]


@lru_cache(maxsize=64)
def dim_names(count: int) -> tuple[str, ...]:
    return tuple(f"d{i}" for i in range(count))


def dim(index: int) -> SymExpr:
    """The positional variable ``d<index>``."""
    return sym(f"d{index}")


def identity_results(count: int) -> Results:
    return tuple(sym(name) for name in dim_names(count))


def apply_results(results: Results, args: Sequence[ExprLike]) -> Results:
    """The results at ``args``: position i replaces ``d<i>``."""
    values = dict(zip(dim_names(len(args)), args, strict=True))
    return tuple(r.subs(values) for r in results)


def ranges_of_shape(shape: Sequence[ExprLike]) -> dict[str, tuple[int | None, int | None]]:
    """Ranges of ``d0, d1, ...`` that index an array of ``shape``; a symbolic extent has no upper bound."""
    ranges: dict[str, tuple[int | None, int | None]] = {}
    for name, extent in zip(dim_names(len(shape)), shape):
        known = as_expr(extent)
        ranges[name] = (0, known.const_value() - 1 if known.is_const() else None)
    return ranges


def image_shape(results: Results, shape: Sequence[ExprLike]) -> Results:
    """The extents of the image: one more than the largest value of each result for indices within ``shape``.

    (d0 floordiv 16, d0 mod 16) over [40] --> [3, 16]; results must be monotone sums, divisions and
    remainders.
    """
    extents = [as_expr(e) for e in shape]
    return tuple(_largest(r, extents) + 1 for r in results)


def _largest(expr: SymExpr, shape: Sequence[SymExpr]) -> SymExpr:
    """Symbolic maximum over the index space, for expressions that do not decrease in any index."""
    ranges = ranges_of_shape(shape)
    low, high = bounds(expr, ranges)
    if high is not None and low is not None and all(e.is_const() for e in shape):
        return const(high)
    terms, constant = expr.as_linear()
    total = const(constant)
    for term, scale in terms.items():
        if scale < 0 and not term.symbols().isdisjoint(dim_names(len(shape))):
            raise ValueError(f"'{expr}' decreases in an index, its extent is unknown")
        total = total + _largest_term(term, shape) * scale
    return total


def _largest_term(term: SymExpr, shape: Sequence[SymExpr]) -> SymExpr:
    if term.kind == "sym":
        names = dim_names(len(shape))
        return shape[names.index(term.name)] - 1 if term.name in names else term
    if term.kind == "floordiv":
        dividend, divisor = term.args
        return floordiv(_largest(dividend, shape), divisor)
    if term.kind == "mod":
        return term.args[1] - 1
    raise ValueError(f"the extent of '{term}' is unknown")


def invert(results: Results, shape: Sequence[ExprLike]) -> Results:
    """The inverse map, for maps that split and merge dimensions in mixed radix; ``ValueError`` for any other.

    (d0, d1 floordiv 16, d2, d1 mod 16) over [n, 64, 7] --> (d0, d1 * 16 + d3, d2)
    (d0 * 8 + d1) over [4, 8] --> (d0 floordiv 8, d0 mod 8)
    """
    extents = [as_expr(e) for e in shape]
    ranges = ranges_of_shape(extents)
    pieces: list[dict[int, SymExpr]] = [{} for _ in extents]
    for position, result in enumerate(results):
        _collect_pieces(simplify(result, ranges), dim(position), extents, pieces)
    inverse: list[SymExpr] = []
    for index, found in enumerate(pieces):
        if not found and extents[index] != 1:
            raise ValueError(f"no result of ({', '.join(map(str, results))}) determines d{index}")
        inverse.append(sum((piece * stride for stride, piece in sorted(found.items())), const(0)))
    _check_inverse(results, inverse, extents)
    return tuple(inverse)


def _collect_pieces(
    result: SymExpr, value: SymExpr, extents: Sequence[SymExpr], pieces: list[dict[int, SymExpr]]
) -> None:
    """Decode ``value = sum(coefficient * piece)``; piece j is ``(value floordiv c_j) mod (c_{j+1} / c_j)``."""
    terms, constant = result.as_linear()
    if constant:
        value = value - constant
    ordered = sorted(terms.items(), key=lambda item: item[1])
    for position, (term, coefficient) in enumerate(ordered):
        piece = floordiv(value, coefficient)
        if position + 1 < len(ordered):
            following = ordered[position + 1][1]
            if coefficient <= 0 or following % coefficient:
                raise ValueError(f"'{result}' does not merge dimensions in mixed radix")
            piece = mod(piece, following // coefficient)
        index, stride = _piece_of(term, len(extents))
        if stride in pieces[index]:
            raise ValueError(f"d{index} is determined twice")
        pieces[index][stride] = piece


def _piece_of(term: SymExpr, rank: int) -> tuple[int, int]:
    """``(i, s)`` for a term that is digit ``(d<i> floordiv s) mod m`` of dimension i."""
    if term.kind == "mod":
        term = term.args[0]
    stride = 1
    if term.kind == "floordiv" and term.args[1].is_const():
        term, divisor = term.args
        stride = divisor.const_value()
    names = dim_names(rank)
    if term.kind != "sym" or term.name not in names:
        raise ValueError(f"'{term}' is not a digit of one dimension")
    return names.index(term.name), stride


def _check_inverse(results: Results, inverse: Sequence[SymExpr], extents: Sequence[SymExpr]) -> None:
    """The candidate must give every index back: ``inverse(map(d)) = d`` within the shape."""
    ranges = ranges_of_shape(extents)
    for index, expr in enumerate(apply_results(tuple(inverse), results)):
        expected = const(0) if extents[index] == 1 else dim(index)
        if simplify(expr, ranges) != simplify(expected, ranges):
            raise ValueError(f"({', '.join(map(str, results))}) has no inverse of mixed radix form")


def padded(shape: Sequence[ExprLike], multiples: Sequence[int]) -> Results:
    """Each extent rounded up to a multiple."""
    return tuple(ceildiv(as_expr(e), m) * m for e, m in zip(shape, multiples, strict=True))


_POSITIONAL = re.compile(r"\bd(\d+)\b")


@lru_cache(maxsize=65536)
def in_order_of_use(results: Results, count: int) -> tuple[Results, tuple[int, ...]]:
    """The map with its inputs in the order in which the text of ``results`` first names them, and their old positions.

    Inputs that no result uses are left out. The text form of an operation has its operands inside of the expressions,
    so this is the order in which they are read back: operations made in it print, parse and print again as the same
    text.

    (d1, d0 + d1) of 3 inputs --> (d0, d0 + d1) with (1, 0)
    """
    order = tuple(range(count))
    for _ in range(count + 2):
        used = dict.fromkeys(int(d) for r in results for d in _POSITIONAL.findall(str(r)) if int(d) < len(order))
        if list(used) == list(range(len(order))):
            break
        order = tuple(order[d] for d in used)
        results = tuple(r.subs({f"d{old}": dim(new) for new, old in enumerate(used)}) for r in results)
    return results, order
