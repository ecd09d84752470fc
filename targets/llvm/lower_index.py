"""Index expressions as 64-bit arithmetic.

Loop IR keeps indices exact, as expressions over loop variables, data-dependent indices and the kernel's symbols. Here
they become instructions. An expression is first rewritten over unique names, so that equal expressions are equal
objects and are computed once per scope, and so that ranges of the variables decide how a division is made. Terms are
added from the outermost loop's variable to the innermost: whatever does not depend on an inner loop is then a partial
sum that LLVM moves out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IndexType, MemRefType, i64
from xdsl.ir import Attribute, SSAValue

from ...core.attributes import IndexMapAttr, memref_shape_exprs
from ...core.symbolic import Interval, SymExpr, bounds, const, sym
from .lower_build import NO_WRAP, FunctionBuilder

Monomial = tuple[tuple[object, ...], int]


class IndexLowering:
    """Computes index expressions in the function that `builder` builds."""

    def __init__(self, builder: FunctionBuilder) -> None:
        self.builder = builder
        self._exprs: dict[SSAValue, SymExpr] = {}
        self._values: dict[str, SSAValue] = {}
        self._ranges: dict[str, Interval] = {}
        self._depths: dict[str, int] = {}
        self._scopes: list[dict[SymExpr, SSAValue]] = [{}]

    # What is known.
    def bind(self, source: SSAValue, value: SSAValue, range: Interval = (None, None), name: str | None = None) -> None:
        """The index value `source` of loop IR is `value` here, within `range`; dimensions have names already."""
        name = name if name is not None else f"i${len(self._values)}"
        self._exprs[source] = sym(name)
        self._values[name] = value
        self._ranges[name] = range
        self._depths[name] = len(self._scopes)

    def bind_constant(self, source: SSAValue, value: int) -> None:
        self._exprs[source] = const(value)

    def bind_expression(self, source: SSAValue, expr: SymExpr) -> None:
        """`source` is the expression over what is bound: nothing is computed before it is used."""
        self._exprs[source] = expr

    def is_bound(self, source: SSAValue) -> bool:
        return source in self._exprs

    def expression_of(self, source: SSAValue) -> SymExpr:
        return self._exprs[source]

    def range_of(self, source: SSAValue) -> Interval:
        return bounds(self._exprs[source], self._ranges)

    def bounds(self, expr: SymExpr) -> Interval:
        return bounds(expr, self._ranges)

    def push(self) -> None:
        """Enter code that does not dominate what follows it."""
        self._scopes.append({})

    def pop(self) -> None:
        self._scopes.pop()

    # Expressions.
    def resolve(self, expr: SymExpr, args: Sequence[SSAValue]) -> SymExpr:
        """The expression over positional names, as one over what is bound."""
        return expr.subs({f"d{number}": self._exprs[arg] for number, arg in enumerate(args)})

    def resolve_map(self, map: IndexMapAttr, args: Sequence[SSAValue]) -> list[SymExpr]:
        values = {f"d{number}": self._exprs[arg] for number, arg in enumerate(args)}
        return [result.subs(values) for result in map.results]

    def value_of(self, source: SSAValue) -> SSAValue:
        """The 64-bit value of an index."""
        return self.value(self._exprs[source])

    def value(self, expr: SymExpr) -> SSAValue:
        """Instructions for a resolved expression, or what computed it before."""
        if expr.is_const():
            return self.builder.integer(expr.const_value())
        for scope in reversed(self._scopes):
            if (found := scope.get(expr)) is not None:
                return found
        result = self._sum(expr)
        self._scopes[-1][expr] = result
        return result

    def offset(self, type: MemRefType[Attribute], indices: Sequence[SymExpr]) -> SymExpr:
        """The distance of an element from the start of the buffer, in elements."""
        shape = memref_shape_exprs(type)
        total = const(0)
        for extent, index in zip(shape, indices, strict=True):
            total = total * extent + index
        return total

    def alignment(self, offset: SymExpr, size: int, base: int) -> int:
        """The alignment in bytes that an element at the offset certainly has, in a buffer aligned to `base`."""
        terms, constant = offset.terms_and_constant()
        step = gcd(constant, *(coefficient for _, coefficient in terms))
        return gcd(step * size, base) if step else base

    def condition(self, pairs: Sequence[SymExpr]) -> SSAValue | None:
        """Whether lhs < rhs for each pair; None where that is certain."""
        result: SSAValue | None = None
        for lhs, rhs in zip(pairs[::2], pairs[1::2], strict=True):
            low, _ = self.bounds(rhs - lhs)
            if low is not None and low > 0:
                continue
            test = self.builder.compare("slt", self.value(lhs), self.value(rhs))
            result = test if result is None else self.builder.make(llvm.AndOp, [result, test], test.type)
        return result

    # Arithmetic.
    def _sum(self, expr: SymExpr) -> SSAValue:
        terms, constant = expr.terms_and_constant()
        total: SSAValue | None = None
        for monomial, coefficient in sorted(terms, key=self._depth):
            if total is not None and coefficient == -1:
                total = self.builder.make(llvm.SubOp, [total, self._product(monomial, 1)], i64, NO_WRAP)
                continue
            term = self._product(monomial, coefficient)
            total = term if total is None else self._binary(llvm.AddOp, total, term)
        assert total is not None
        return self._binary(llvm.AddOp, total, self.builder.integer(constant)) if constant else total

    def _depth(self, term: tuple[Sequence[object], int]) -> int:
        names = (name for atom in term[0] for name in atom.symbols)  # type: ignore[attr-defined]
        return max((self._depths[name] for name in names), default=0)

    def _product(self, monomial: Sequence[object], coefficient: int) -> SSAValue:
        result: SSAValue | None = None
        for atom in monomial:
            value = self._atom(atom)
            result = value if result is None else self._binary(llvm.MulOp, result, value)
        assert result is not None
        return result if coefficient == 1 else self._binary(llvm.MulOp, result, self.builder.integer(coefficient))

    def _atom(self, atom: object) -> SSAValue:
        kind: str = atom.kind  # type: ignore[attr-defined]
        if kind == "sym":
            return self._values[atom.name]  # type: ignore[attr-defined]
        expr: SymExpr = atom.expr  # type: ignore[attr-defined]
        for scope in reversed(self._scopes):
            if (found := scope.get(expr)) is not None:
                return found
        args: tuple[SymExpr, ...] = atom.args  # type: ignore[attr-defined]
        extremum = kind in ("min", "max")
        result = self._extremum(f"llvm.s{kind}.i64", args) if extremum else self._division(kind, *args)
        self._scopes[-1][expr] = result
        return result

    def _extremum(self, intrinsic: str, args: Sequence[SymExpr]) -> SSAValue:
        result = self.value(args[0])
        for arg in args[1:]:
            result = self.builder.intrinsic(intrinsic, [result, self.value(arg)], i64)
        return result

    def _division(self, kind: str, dividend: SymExpr, divisor: SymExpr) -> SSAValue:
        """Rounding is towards minus infinity; unsigned division does that where the dividend is not negative."""
        a, b = self.value(dividend), self.value(divisor)
        low, _ = self.bounds(dividend)
        if low is not None and low >= 0:
            return self.builder.make(llvm.UDivOp if kind == "floordiv" else llvm.URemOp, [a, b], i64)
        quotient = floor_division(self.builder, a, b)
        if kind == "floordiv":
            return quotient
        product = self.builder.make(llvm.MulOp, [quotient, b], i64, NO_WRAP)
        return self.builder.make(llvm.SubOp, [a, product], i64, NO_WRAP)

    def _binary(self, kind: type[llvm.ArithmeticBinOpOverflow], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.builder.make(kind, [lhs, rhs], i64, NO_WRAP)


def floor_division(builder: FunctionBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    """a / b rounded towards minus infinity: one less than the truncated quotient where a remainder of the other sign
    is left.
    """
    type = a.type
    zero = builder.constant(type, 0)
    quotient = builder.make(llvm.SDivOp, [a, b], type)
    remainder = builder.make(llvm.SRemOp, [a, b], type)
    inexact = builder.compare("ne", remainder, zero)
    signs = builder.make(llvm.XOrOp, [remainder, b], type)
    opposite = builder.compare("slt", signs, zero)
    adjust = builder.make(llvm.AndOp, [inexact, opposite], inexact.type)
    return builder.make(llvm.SubOp, [quotient, builder.make(llvm.ZExtOp, [adjust], type)], type)


def is_index(value: SSAValue) -> bool:
    """Whether a value of loop IR is an index, which lives in `IndexLowering`."""
    return isinstance(value.type, IndexType)
