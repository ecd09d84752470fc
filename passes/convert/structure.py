"""Structural keys: two regions with equal keys do the same, whatever their values, arguments and places are called."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from xdsl.ir import Operation, Region, SSAValue


def structural_key(region: Region) -> Hashable:
    """A hashable value that is equal for isolated regions that are equal up to names and locations."""
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


class OncePerBody:
    """Transforms the single region of each op, once for equal regions: the others become clones of the result."""

    def __init__(self, transform: Callable[[Operation], None]) -> None:
        self._transform = transform
        self._done: dict[Hashable, Region] = {}

    def apply(self, op: Operation) -> None:
        """Transforms the body of ``op`` in place."""
        (region,) = op.regions
        key = structural_key(region)
        done = self._done.get(key)
        if done is None:
            self._transform(op)
            self._done[key] = op.regions[0]
            return
        op.detach_region(region)
        region.block.drop_all_references()
        region.erase()
        op.add_region(done.clone())
