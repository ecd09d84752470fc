"""Passes: the base classes and how options are read and printed.

A pass is a frozen dataclass whose fields are its options; its docstring shows before --> after. ``ModulePass``
changes the whole module, ``FunctionPass`` one function at a time. Running them, verifying in between and
instrumentation are in ``pass_manager``; the text of pipelines in ``pipeline``.

    @dataclass(frozen=True)
    class TilePass(FunctionPass):
        '''...'''
        name = "loop-tile"
        sizes: tuple[int, ...] = (8,)

        def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None: ...
"""

from __future__ import annotations

import dataclasses
import re
import types
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .analysis import Analysis
from .diagnostics import Diagnostic, DiagnosticError, Severity

if TYPE_CHECKING:
    from .context import TilewrightContext

_BARE_WORD = re.compile(r"[^\s{}()=,\"\\]+")
OptionValue = bool | int | float | str | tuple[Any, ...] | None


@dataclass(frozen=True)
class Pass(ABC):
    """A named transformation. It assumes verified IR and leaves verified IR."""

    name: ClassVar[str]
    preserves: ClassVar[tuple[type[Analysis], ...] | Literal["all"]] = ()
    """Analyses that stay valid; ``"all"`` for a pass that changes nothing they could see."""

    @abstractmethod
    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        """Transform the module in place."""

    @classmethod
    def from_options(cls, options: Mapping[str, str | None]) -> Self:
        """An instance from the texts of its options; ``DiagnosticError`` for unknown, missing or malformed ones."""
        return cls(**convert_options(cls, options))

    def spec(self) -> str:
        """The text that makes this pass again: ``name{option=value}``, defaults left out."""
        parts = [
            f"{f.name.replace('_', '-')}={_print_value(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if f.init and (not _has_default(f) or getattr(self, f.name) != _default(f))
        ]
        return f"{self.name}{{{' '.join(parts)}}}" if parts else self.name

    def __str__(self) -> str:
        return self.spec()


@dataclass(frozen=True)
class ModulePass(Pass):
    """A pass on the module as a whole: implement ``apply``."""


@dataclass(frozen=True)
class FunctionPass(Pass):
    """A pass on one function at a time: implement ``apply_to_function``; it must not look outside of the function.

    At module level it runs on every op named ``anchor`` that has a body; nested in a pipeline as ``func.func(...)`` it
    runs after and before the other passes of that group, function by function.
    """

    anchor: ClassVar[str] = "func.func"

    @abstractmethod
    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        """Transform one function in place."""

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for func in anchored_ops(op, self.anchor):
            self.apply_to_function(ctx, func)


class XdslPass(ModulePass):
    """A pass of xDSL's (from a plugin that is an xDSL universe) under our pass manager."""

    def __init__(self, pass_class: Any, options: Mapping[str, str | None]) -> None:
        object.__setattr__(self, "inner", pass_class(**convert_options(pass_class, options)))
        object.__setattr__(self, "name", pass_class.name)

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        self.inner.apply(ctx, op)  # type: ignore[attr-defined]

    def spec(self) -> str:
        return str(self.inner)  # type: ignore[attr-defined]


def anchored_ops(op: Operation, anchor: str) -> list[Operation]:
    """The outermost ops named ``anchor`` inside ``op`` that have a body, collected before anything changes."""
    return [found for found in _walk_outermost(op, anchor) if any(region.blocks for region in found.regions)]


def _walk_outermost(op: Operation, anchor: str) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            for child in block.ops:
                if child.name == anchor:
                    yield child
                elif child.regions:
                    yield from _walk_outermost(child, anchor)


# Options.


def convert_options(cls: Any, options: Mapping[str, str | None]) -> dict[str, Any]:
    """Texts of options as the values of the fields of a pass class (ours or xDSL's)."""
    fields = _option_fields(cls)
    values: dict[str, Any] = {}
    for key, text in options.items():
        field = key.replace("-", "_")
        if field not in fields:
            known = ", ".join(n.replace("_", "-") for n in fields) or "none"
            raise _option_error(f"pass '{cls.name}' has no option '{key}' (options: {known})")
        values[field] = _convert(cls.name, key, text, fields[field])
    required = {f.name for f in dataclasses.fields(cls) if not _has_default(f)}
    missing = sorted(required - values.keys())
    if missing:
        raise _option_error(f"pass '{cls.name}' needs the option '{missing[0].replace('_', '-')}'")
    return values


@cache
def _option_fields(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}


def option_summary(cls: Any) -> list[tuple[str, str, str]]:
    """``(name, type, default)`` of each option, for listings."""
    return [
        (
            f.name.replace("_", "-"),
            _type_text(_option_fields(cls)[f.name]),
            _print_value(_default(f)) if _has_default(f) else "",
        )
        for f in dataclasses.fields(cls)
        if f.init
    ]


def _type_text(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint).replace("typing.", "")


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    assert not isinstance(field.default_factory, dataclasses._MISSING_TYPE)
    return field.default_factory()


def _convert(pass_name: str, key: str, text: str | None, hint: Any) -> Any:
    try:
        return _convert_to(text, hint)
    except ValueError:
        found = "no value" if text is None else f"'{text}'"
        raise _option_error(f"option '{key}' of pass '{pass_name}' takes {_type_text(hint)}, found {found}") from None


def _convert_to(text: str | None, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(text, get_args(hint))
    if origin is Literal:
        if text not in get_args(hint):
            raise ValueError
        return text
    if origin is tuple:
        item = get_args(hint)[0]
        pieces = [] if not text else text.split(",")
        return tuple(_convert_to(p.strip(), item) for p in pieces)
    if hint is bool:
        if text in (None, "true", "1"):
            return True
        if text in ("false", "0"):
            return False
        raise ValueError
    if text is None:
        raise ValueError
    if hint in (int, float, str):
        return hint(text)
    raise ValueError


def _convert_union(text: str | None, members: tuple[Any, ...]) -> Any:
    if type(None) in members and text in (None, "none"):
        return None
    # An int reads as a float too, and anything reads as a str: the narrow types first.
    order = {bool: 0, int: 1, float: 2, str: 9}
    for member in sorted((m for m in members if m is not type(None)), key=lambda m: order.get(m, 5)):
        try:
            return _convert_to(text, member)
        except ValueError:
            continue
    raise ValueError


def _print_value(value: OptionValue) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(_print_value, value)) or '""'
    text = str(value)
    if _BARE_WORD.fullmatch(text):
        return text
    return '"' + re.sub(r'([\\"])', r"\\\1", text) + '"'


def _option_error(message: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(Severity.ERROR, message))
