"""The text of pass pipelines: ``"cse,loop-tile{sizes=8,16 depth=2},func.func(dce,canonicalize)"``.

    pipeline := element (',' element)*
    element  := name options? | anchor '(' pipeline ')'
    options  := '{' (key ('=' value)?)* '}'

A value is a bare word (commas make lists) or a quoted string. A name is a pass, or a pipeline of the registry, which
stands for its passes; ``builtin.module(...)`` around everything is accepted. Errors are diagnostics with a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .diagnostics import Diagnostic, DiagnosticError, Severity, file_location
from .passes import FunctionPass, Pass, XdslPass
from .registry import Registry

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([^\s{}()=,"]+)|([{}()=,]))')
SOURCE_NAME = "<pipeline>"


@dataclass
class PassSpec:
    """One parsed element: a pass with options, or a group of passes nested under an anchor op."""

    name: str
    column: int
    options: dict[str, str | None] = field(default_factory=dict)
    nested: list[PassSpec] | None = None


@dataclass(frozen=True)
class NestedPasses:
    """Function passes that run one after the other on each op named ``anchor``."""

    anchor: str
    passes: tuple[FunctionPass, ...]

    def spec(self) -> str:
        return f"{self.anchor}({','.join(p.spec() for p in self.passes)})"

    __str__ = spec


PipelineItem = Pass | NestedPasses


def parse_pipeline(text: str) -> list[PassSpec]:
    """The elements of a pipeline text; malformed text is a ``DiagnosticError`` with its column."""
    parser = _PipelineParser(text)
    result = parser.pipeline()
    if parser.token:
        raise parser.error("','")
    if len(result) == 1 and result[0].name == "builtin.module" and result[0].nested is not None:
        return result[0].nested
    return result


def build_pipeline(spec: str | Iterable[str | PipelineItem], registry: Registry) -> tuple[PipelineItem, ...]:
    """Passes from a text, or from a sequence of texts and passes."""
    if isinstance(spec, str):
        return tuple(item for element in parse_pipeline(spec) for item in _build(element, spec, registry, ()))
    items: list[PipelineItem] = []
    for part in spec:
        items.extend(build_pipeline(part, registry) if isinstance(part, str) else (part,))
    return tuple(items)


def print_pipeline(items: Iterable[PipelineItem]) -> str:
    """The text of a pipeline; parses back to the same passes."""
    return ",".join(item.spec() for item in items)


def _build(spec: PassSpec, text: str, registry: Registry, expanding: tuple[str, ...]) -> list[PipelineItem]:
    if spec.nested is not None:
        return [_build_nested(spec, text, registry)]
    if not registry.has("pass", spec.name) and registry.has("pipeline", spec.name):
        if spec.options:
            raise _error(text, spec.column, f"pipeline '{spec.name}' takes no options")
        if spec.name in expanding:
            raise _error(text, spec.column, f"pipeline '{spec.name}' contains itself")
        inner = registry.resolve("pipeline", spec.name)
        found: list[PipelineItem] = []
        for part in (inner,) if isinstance(inner, str) else inner:
            for element in parse_pipeline(part) if isinstance(part, str) else ():
                found += _build(element, part, registry, (*expanding, spec.name))
            if not isinstance(part, str):
                found.append(part)
        return found
    try:
        pass_class = registry.resolve("pass", spec.name)
        if not issubclass(pass_class, Pass):
            return [XdslPass(pass_class, spec.options)]
        return [pass_class.from_options(spec.options)]
    except DiagnosticError as problem:
        raise DiagnosticError(
            [
                d if d.position else Diagnostic(d.severity, d.message, file_location(SOURCE_NAME, 1, spec.column))
                for d in problem.diagnostics
            ]
        ) from None


def _build_nested(spec: PassSpec, text: str, registry: Registry) -> NestedPasses:
    passes: list[FunctionPass] = []
    assert spec.nested is not None
    for element in spec.nested:
        for item in _build(element, text, registry, ()):
            if not isinstance(item, FunctionPass):
                raise _error(
                    text, element.column, f"'{element.name}' is no function pass, it cannot run on {spec.name}"
                )
            passes.append(item)
    return NestedPasses(spec.name, tuple(passes))


class _PipelineParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        self.index = self.depth = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise _error(text, position + 1, "unterminated string")
            token = next(group for group in match.groups() if group)
            position = match.end()
            self.tokens.append((token, position - len(token)))

    @property
    def token(self) -> str:
        return self.tokens[self.index][0] if self.index < len(self.tokens) else ""

    def error(self, expected: str) -> DiagnosticError:
        column = self.tokens[self.index][1] + 1 if self.token else len(self.text) + 1
        found = f"'{self.token}'" if self.token else "the end"
        return _error(self.text, column, f"expected {expected}, found {found}")

    def accept(self, token: str) -> bool:
        if self.token != token:
            return False
        self.index += 1
        return True

    def word(self, what: str) -> tuple[str, int]:
        if not self.token or self.token in "{}()=,":
            raise self.error(what)
        token, column = self.tokens[self.index]
        self.index += 1
        return token, column + 1

    def pipeline(self) -> list[PassSpec]:
        if not self.token or self.token == ")":
            return []
        self.depth += 1
        if self.depth > 50:
            raise self.error("fewer nested groups")
        elements = [self.element()]
        while self.accept(","):
            elements.append(self.element())
        self.depth -= 1
        return elements

    def element(self) -> PassSpec:
        name, column = self.word("a pass name")
        spec = PassSpec(name, column)
        if self.accept("("):
            spec.nested = self.pipeline()
            if not self.accept(")"):
                raise self.error("')'")
        elif self.accept("{"):
            while not self.accept("}"):
                self.option(spec)
        return spec

    def option(self, spec: PassSpec) -> None:
        key, column = self.word("an option or '}'")
        if key in spec.options:
            raise _error(self.text, column, f"option '{key}' is given twice")
        value: str | None = None
        if self.accept("="):
            pieces = [_unquote(self.word("a value")[0])]
            while self.accept(","):
                pieces.append(_unquote(self.word("a value")[0]))
            value = ",".join(pieces)
        spec.options[key] = value


def _unquote(token: str) -> str:
    if token.startswith('"'):
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def _error(text: str, column: int, message: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(Severity.ERROR, message, file_location(SOURCE_NAME, 1, column)))
