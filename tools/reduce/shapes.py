"""Smaller shapes: one extent, wherever it occurs in the module, becomes a smaller one.

Consistency is by value: dimensions that agree have the same size, so all of one size change together, in types, in
index expressions, in integer attributes, and with slices of the constants. Where that is wrong (a dimension that is
a product of two others), the verifier or the test says so. A symbolic dimension becomes a number the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    ModuleOp,
    ShapedType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.rewriter import Rewriter

from ...core.attributes import (
    DimsLayoutAttr,
    EncodingAttr,
    ExprListAttr,
    IndexMapAttr,
    SymExprAttr,
    memref_shape_exprs,
    memref_type,
    shape_exprs,
    tensor_type,
)
from ...core.context import TilewrightContext
from ...core.symexpr import Atom, ExprLike, SymExpr, as_expr, linear_sum, rebuild
from ...interp.arith import numpy_dtype
from .reducer import Candidate, Strategy


class SmallerShapes(Strategy):
    """Replaces an extent by 1, 2, 3 or half of it, in types alone or wherever the number occurs."""

    name = "shapes"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        sizes, symbols = _extents(module)
        found: list[tuple[int | str, int, bool]] = [(name, size, True) for name in symbols for size in (1, 2, 3)]
        for size in sizes:
            smaller = sorted({1, 2, 3, size // 2} - set(range(size, 4)) - {0})
            found += [(size, new, everywhere) for new in smaller if new < size for everywhere in (True, False)]
        return found

    def run(self, reducer: Any) -> None:
        """One at a time: sets of replacements would contradict each other."""
        index = 0
        while index < len(targets := self.targets(reducer.best, reducer.context)):
            if not reducer.attempt(self, [targets[index]]):
                index += 1

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        for old, new, everywhere in chosen:
            change = _Change(old, new, everywhere, candidate.context)
            for op in candidate.ops:
                for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
                    Rewriter.replace_value_with_new_type(value, change.attribute(value.type))
            for op in candidate.ops:
                for holder in (op.properties, op.attributes):
                    for name, value in holder.items():
                        holder[name] = change.attribute(value)
        return True


def _extents(module: ModuleOp) -> tuple[list[int], list[str]]:
    """The static extents in types, the largest first, and the symbols."""
    sizes: set[int] = set()
    symbols: set[str] = set()
    for op in module.walk():
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            if isinstance(value.type, ShapedType):
                sizes.update(size for size in value.type.get_shape() if size > 1)
            for slot in ("encoding", "layout"):
                dims = getattr(getattr(value.type, slot, None), "dims", ())
                symbols.update(name for dim in dims for name in dim.symbols())
    return sorted(sizes, reverse=True), sorted(symbols)


@dataclass
class _Change:
    """``old`` (an extent or a symbol) becomes ``new``."""

    old: int | str
    new: int
    everywhere: bool
    context: TilewrightContext

    def attribute(self, value: Attribute) -> Attribute:
        """The attribute with the extent replaced."""
        if isinstance(value, LocationAttr):
            return value
        if isinstance(value, TensorType | MemRefType | VectorType):
            return self._type(value)
        if isinstance(value, ArrayAttr):
            return ArrayAttr([self.attribute(v) for v in value.data])
        if isinstance(value, DictionaryAttr):
            return DictionaryAttr({name: self.attribute(v) for name, v in value.data.items()})
        if isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
            return self._literal(value)
        if self.everywhere:
            changed = self._number(value)
            if changed is not None:
                return changed
        if isinstance(value, ParametrizedAttribute) and value.parameters:
            parameters = [self.attribute(p) for p in value.parameters]
            return value if tuple(parameters) == tuple(value.parameters) else type(value).new(parameters)
        return value

    def _number(self, value: Attribute) -> Attribute | None:
        if isinstance(value, IntegerAttr):
            return IntegerAttr(self.new, value.type) if value.value.data == self.old else value
        if isinstance(value, DenseArrayBase) and isinstance(value.elt_type, IntegerType):
            return DenseArrayBase.from_list(value.elt_type, [self._int(int(n)) for n in value.get_values()])
        if isinstance(value, SymExprAttr):
            return SymExprAttr(self.expr(value.expr))
        if isinstance(value, ExprListAttr):
            return ExprListAttr([self.expr(e) for e in value.exprs])
        if isinstance(value, IndexMapAttr):
            return IndexMapAttr(value.num_inputs, [self.expr(e) for e in value.results])
        return None

    def _int(self, number: int) -> int:
        return self.new if number == self.old else number

    def expr(self, expr: SymExpr) -> SymExpr:
        """The expression with the number (as a constant or coefficient) or the symbol replaced."""
        if isinstance(self.old, str):
            return expr.subs({self.old: self.new})

        def in_atom(atom: Atom) -> ExprLike:
            return atom.expr if atom.name else rebuild(atom.kind, [self.expr(a) for a in atom.args])

        monomials, constant = expr.terms_and_constant()
        parts = []
        for monomial, coefficient in monomials:
            product = as_expr(1)
            for atom in monomial:
                product = product * in_atom(atom)
            parts.append((product, self._int(coefficient)))
        return linear_sum(parts, self._int(constant))

    def _type(self, type_: Any) -> Attribute:
        element = self.attribute(type_.element_type)
        if isinstance(type_, VectorType):
            return VectorType(element, [self._int(n) for n in type_.get_shape()], type_.scalable_dims)
        if isinstance(type_, TensorType):
            if not isinstance(type_.encoding, EncodingAttr):
                return TensorType(element, [self._int(n) for n in type_.get_shape()], type_.encoding)
            layout = type_.encoding.layout
            if layout is not None and self.everywhere:
                layout = IndexMapAttr(layout.num_inputs, [self.expr(e) for e in layout.results])
            return tensor_type(element, [self.expr(e) for e in shape_exprs(type_)], layout)
        if isinstance(type_.layout, DimsLayoutAttr):
            return memref_type(element, [self.expr(e) for e in memref_shape_exprs(type_)], type_.memory_space)
        return MemRefType(element, [self._int(n) for n in type_.get_shape()], type_.layout, type_.memory_space)

    def _literal(self, value: Any) -> Attribute:
        new_type: Any = self.attribute(value.type)
        if new_type == value.type or not new_type.has_static_shape():
            return value  # type: ignore[no-any-return]
        dtype, shape = numpy_dtype(value.type.element_type), value.type.get_shape()
        if isinstance(value, DenseResourceAttr):
            array = self.context.resources[value.resource_handle.data]
            name = self.context.resources.add(_cut(array, new_type.get_shape()), f"{value.resource_handle.data}_cut")
            return DenseResourceAttr.from_params(name, new_type)
        if dtype.kind == "b":
            array = np.array([bool(v) for v in value.get_values()])
        else:
            array = np.frombuffer(value.data.data, dtype)
        array = np.broadcast_to(array, shape) if array.size == 1 else array.reshape(shape)
        data = np.ascontiguousarray(_cut(array, new_type.get_shape())).tobytes()
        return DenseIntOrFPElementsAttr(new_type, BytesAttr(data))


def _cut(array: Any, shape: Sequence[int]) -> Any:
    """The first elements along each dimension."""
    index: Callable[[int], slice] = slice
    return array[tuple(index(n) for n in shape)]
