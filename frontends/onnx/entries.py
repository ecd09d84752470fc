"""What the importer knows about a value of the model.

A value is an SSA value, a constant array, or a small integer tensor whose elements are symbolic expressions (the
result of ``Shape`` and arithmetic on it). The latter two become ops only when an op needs them as data, so the shape
arithmetic that exporters write around a ``Reshape`` leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue

from ...core.attributes import shape_exprs, tensor_type
from ...core.symbolic import SymExpr, as_expr
from ...dialects.graph.base import Shape, Tensor, tensor_of
from .tensors import element_of_dtype

Array = npt.NDArray[Any]

SYMBOLIC_LIMIT = 1024
"""Integer tensors of more elements are not looked at as shapes."""


@dataclass(eq=False)
class Entry:
    """One value of the model; at least one of ``value``, ``array``, ``symbolic`` is there."""

    value: SSAValue | None = None
    array: Array | None = None
    symbolic: Array | None = None
    """Object array of ``SymExpr``."""
    element: Attribute = i64
    """Element type of a symbolic value."""
    name: str = ""

    @property
    def type(self) -> Tensor:
        """The tensor type."""
        if self.value is not None:
            return tensor_of(self.value)
        if self.array is not None:
            return tensor_type(element_of_dtype(self.array.dtype), self.array.shape)
        assert self.symbolic is not None
        return tensor_type(self.element, self.symbolic.shape)

    @property
    def shape(self) -> Shape:
        return shape_exprs(self.type)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def integers(self) -> Array | None:
        """Elements as an object array of expressions, if they are known and few."""
        if self.symbolic is not None:
            return self.symbolic
        if self.array is None or self.array.dtype.kind not in "iu" or self.array.size > SYMBOLIC_LIMIT:
            return None
        return object_array([as_expr(int(v)) for v in self.array.reshape(-1)], self.array.shape)


def object_array(values: Sequence[SymExpr], shape: Sequence[int]) -> Array:
    """An object array; NumPy must not look into the elements."""
    result = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        result[i] = value
    return result.reshape(tuple(shape))


def symbolic_entry(values: Array, element: Attribute) -> Entry:
    """An entry for known elements; constants become a plain array."""
    flat = [as_expr(v) for v in values.reshape(-1)]
    if all(v.is_const() for v in flat):
        from ...interp.arith import numpy_dtype

        numbers = np.array([v.const_value() for v in flat]).astype(numpy_dtype(element))
        return Entry(array=numbers.reshape(values.shape))
    return Entry(symbolic=object_array(flat, values.shape), element=element)
