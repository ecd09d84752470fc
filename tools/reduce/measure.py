"""What small means: a tuple, compared from left to right, that every accepted step makes smaller.

This is why a reduction ends, and why strategies need no order of their own: one may replace an operation by a constant
(fewer operations that do something) and another the constant by an argument (fewer operations).
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ContainerType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ShapedType,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...core.attributes import IndexMapAttr

Measure = tuple[int, ...]
_RESOURCE = 1 << 20
_DYNAMIC = 1 << 10


def measure(module: Operation) -> Measure:
    """(active ops, ops, values and uses, elements of types, literals, attributes, indices, uses of results)."""
    active = ops = values = elements = literals = attributes = indices = uses = 0
    for op in module.walk():
        ops += 1
        active += not is_source(op)
        values += len(op.operands) + len(op.results) + len(op.regions)
        elements += sum(type_size(r.type) for r in op.results)
        uses += sum(not isinstance(operand.owner, Block) for operand in op.operands)
        attributes += len(op.attributes) + len(op.properties)
        indices += sum(map(_index_size, op.properties.values()))
        literals += sum(map(_literal_size, op.properties.values())) + sum(map(_literal_size, op.attributes.values()))
        for region in op.regions:
            for block in region.blocks:
                values += 1 + len(block.args)
                elements += sum(type_size(a.type) for a in block.args)
    return active, ops, values, elements, literals, attributes, indices, uses


def op_count(module: Operation) -> int:
    """All operations of a module, nested ones too, without the module itself."""
    return sum(1 for _ in module.walk()) - 1


def is_source(op: Operation) -> bool:
    """A constant: a value from nothing."""
    return bool(op.results) and not op.operands and not op.regions and "value" in op.properties | op.attributes


def type_size(type_: Attribute) -> int:
    """The number of elements of a shaped type; a dynamic extent counts as a large one."""
    if not isinstance(type_, ShapedType):
        return 1
    inner = type_.get_element_type() if isinstance(type_, ContainerType) else type_
    size = prod(_DYNAMIC if extent == DYNAMIC_INDEX else max(extent, 1) for extent in type_.get_shape())
    return size * (type_size(inner) if inner is not type_ else 1)


def _literal_size(attribute: Attribute) -> int:
    if isinstance(attribute, DenseResourceAttr):
        return _RESOURCE
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        data = attribute.data.data
        return len(data) if not attribute.is_splat() else sum(byte != 0 for byte in data[:8])
    return 0


def _index_size(attribute: Attribute) -> int:
    """How much there is in index expressions: terms and constants."""
    if not isinstance(attribute, IndexMapAttr):
        return 0
    return sum(2 * len(expr.terms) + bool(expr.constant) for expr in attribute.results)


def symbols_used(op: Operation) -> set[str]:
    """The outermost names of all symbols that attributes in ``op`` refer to."""
    found: set[str] = set()
    for inner in op.walk():
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            if isinstance(attribute, SymbolRefAttr):
                found.add(attribute.root_reference.data)
    return found


def visible_before(op: Operation) -> list[SSAValue]:
    """Values that ``op`` may use: arguments of the enclosing blocks first, then results, the earliest first."""
    from xdsl.traits import IsolatedFromAbove

    arguments: list[SSAValue] = []
    results: list[SSAValue] = []
    current: Operation | None = op
    while current is not None and current.parent is not None:
        block = current.parent
        arguments[:0] = block.args
        before: list[SSAValue] = []
        for other in block.ops:
            if other is current:
                break
            before += other.results
        results[:0] = before
        current = block.parent_op()
        if current is None or current.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            break
    return [*arguments, *results]
