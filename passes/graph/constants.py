"""What graph passes share about constants: which values are known, what a splat holds, and making small ones.

Evaluating operations on constants is ``fold_constants.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, BytesAttr, DenseIntOrFPElementsAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import Pure

from ...core.attributes import layout_of, tensor_type
from ...dialects.graph.base import FusionKind, GraphOp, tensor_of
from ...dialects.graph.shape import DimsOp
from ...dialects.graph.structure import ConstantOp
from ...interp.arith import numpy_dtype

SMALL = 256
"""The most elements of a constant that is written out as ``dense<...>``; a larger result becomes a recipe."""


SEARCHED = 64
"""The most operations that ``is_constant`` looks at; a value that depends on more counts as unknown."""

CHEAP = (FusionKind.ELEMENTWISE, FusionKind.BROADCAST, FusionKind.INJECTIVE, FusionKind.VIEW)


def is_constant(value: SSAValue) -> bool:
    """Whether a value is a constant, or computed from constants by a few cheap operations.

    Patterns ask this for every operation, so the search ends at the first product or reduction: one of constants was
    folded before, any other has an argument behind it.
    """
    pending: list[SSAValue] = [value]
    seen: set[object] = set()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ConstantOp) or owner in seen:
            continue
        if not isinstance(owner, GraphOp) or owner.FUSION_KIND not in CHEAP or len(seen) == SEARCHED:
            return False
        if not is_foldable(owner):
            return False
        seen.add(owner)
        pending.extend(owner.operands)
    return True


def is_foldable(op: Operation) -> bool:
    """Whether an operation has a value as soon as its operands have: pure, of static shape, row-major."""
    if not isinstance(op, GraphOp) or not op.results or op.regions or not op.has_trait(Pure):
        return False
    if isinstance(op, DimsOp) and any(not expr.is_const() for expr in op.values.exprs):
        return False
    return all(element_count(result) is not None and layout_of(result.type) is None for result in op.results)


def element_count(value: SSAValue) -> int | None:
    """The number of elements of a tensor; None where its shape is symbolic."""
    shape = tensor_of(value).get_shape()
    return None if DYNAMIC_INDEX in shape else math.prod(shape)


def splat_value(value: SSAValue) -> int | float | None:
    """The one number that a written-out constant repeats, if it is one; 0 or 1 for i1."""
    op = value.owner
    if not isinstance(op, ConstantOp) or not isinstance(op.value, DenseIntOrFPElementsAttr) or not len(op.value):
        return None
    data, count = op.value.data.data, len(op.value)
    if data != data[: len(data) // count] * count:
        return None
    number = next(iter(op.value.iter_values()))
    assert isinstance(number, int | float)
    return int(number != 0) if op.value.get_element_type() == i1 else number


def dense_constant(array: npt.NDArray[Any], element_type: Attribute) -> ConstantOp:
    """A constant written out as ``dense<...>``."""
    type = tensor_type(element_type, array.shape)
    data = np.ascontiguousarray(array, dtype=numpy_dtype(element_type)).tobytes()
    return ConstantOp(DenseIntOrFPElementsAttr(type, BytesAttr(data)))  # type: ignore[type-var]


def splat(number: int | float, element_type: Attribute, shape: Sequence[int] = ()) -> ConstantOp:
    """A constant that repeats one number."""
    return dense_constant(np.full(shape, number, dtype=numpy_dtype(element_type)), element_type)
