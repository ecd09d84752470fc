"""What an import rule sees: one node of the model, its inputs and attributes, and a place to emit graph ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerType, LocationAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...core.attributes import shape_exprs
from ...core.symbolic import ExprLike, SymExpr, as_expr
from ...dialects.graph.base import Shape, Tensor, tensor_of
from ...dialects.graph.elementwise import CastOp
from ...dialects.graph.shape import BroadcastToOp, DimsOp, ReshapeOp
from ...dialects.graph.structure import MatchShapeOp
from .entries import Entry
from .errors import ModelError, UnsupportedError, ValueNeededError

if TYPE_CHECKING:
    from onnx import NodeProto

    from .importer import GraphImporter

Array = npt.NDArray[Any]
Result = SSAValue | Entry | Array
Rule = Callable[["Node"], Result | Sequence[Result]]
"""An import rule: emits ops through the node, gives its outputs."""


class Node:
    """A node under import."""

    def __init__(self, importer: GraphImporter, proto: NodeProto, opset: int, location: LocationAttr) -> None:
        self.importer = importer
        self.proto = proto
        self.opset = opset
        self.location = location
        self.ops: list[Operation] = []
        """Ops emitted so far; they go into the block when the rule is done."""
        self._attributes = {a.name: a for a in proto.attribute}

    # Inputs.
    def has(self, index: int) -> bool:
        """Whether an optional input is present."""
        return index < len(self.proto.input) and self.proto.input[index] != ""

    def entry(self, index: int) -> Entry:
        """What is known about an input."""
        if not self.has(index):
            raise ModelError(f"input {index} is missing")
        return self.importer.resolve(self.proto.input[index])

    def __getitem__(self, index: int) -> SSAValue:
        """An input as a value."""
        return self.value(self.entry(index))

    def values(self) -> list[SSAValue]:
        """All inputs as values."""
        return [self[i] for i in range(len(self.proto.input))]

    def optional(self, index: int) -> SSAValue | None:
        return self[index] if self.has(index) else None

    def array(self, index: int, what: str) -> Array:
        """A constant input; anything else is not supported."""
        found = self.entry(index).array
        if found is None:
            raise self._unknown(index, f"{what} that is not a constant", what)
        return found

    def exprs(self, index: int, what: str) -> list[SymExpr]:
        """A one-dimensional (or scalar) integer input that is known, possibly symbolically."""
        found = self.entry(index).integers()
        if found is None:
            raise self._unknown(index, f"{what} that is computed from data", what)
        return list(found.reshape(-1))

    def _unknown(self, index: int, reason: str, what: str) -> UnsupportedError:
        value = self.entry(index).value
        names = [] if value is None else self.importer.model.small_inputs(value)
        return ValueNeededError(what, names) if names else UnsupportedError(reason)

    def ints(self, index: int, what: str) -> list[int]:
        """A known integer input without symbols."""
        values = self.exprs(index, what)
        if not all(v.is_const() for v in values):
            raise UnsupportedError(f"{what} that depends on a symbolic dimension")
        return [v.const_value() for v in values]

    # Attributes.
    def has_attr(self, name: str) -> bool:
        return name in self._attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """The Python value of an attribute; without a default it is required."""
        from onnx import helper

        found = self._attributes.get(name)
        if found is None:
            if default is None:
                raise ModelError(f"attribute '{name}' is missing")
            return default
        value = helper.get_attribute_value(found)
        if isinstance(value, bytes):
            return value.decode()
        if default is not None and isinstance(default, int | float | str) and not isinstance(value, int | float | str):
            raise ModelError(f"attribute '{name}' has the wrong type")
        return value

    # Emission.
    def emit(self, op: Operation) -> SSAValue:
        """Appends an op and gives its first result."""
        op.location = self.location
        self.ops.append(op)
        return op.results[0]

    def emit_without_result(self, op: Operation) -> None:
        """Appends an op with any number of results."""
        op.location = self.location
        self.ops.append(op)

    def flush(self) -> None:
        """Moves the ops emitted so far into the block, before something else adds to it."""
        self.importer.block.add_ops(self.ops)
        self.ops = []

    def value(self, entry: Entry | SSAValue) -> SSAValue:
        """The SSA value of an entry; constants are made once per function, symbolic integers on demand."""
        if isinstance(entry, SSAValue):
            return entry
        if entry.value is not None:
            return entry.value
        if entry.array is not None:
            entry.value = self.importer.constant(entry.array, entry.name)
            return entry.value
        assert entry.symbolic is not None
        value = self.emit(DimsOp(list(entry.symbolic.reshape(-1))))
        value = self.cast(value, entry.element)
        return self.reshape(value, entry.symbolic.shape)

    def constant(self, array: npt.ArrayLike, like: SSAValue | Attribute | None = None, hint: str = "c") -> SSAValue:
        """A constant; ``like`` gives the element type."""
        from ...interp.arith import numpy_dtype

        if like is None:
            return self.importer.constant(np.asarray(array), hint)
        element = tensor_of(like).element_type if isinstance(like, SSAValue) else like
        return self.importer.constant(np.asarray(array).astype(numpy_dtype(element)), hint)

    def reshape(self, value: SSAValue, shape: Sequence[ExprLike]) -> SSAValue:
        """A reshape, if the shape is another one."""
        if shape_exprs(value.type) == tuple(shape):
            return value
        return self.emit(ReshapeOp(value, shape))

    def broadcast(self, value: SSAValue, shape: Sequence[ExprLike]) -> SSAValue:
        return value if shape_exprs(value.type) == tuple(shape) else self.emit(BroadcastToOp(value, shape))

    def agree(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Values that broadcast provably: symbolic dimensions that differ are claimed equal (checked at run time).

        So a symbolic dimension that is 1 in some run does not broadcast with an unrelated one; the check says so.
        """
        rank = max(len(shape_exprs(v.type)) for v in values)
        wanted: list[SymExpr] = []
        for i in range(1, rank + 1):
            dims = [shape[-i] for v in values if len(shape := shape_exprs(v.type)) >= i and shape[-i] != 1]
            # A constant says more than an expression.
            wanted.append(next((d for d in dims if d.is_const()), dims[0]) if dims else as_expr(1))
        return [self._claim(v, wanted) for v in values]

    def _claim(self, value: SSAValue, wanted: Sequence[SymExpr]) -> SSAValue:
        shape = shape_exprs(value.type)
        claimed = list(shape)
        for i in range(1, len(shape) + 1):
            dim, other = shape[-i], wanted[i - 1]
            if dim != 1 and dim != other and not (dim.is_const() and other.is_const()):
                claimed[-i] = other
        return self.claim(value, claimed)

    def claim(self, value: SSAValue, shape: Sequence[ExprLike]) -> SSAValue:
        """The value with a shape that is checked at run time."""
        return value if shape_exprs(value.type) == tuple(shape) else self.emit(MatchShapeOp(value, shape))

    def cast(self, value: SSAValue, to: Attribute) -> SSAValue:
        return value if tensor_of(value).element_type == to else self.emit(CastOp(value, to))

    def fresh_symbol(self, hint: str) -> SymExpr:
        """A symbolic dimension that no other value has."""
        return self.importer.symbols.fresh(hint)


def type_of(value: SSAValue) -> Tensor:
    return tensor_of(value)


def shape_of(value: SSAValue) -> Shape:
    return shape_exprs(value.type)


def is_unsigned(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and str(element).startswith("u")


def as_results(results: Result | Sequence[Result]) -> Sequence[Result]:
    """Rules may give one result without a list."""
    if isinstance(results, SSAValue | Entry | np.ndarray):
        return [results]
    return results
