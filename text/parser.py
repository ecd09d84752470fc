"""Parses ``.ir`` text: modules, single attributes, single types.

The text is first scanned for the dialects it names, so that only their grammar is composed; then the token loop runs
and the builder makes the IR. Whatever is wrong with a text is a
:class:`~tilewright.core.diagnostics.DiagnosticError`. Parsing does not verify operations: that is the verifier's,
after parsing.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, TypeAttribute

from ..core.diagnostics import Diagnostic, DiagnosticError
from .builder import Builder
from .driver import SyntaxFault, Token, Unexpected
from .errors import fault_error, unexpected_error
from .grammar import Language, dialects_in
from .recovery import Recovery
from .slices import parse_raw


def parse_module(text: str, *, filename: str = "<stdin>", context: Context) -> ModuleOp:
    """The module that a text holds; several top-level operations are wrapped in one.

    Raises :class:`~tilewright.core.diagnostics.DiagnosticError`, and nothing else, for malformed text."""
    module = _parse(text, filename, context, "start")
    assert isinstance(module, ModuleOp)
    return module


def parse_attribute(text: str, context: Context, *, filename: str = "<attribute>") -> Attribute:
    """One attribute (or type)."""
    attr = _parse(text, filename, context, "start_attr")
    assert isinstance(attr, Attribute)
    return attr


def parse_type(text: str, context: Context, *, filename: str = "<type>") -> TypeAttribute:
    """One type."""
    type_ = _parse(text, filename, context, "start_type")
    assert isinstance(type_, Attribute)
    return type_  # type: ignore[return-value]


def _parse(text: str, filename: str, context: Context, start: str) -> Any:
    language = Language(context, dialects_in(text))
    builder = Builder(text, filename, context, language, _find_alias, parse_raw, _foreign)

    def diagnose(fault: SyntaxFault | Unexpected) -> Diagnostic:
        if isinstance(fault, SyntaxFault):
            return fault_error(fault, text, filename)
        return unexpected_error(fault, language, text, filename)

    recovery = builder.recovery = Recovery(builder, diagnose)
    with _no_collection():
        try:
            found = language.driver.parse(text, builder, start)
        except (SyntaxFault, Unexpected) as fault:
            recovery.report(fault)
            raise DiagnosticError(recovery.diagnostics) from fault
    if recovery.diagnostics:
        raise DiagnosticError(recovery.diagnostics)
    return found


@contextmanager
def _no_collection() -> Iterator[None]:
    """Everything built stays alive, so the cycle collector would only look in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _foreign(builder: Builder, name: Token, pos: int, dialects: list[str]) -> tuple[Operation, int]:
    from .foreign import parse_foreign

    return parse_foreign(builder, name, pos, dialects)


def _find_alias(builder: Builder, token: Token) -> Attribute:
    """An alias that is defined further down (mlir-opt prints those of locations at the end)."""
    pattern = rf"^{re.escape(token)}\s*=\s*(?=\S)"
    match = re.compile(pattern, re.MULTILINE).search(builder.text)
    what = "type" if token[0] == "!" else "attribute"
    if match is None or match.end() <= token.pos < builder.text.find("\n", match.end()):
        fault = SyntaxFault(f"undefined {what} alias '{token}'", token)
        fault.doubtful = token in builder.doubtful
        raise fault
    end = builder.text.find("\n", match.end())
    end = len(builder.text) if end < 0 else end
    start = "start_type" if token[0] == "!" else "start_attr"
    if builder.open_aliases.count(str(token)):
        raise SyntaxFault(f"alias '{token}' is defined by itself", token)
    builder.open_aliases.append(str(token))
    try:
        found: Attribute = builder.vocabulary.driver.parse(builder.text, builder, start, match.end(), end)
    finally:
        builder.open_aliases.pop()
    builder.aliases[str(token)] = found
    return found
