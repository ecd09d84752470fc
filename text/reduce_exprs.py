"""Reductions of expressions: affine maps and sets, index expressions over SSA values, expressions over names.

All are written in one grammar (sums, products, ``floordiv``, ``ceildiv``, ``mod``, ``min``, ``max``). A rule makes a
tree of tuples; what the leaves stand for is decided by who uses it: dimensions and symbols of an affine map, operands
of an operation (:meth:`index_exprs`), or symbolic names (:meth:`named_expr`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, IndexType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineExpr, AffineMap, AffineSet

from .driver import SyntaxFault, Token

if TYPE_CHECKING:
    from ..core.symbolic import SymExpr

ExprTree = tuple[Any, ...]
"""``("name", token) | ("value", token, index) | ("const", n) | (operator, tree, ...)``."""


class IndexExprs(NamedTuple):
    """Index expressions; ``d0, d1, ...`` in ``exprs`` stand for ``operands``, in order of first appearance."""

    exprs: tuple[SymExpr, ...]
    operands: list[SSAValue]


@dataclass(frozen=True)
class IndexMapTree:
    """``(d0, d1) -> (d0, d1 floordiv 16)`` as written; see :meth:`ExpressionReductions.index_map_exprs`."""

    names: list[Token]
    results: list[ExprTree]


_INDEX = IndexType()


class ExpressionReductions:
    """Mixed into :class:`~tilewright.text.builder.Builder`."""

    resolve: Callable[[Any, Attribute], SSAValue]

    # ---- trees ----

    def expr_name(self, token: Token) -> ExprTree:
        """A bare name."""
        return ("name", token)

    def expr_value(self, token: Token) -> ExprTree:
        """``%x``."""
        return ("value", token, 0)

    def expr_indexed(self, token: Token, index: Token) -> ExprTree:
        """``%x#1``."""
        return ("value", token, int(index[1:]))

    def expr_const(self, token: Token) -> ExprTree:
        """An integer."""
        if len(token) > 4000:
            raise SyntaxFault("integer literal is too long", token)
        return ("const", int(token))

    def expr_neg(self, a: ExprTree) -> ExprTree:
        """``-a``."""
        return ("neg", a)

    def expr_add(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a + b``."""
        return ("add", a, b)

    def expr_sub(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a - b``."""
        return ("sub", a, b)

    def expr_mul(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a * b``."""
        return ("mul", a, b)

    def expr_floordiv(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a floordiv b``."""
        return ("floordiv", a, b)

    def expr_ceildiv(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a ceildiv b``."""
        return ("ceildiv", a, b)

    def expr_mod(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a mod b``."""
        return ("mod", a, b)

    def expr_min(self, items: list[ExprTree]) -> ExprTree:
        """``min(a, b)``."""
        return ("min", *items)

    def expr_max(self, items: list[ExprTree]) -> ExprTree:
        """``max(a, b)``."""
        return ("max", *items)

    def index_map(self, names: list[Token], results: list[ExprTree]) -> IndexMapTree:
        """``(d0, d1) -> (...)``."""
        return IndexMapTree(names, results)

    # ---- what a tree stands for ----

    def index_exprs(self, trees: Sequence[ExprTree], type_: Attribute = _INDEX) -> IndexExprs:
        """Expressions over SSA values of type ``index``; bare names stay symbolic names.

        ``%i * 16 + %j`` gives ``(d0 * 16 + d1,)`` and ``[%i, %j]``."""
        from ..core.symbolic import sym

        operands: list[SSAValue] = []
        positions: dict[tuple[str, int], int] = {}

        def leaf(tree: ExprTree) -> SymExpr:
            if tree[0] == "name":
                return sym(str(tree[1]))
            key = (str(tree[1]), tree[2])
            if key not in positions:
                positions[key] = len(operands)
                operands.append(self.resolve(tree[1] if tree[2] == 0 else (tree[1], tree[2]), type_))
            return sym(f"d{positions[key]}")

        return IndexExprs(tuple(evaluate(t, leaf) for t in trees), operands)

    def named_expr(self, tree: ExprTree) -> SymExpr:
        """An expression over symbolic names, without SSA values."""
        from ..core.symbolic import sym

        def leaf(tree: ExprTree) -> SymExpr:
            if tree[0] == "value":
                raise SyntaxFault(f"expected a name, found the value {tree[1]}", tree[1])
            return sym(str(tree[1]))

        return evaluate(tree, leaf)

    def index_map_exprs(self, tree: IndexMapTree) -> tuple[int, tuple[SymExpr, ...]]:
        """Number of inputs of an index map, and its results over ``d0, d1, ...`` and symbolic names."""
        from ..core.symbolic import sym

        names = _positions(tree.names)

        def leaf(tree: ExprTree) -> SymExpr:
            if tree[0] == "value":
                raise SyntaxFault(f"expected a name, found the value {tree[1]}", tree[1])
            position = names.get(str(tree[1]))
            return sym(str(tree[1]) if position is None else f"d{position}")

        return len(tree.names), tuple(evaluate(t, leaf) for t in tree.results)

    # ---- affine ----

    def constraint_ge(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a >= b``."""
        return (AffineConstraintKind.ge, a, b)

    def constraint_le(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a <= b``."""
        return (AffineConstraintKind.le, a, b)

    def constraint_eq(self, a: ExprTree, b: ExprTree) -> ExprTree:
        """``a == b``."""
        return (AffineConstraintKind.eq, a, b)

    def affine_map(self, dims: list[Token], symbols: list[Token], results: list[ExprTree]) -> Any:
        """The parts of an affine map or set."""
        return dims, symbols, results

    def affine_map_attr(self, parts: tuple[list[Token], list[Token], list[ExprTree]]) -> Attribute:
        """``affine_map<(d0)[s0] -> (d0 + s0)>``."""
        dims, symbols, results = parts
        leaf = _affine_leaf(dims, symbols)
        return AffineMapAttr(AffineMap(len(dims), len(symbols), tuple(_affine(t, leaf) for t in results)))

    def affine_set_attr(self, parts: tuple[list[Token], list[Token], list[ExprTree]]) -> Attribute:
        """``affine_set<(d0)[s0] : (d0 >= s0)>``."""
        dims, symbols, constraints = parts
        leaf = _affine_leaf(dims, symbols)
        made = tuple(AffineConstraintExpr(k, _affine(x, leaf), _affine(y, leaf)) for k, x, y in constraints)
        return AffineSetAttr(AffineSet(len(dims), len(symbols), made))


def evaluate(tree: ExprTree, leaf: Callable[[ExprTree], SymExpr]) -> SymExpr:
    """A tree as a symbolic expression."""
    from ..core import symbolic as s

    op = tree[0]
    if op == "const":
        return s.const(tree[1])
    if op in ("name", "value"):
        return leaf(tree)
    args = [evaluate(t, leaf) for t in tree[1:]]
    match op:
        case "add":
            return args[0] + args[1]
        case "sub":
            return args[0] - args[1]
        case "mul":
            return args[0] * args[1]
        case "neg":
            return -args[0]
        case "floordiv":
            return s.floordiv(args[0], args[1])
        case "ceildiv":
            return s.ceildiv(args[0], args[1])
        case "mod":
            return s.mod(args[0], args[1])
        case "min":
            return s.sym_min(*args)
        case _:
            return s.sym_max(*args)


def _positions(names: Sequence[Token]) -> dict[str, int]:
    out: dict[str, int] = {}
    for i, token in enumerate(names):
        if str(token) in out:
            raise SyntaxFault(f"'{token}' is declared twice", token)
        out[str(token)] = i
    return out


def _affine_leaf(dims: Sequence[Token], symbols: Sequence[Token]) -> Callable[[Token], AffineExpr]:
    positions = _positions([*dims, *symbols])

    def leaf(token: Token) -> AffineExpr:
        position = positions.get(str(token))
        if position is None:
            raise SyntaxFault(f"undeclared name '{token}' in affine expression", token)
        if position < len(dims):
            return AffineExpr.dimension(position)
        return AffineExpr.symbol(position - len(dims))

    return leaf


def _affine(tree: ExprTree, leaf: Callable[[Token], AffineExpr]) -> AffineExpr:
    op = tree[0]
    if op == "const":
        return AffineExpr.constant(tree[1])
    if op == "name":
        return leaf(tree[1])
    if op == "value":
        raise SyntaxFault(f"expected a dimension or symbol, found the value {tree[1]}", tree[1])
    args = [_affine(t, leaf) for t in tree[1:]]
    match op:
        case "add":
            return args[0] + args[1]
        case "sub":
            return args[0] - args[1]
        case "mul":
            return args[0] * args[1]
        case "neg":
            return -args[0]
        case "floordiv":
            return args[0] // args[1]
        case "ceildiv":
            return args[0].ceil_div(args[1])
        case "mod":
            return args[0] % args[1]
        case _:
            raise ValueError(f"'{op}' may not stand in an affine map")
