"""The first operation whose value departs: values before and after a pass that come from the same place.

Places are locations: the names of model nodes, or positions in a file. A pass moves them to what it makes, so the value
that a place had before is compared with the one it has after. A value that has no counterpart says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from .program import Array
from .runs import Run, array_difference

Key = tuple[str, ...]


@dataclass(frozen=True)
class Departure:
    """An operation after the pass whose value is not what its place had before."""

    op_name: str
    place: Key
    message: str
    label: str | None = None
    """What the operation calls, or the name of its buffer, block or kernel."""

    def __str__(self) -> str:
        label = f" {self.label}" if self.label else ""
        places = ", ".join(f"'{p}'" for p in self.place[:5]) + (", ..." if len(self.place) > 5 else "")
        return f"{self.op_name}{label} from {places}: {self.message}"


def place_of(location: Attribute) -> Key:
    """Names of model nodes where there are any, positions otherwise, in order."""
    if isinstance(location, NameLoc):
        return (location.desc.data,)
    if isinstance(location, FileLineColLoc):
        return (f"{location.filename.data}:{location.line.data}:{location.column.data}",)
    if isinstance(location, CallSiteLoc):
        return place_of(location.callee)
    if isinstance(location, FusedLoc):
        found: dict[str, None] = {}
        for inner in cast("ArrayAttr[Attribute]", location.locations).data:
            found.update(dict.fromkeys(place_of(inner)))
        return tuple(found)
    return ()


def first_departure(before: Run, after: Run) -> Departure | None:
    """The first value of ``after`` in order of execution that none from its place in ``before`` equals.

    A later operation of the same place may set right what an earlier one has not done yet (a convolution without its
    folded scale), so the last value of each place and shape counts.
    """
    known: dict[Key, list[Array]] = {}
    for op, arrays in before.trace:
        known.setdefault(place_of(op.location), []).extend(arrays)
    last: dict[tuple[Key, tuple[int, ...]], tuple[Operation, Array]] = {}
    for op, arrays in after.trace:
        place = place_of(op.location)
        for array in arrays:
            key = (place, array.shape)
            last.pop(key, None)
            last[key] = (op, array)
    for (place, _), (op, array) in last.items():
        if not place:
            continue
        departure = _compare(array, [*known.get(place, []), *known.get(place[-1:], [])])
        if departure is not None:
            return Departure(op.name, place, departure, _label(op))
    return None


def _compare(array: Array, counterparts: list[Array]) -> str | None:
    """What is wrong with the value, if it has counterparts and equals none of them."""
    message: str | None = None
    for other in counterparts:
        if other.shape != array.shape or other.dtype != array.dtype:
            continue
        found = array_difference(array, other)
        if found is None:
            return None
        message = str(found)
    return message


def _label(op: Operation) -> str | None:
    callee = op.properties.get("callee", op.properties.get("kernel"))
    if isinstance(callee, SymbolRefAttr):
        return f"@{callee.root_reference.data}"
    names = (op.properties.get(name) for name in ("buffer_name", "block_name", "kernel_name"))
    return next((f'"{name.data}"' for name in names if isinstance(name, StringAttr)), None)
