"""The weight section of an artefact: which bytes lie where, and how they come into being.

Offsets are known as soon as the host program is: code refers to them before any weight has been touched. When
the artefact is written, the weights are made one after another: a resource is taken as it is, a recipe is
evaluated by the interpreter, a packed weight is brought into its order. So memory holds one weight at a time
besides the resources.

Equal constants share their place: the key is the value (resource or recipe name, or the elements), the
packing and the type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute

from ...core.attributes import IndexMapAttr, memref_shape_exprs
from ...core.context import TilewrightContext
from ...dialects.vm.ops import ConstantOp
from ...interp.interpreter import Interpreter
from ...interp.vm import packed_weight
from .arena import aligned
from .plan_memory import byte_size

Key = tuple[Attribute, IndexMapAttr | None, Attribute]


@dataclass(frozen=True)
class Weight:
    """One constant in the section."""

    op: ConstantOp
    offset: int
    size: int

    @property
    def label(self) -> str:
        """Where the weight comes from, for people."""
        value = self.op.value
        if isinstance(value, DenseResourceAttr):
            return value.resource_handle.data
        return f"@{value.root_reference.data}" if isinstance(value, SymbolRefAttr) else "dense"

    @property
    def shape(self) -> list[int]:
        """The shape in memory."""
        return [extent.const_value() for extent in memref_shape_exprs(self.op.result.type)]


@dataclass
class WeightSection:
    """All constants of a module's host programs, in order of their first appearance."""

    weights: list[Weight] = field(default_factory=list)
    size: int = 0
    _offsets: dict[Key, int] = field(default_factory=dict)

    @staticmethod
    def of(module: ModuleOp) -> WeightSection:
        """The section that a module needs."""
        section = WeightSection()
        for op in module.walk():
            if isinstance(op, ConstantOp):
                section._add(op)
        return section

    def offset(self, op: ConstantOp) -> int:
        """Where a constant lies: bytes from the start of the section, a multiple of 64."""
        return self._offsets[_key(op)]

    def chunks(self, module: ModuleOp, context: TilewrightContext) -> Iterator[memoryview | bytes]:
        """The bytes of the section, piece by piece."""
        interpreter = Interpreter(module, context)
        position = 0
        for weight in self.weights:
            yield bytes(weight.offset - position)
            array = packed_weight(interpreter, weight.op)
            assert array.nbytes == weight.size, f"{weight.label}: {array.nbytes} bytes, expected {weight.size}"
            interpreter.recipes.clear()
            yield array.reshape(-1).view(np.uint8).data
            position = weight.offset + weight.size

    def _add(self, op: ConstantOp) -> None:
        key = _key(op)
        if key in self._offsets:
            return
        size = byte_size(op.result.type).const_value()
        self._offsets[key] = self.size
        self.weights.append(Weight(op, self.size, size))
        self.size += aligned(size)


def _key(op: ConstantOp) -> Key:
    return op.value, op.packed, op.result.type
