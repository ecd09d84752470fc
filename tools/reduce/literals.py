"""Strategies over attributes: fewer of them, simpler values in constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation

from ...core.context import TilewrightContext
from ...interp.arith import numpy_dtype
from .reducer import Candidate, Strategy

_KEPT = frozenset(
    {"sym_name", "function_type", "sym_visibility", "operandSegmentSizes", "resultSegmentSizes", "op_name__"}
)
"""What is no attribute of an operation to its reader, but part of it."""


class DropAttributes(Strategy):
    """Removes attributes, and properties that are optional."""

    name = "drop-attributes"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        found: list[tuple[int, bool, str]] = []
        for number, op in enumerate(module.walk()):
            found += [(number, False, name) for name in sorted(op.attributes) if name not in _KEPT]
            found += [(number, True, name) for name in sorted(op.properties) if name not in _KEPT]
        return found

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        for number, is_property, name in chosen:
            op = candidate.ops[number]
            (op.properties if is_property else op.attributes).pop(name, None)
        return bool(chosen)


class SimplifyLiterals(Strategy):
    """Constants of one repeated number, in the text rather than among the resources: 1, 0, or their first element."""

    name = "literals"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [
            (number, name, choice)
            for choice in ("first", "one", "zero")
            for number, op in enumerate(module.walk())
            for name, value in op.properties.items()
            if _type_of(op, value) is not None
        ]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number, name, choice in chosen:
            op = candidate.ops[number]
            value = op.properties[name]
            type_ = _type_of(op, value)
            new = None if type_ is None else _splat(type_, value, choice, candidate.context)
            if new is not None and new != value:
                op.properties[name] = new
                changed = True
        return changed


def _type_of(op: Operation, value: Attribute) -> TensorType[Attribute] | None:
    """The type of a literal that this strategy writes anew: tensors, by value or by name."""
    if isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return value.type if isinstance(value.type, TensorType) else None
    if isinstance(value, SymbolRefAttr) and op.name == "graph.constant":
        type_ = op.results[0].type
        return type_ if isinstance(type_, TensorType) else None
    return None


def _splat(
    type_: TensorType[Attribute], old: Attribute, choice: str, context: TilewrightContext
) -> Attribute | None:
    import numpy as np

    if not type_.has_static_shape():
        return None
    dtype = numpy_dtype(type_.element_type)
    number: Any = 1 if choice == "one" else 0
    if choice == "first":
        number = _first(old, dtype, context)
        if number is None:
            return None
        if isinstance(type_.element_type, AnyFloat):
            number = round(float(number), 1) if abs(float(number)) < 1e6 else number
    count = int(np.prod(type_.get_shape(), dtype=np.int64))
    data = np.full(count, number, dtype).tobytes()
    return DenseIntOrFPElementsAttr(type_, BytesAttr(data))  # type: ignore[type-var]


def _first(old: Attribute, dtype: Any, context: TilewrightContext) -> Any:
    import numpy as np

    if isinstance(old, DenseIntOrFPElementsAttr):
        values = np.frombuffer(old.data.data, dtype) if dtype.kind != "b" else np.array(list(old.get_values()))
        return values[0] if values.size else None
    if isinstance(old, DenseResourceAttr):
        array = context.resources.get(old.resource_handle.data)
        return None if array is None or not array.size else array.reshape(-1)[0]
    return None
