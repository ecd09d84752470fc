"""Index expressions as arithmetic on ``int64_t``.

Loop IR keeps indices exact, as expressions over loop variables, data-dependent indices and the kernel's symbols; here
they become C's arithmetic. Ranges of the variables decide whether a division may be C's own, which rounds to zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType, MemRefType, i64
from xdsl.ir import Attribute, SSAValue

from ...core.attributes import IndexMapAttr, memref_shape_exprs
from ...core.symbolic import Interval, SymExpr, bounds, const, sym
from .build import Builder
from .dialect import BinaryOp


class IndexLowering:
    """The indices of one function: what each is, as an expression over names that have values and ranges."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._exprs: dict[SSAValue, SymExpr] = {}
        self._values: dict[str, SSAValue] = {}
        self._ranges: dict[str, Interval] = {}

    # What is known.

    def bind(self, source: SSAValue, value: SSAValue, range: Interval = (None, None), name: str | None = None) -> None:
        """The index ``source`` of loop IR is ``value`` here; the kernel's symbols have names already."""
        name = name if name is not None else f"i${len(self._values)}"
        self._exprs[source] = sym(name)
        self.define(name, value, range)

    def define(self, name: str, value: SSAValue, range: Interval = (None, None)) -> None:
        """A symbol has a value."""
        self._values[name] = value
        self._ranges[name] = range

    def bind_expression(self, source: SSAValue, expr: SymExpr) -> None:
        """``source`` is the expression over what is bound: nothing is computed before it is used."""
        self._exprs[source] = expr

    def expression_of(self, source: SSAValue) -> SymExpr:
        return self._exprs[source]

    def bounds(self, expr: SymExpr) -> Interval:
        return bounds(expr, self._ranges)

    # Expressions.

    def resolve(self, map: IndexMapAttr, args: Sequence[SSAValue]) -> list[SymExpr]:
        """The results of a map over positional names, over what is bound."""
        values: Mapping[str, SymExpr] = {f"d{number}": self._exprs[arg] for number, arg in enumerate(args)}
        return [result.subs(values) for result in map.results]

    def offset(self, type: MemRefType[Attribute], indices: Sequence[SymExpr]) -> SymExpr:
        """The distance of an element from the start of the buffer, in elements."""
        total = const(0)
        for extent, index in zip(memref_shape_exprs(type), indices, strict=True):
            total = total * extent + index
        return total

    def value_of(self, source: SSAValue) -> SSAValue:
        """The value of an index of loop IR."""
        return self.value(self._exprs[source])

    def value(self, expr: SymExpr) -> SSAValue:
        """The value of a resolved expression."""
        terms, constant = expr.terms_and_constant()
        total: SSAValue | None = None
        for monomial, coefficient in sorted(terms, key=lambda term: term[1] < 0):
            if total is None:
                total = self._product(monomial, coefficient)
            else:
                term = self._product(monomial, abs(coefficient))
                total = self._binary(total, "-" if coefficient < 0 else "+", term)
        if total is None:
            return self.builder.integer(constant)
        if constant:
            return self._binary(total, "-" if constant < 0 else "+", self.builder.integer(abs(constant)))
        return total

    def condition(self, pairs: Sequence[SymExpr]) -> SSAValue | None:
        """Whether lhs < rhs for each pair; None where that is certain."""
        result: SSAValue | None = None
        for lhs, rhs in zip(pairs[::2], pairs[1::2], strict=True):
            low, _ = self.bounds(rhs - lhs)
            if low is not None and low > 0:
                continue
            lhs, rhs = _sorted_constants(lhs, rhs)
            test = self.builder.compare(self.value(lhs), "<", self.value(rhs))
            result = test if result is None else self.builder.plain(result, "&&", test)
        return result

    # Arithmetic.

    def _binary(self, lhs: SSAValue, operator: str, rhs: SSAValue) -> SSAValue:
        return self.builder.value(BinaryOp(lhs, operator, rhs))

    def _product(self, monomial: Sequence[object], coefficient: int) -> SSAValue:
        result: SSAValue | None = None
        for atom in monomial:
            value = self._atom(atom)
            result = value if result is None else self._binary(result, "*", value)
        assert result is not None
        return result if coefficient == 1 else self._binary(result, "*", self.builder.integer(coefficient))

    def _atom(self, atom: object) -> SSAValue:
        kind: str = atom.kind  # type: ignore[attr-defined]
        if kind == "sym":
            return self._values[atom.name]  # type: ignore[attr-defined]
        args: tuple[SymExpr, ...] = atom.args  # type: ignore[attr-defined]
        if kind in ("min", "max"):
            result = self.value(args[0])
            for arg in args[1:]:
                result = self.builder.call(f"tw_{kind}_i64", [result, self.value(arg)], i64)
            return result
        dividend, divisor = args
        low, _ = self.bounds(dividend)
        positive, _ = self.bounds(divisor)
        a, b = self.value(dividend), self.value(divisor)
        if low is not None and low >= 0 and positive is not None and positive > 0:
            return self._binary(a, "/" if kind == "floordiv" else "%", b)
        return self.builder.call(f"tw_{kind}_i64", [a, b], i64)


def _sorted_constants(lhs: SymExpr, rhs: SymExpr) -> tuple[SymExpr, SymExpr]:
    """``i - 1 < 8`` as ``i < 9``: the constants of a comparison with a constant on the constant's side."""
    if rhs.is_const():
        return lhs - lhs.constant, rhs - lhs.constant
    return (lhs - rhs.constant, rhs - rhs.constant) if lhs.is_const() else (lhs, rhs)


def is_index(value: SSAValue) -> bool:
    """Whether a value of loop IR is an index, which lives in ``IndexLowering``."""
    return isinstance(value.type, IndexType)
