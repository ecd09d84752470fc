"""Diagnostics: what the compiler says to its user, with a place for every message.

Errors in user input are ``DiagnosticError`` and never a traceback; ``assert`` and other exceptions are for
our own bugs. Messages are lower case without a full stop and name what was found and expected. Who parses,
verifies or transforms raises; only the tools print (``render``).

    model.ir:3:8: error: 'graph.matmul' op inner dimensions differ: 64 and 32
      %0 = graph.matmul %a, %b : ...
           ^
    model.ir:2:3: note: the operand is defined here
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

Located = Operation | SSAValue | Block | Region | Attribute | None
"""What a message can be attached to; an attribute must be a location."""

_LONGEST_SOURCE_LINE = 200


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclass(frozen=True)
class Diagnostic:
    """One message; ``notes`` point at related places."""

    severity: Severity
    message: str
    location: LocationAttr = UNKNOWN_LOC
    notes: tuple[Diagnostic, ...] = ()

    @property
    def position(self) -> tuple[str, int, int] | None:
        """``(file, line, column)``, or ``None`` when nothing is known."""
        return position_of(self.location)

    def __str__(self) -> str:
        return render(self, sources={})


class DiagnosticError(Exception):
    """Raised for anything wrong with the user's input; carries one or more diagnostics."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


def error(where: Located, message: str, notes: Sequence[tuple[Located, str]] = ()) -> Diagnostic:
    """An error diagnostic; for an operation the message is prefixed with ``'name' op``."""
    return make_diagnostic(Severity.ERROR, where, message, notes)


def make_diagnostic(
    severity: Severity, where: Located, message: str, notes: Sequence[tuple[Located, str]] = ()
) -> Diagnostic:
    if isinstance(where, Operation):
        message = f"'{op_name(where)}' op {message}"
    attached = tuple(Diagnostic(Severity.NOTE, text, location_of(place)) for place, text in notes)
    return Diagnostic(severity, message, location_of(where), attached)


def emit_error(where: Located, message: str, notes: Sequence[tuple[Located, str]] = ()) -> NoReturn:
    """Raise a ``DiagnosticError`` at ``where``: ``file:line:col: error: 'dialect.op' op message``."""
    raise DiagnosticError(error(where, message, notes))


def op_name(op: Operation) -> str:
    """The name as written in the text (xDSL keeps that of an unregistered op in an attribute)."""
    if op.name == "builtin.unregistered":
        written = op.attributes.get("op_name__") or op.properties.get("op_name__")
        if isinstance(written, StringAttr):
            return written.data
    return op.name


# Locations.


def file_location(filename: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(filename), IntAttr(line), IntAttr(column))


def name_location(name: str, child: LocationAttr | None = None) -> NameLoc:
    """The place of a node of the source model: ``loc("conv1"("model.onnx":0:0))``."""
    return NameLoc(StringAttr(name), UNKNOWN_LOC if child is None else child)


def fused_location(locations: Iterable[LocationAttr]) -> LocationAttr:
    """One location for an op made from several: duplicates and unknown ones removed."""
    known = dict.fromkeys(location for location in locations if not isinstance(location, UnknownLoc))
    if not known:
        return UNKNOWN_LOC
    return next(iter(known)) if len(known) == 1 else FusedLoc(ArrayAttr(known), NoneAttr())


def location_of(where: Located) -> LocationAttr:
    """The location of an operation, a value (its defining op, or the block argument's own), a block or a region."""
    if where is None:
        return UNKNOWN_LOC
    if isinstance(where, Operation):
        return where.location
    if isinstance(where, OpResult):
        return where.op.location
    if isinstance(where, BlockArgument):
        own: LocationAttr = where.location
        return own if not isinstance(own, UnknownLoc) else location_of(where.block.parent_op())
    if isinstance(where, Block | Region):
        return location_of(where.parent_op() if isinstance(where, Block) else where.parent)
    assert isinstance(where, UnknownLoc | FileLineColLoc | NameLoc | FusedLoc | CallSiteLoc)
    return where


def position_of(location: Attribute) -> tuple[str, int, int] | None:
    """The first file position inside a location."""
    if isinstance(location, FileLineColLoc):
        return location.filename.data, location.line.data, location.column.data
    for child in _children(location):
        found = position_of(child)
        if found is not None:
            return found
    return None


def source_names(location: Attribute) -> tuple[str, ...]:
    """The names of source model nodes inside a location, outermost first, each once."""
    names: dict[str, None] = {}
    if isinstance(location, NameLoc):
        names[location.desc.data] = None
    for child in _children(location):
        names.update(dict.fromkeys(source_names(child)))
    return tuple(names)


def _children(location: Attribute) -> Sequence[Attribute]:
    if isinstance(location, NameLoc):
        return (location.location,)
    if isinstance(location, CallSiteLoc):
        return location.callee, location.caller
    if isinstance(location, FusedLoc):
        return tuple(location.locations)  # type: ignore[arg-type]
    return ()


# Rendering.


def render(
    diagnostics: Diagnostic | Iterable[Diagnostic] | DiagnosticError, sources: Mapping[str, str] | None = None
) -> str:
    """The text for people: position, severity, message, source line with a caret, model nodes, notes.

    ``sources`` holds the text of files by name (standard input, split files); others are read from disk. An empty
    mapping turns source lines off.
    """
    if isinstance(diagnostics, DiagnosticError):
        diagnostics = diagnostics.diagnostics
    elif isinstance(diagnostics, Diagnostic):
        diagnostics = (diagnostics,)
    return "\n".join(line for d in diagnostics for line in _render_one(d, sources))


def _render_one(diagnostic: Diagnostic, sources: Mapping[str, str] | None) -> list[str]:
    position = diagnostic.position
    prefix = "" if position is None else _render_position(position)
    lines = [f"{prefix}{diagnostic.severity.value}: {diagnostic.message}"]
    if position is not None:
        lines += _source_line(position, sources)
    names = source_names(diagnostic.location)
    if names:
        shown = ", ".join(f"'{n}'" for n in names[:5]) + (", ..." if len(names) > 5 else "")
        lines.append(f"{prefix}note: from the model's node{'s' if len(names) > 1 else ''} {shown}")
    for note in diagnostic.notes:
        lines += _render_one(note, sources)
    return lines


def _render_position(position: tuple[str, int, int]) -> str:
    name, line, column = position
    return f"{name}:{line}:{column}: " if line > 0 else f"{name}: "


def _source_line(position: tuple[str, int, int], sources: Mapping[str, str] | None) -> list[str]:
    name, line, column = position
    text = _source_text(name, sources)
    if text is None or line < 1:
        return []
    lines = text.split("\n", line)
    if line > len(lines):
        return []
    shown = lines[line - 1].rstrip("\r")
    if not 1 <= column <= len(shown) + 1:
        return [shown[:_LONGEST_SOURCE_LINE]]
    start = 0 if column < _LONGEST_SOURCE_LINE else column - _LONGEST_SOURCE_LINE // 2
    shown = shown[start : start + _LONGEST_SOURCE_LINE]
    pad = "".join("\t" if c == "\t" else " " for c in shown[: column - 1 - start])
    return [shown, f"{pad}^"]


def _source_text(name: str, sources: Mapping[str, str] | None) -> str | None:
    if sources is not None:
        if name in sources:
            return sources[name]
        if not sources:
            return None
    if not os.path.isfile(name) or os.path.getsize(name) > 1 << 28:
        return None
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None
