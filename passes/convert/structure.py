"""Structural keys: two regions with equal keys do the same, whatever their values, arguments and places are called."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Region, SSAValue


def structural_key(region: Region) -> Hashable:
    """A hashable value that is equal for regions equal up to names and locations; for isolated, single-block regions."""
    return _region_key(region, {})


def _region_key(region: Region, numbers: dict[SSAValue, int]) -> Hashable:
    parts: list[Hashable] = []
    for block in region.blocks:
        for arg in block.args:
            numbers[arg] = len(numbers)
        parts.append(tuple(arg.type for arg in block.args))
        for op in block.ops:
            operands = tuple(numbers[v] for v in op.operands)
            for result in op.results:
                numbers[result] = len(numbers)
            parts.append(
                (
                    op.name,
                    operands,
                    tuple(sorted(op.properties.items(), key=lambda item: item[0])),
                    tuple(sorted(op.attributes.items(), key=lambda item: item[0])),
                    tuple(r.type for r in op.results),
                    tuple(_region_key(r, numbers) for r in op.regions),
                )
            )
    return tuple(parts)
