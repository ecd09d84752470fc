"""Tensors that no machine can hold, found before anything is computed from their sizes.

A tensor of ``2**40 x 2**40`` numbers is a legal type, but its size in bytes is no 64-bit number, and so neither are
offsets into it. A symbolic dimension counts as 1, its least value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ..core.attributes import memref_shape_exprs, shape_exprs
from ..core.diagnostics import emit_error

LARGEST = 2**63 - 1


def check_sizes(module: ModuleOp) -> None:
    """A diagnostic for the first value whose type takes more bytes than an address can say."""
    for op in module.walk():
        for value in _values(op):
            if _least_bytes(value.type) > LARGEST:
                emit_error(value, f"type {value.type} takes 2**63 bytes or more")


def _values(op: Operation) -> Iterator[SSAValue]:
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


@cache
def _least_bytes(type: Attribute) -> int:
    if not isinstance(type, TensorType | MemRefType):
        return 0
    try:
        extents = shape_exprs(type) if isinstance(type, TensorType) else memref_shape_exprs(type)
    except VerifyException:
        return 0
    bits = getattr(type.element_type, "bitwidth", 8)
    sizes = [extent.evaluate(dict.fromkeys(extent.symbols(), 1)) for extent in extents]
    return math.prod(sizes) * max(1, bits // 8)
