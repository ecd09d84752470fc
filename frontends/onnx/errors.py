"""What goes wrong in an import, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.diagnostics import Diagnostic, DiagnosticError


class UnsupportedError(Exception):
    """A rule met a legal node that it cannot express; collected, so that one message names every such node."""


class ValueNeededError(UnsupportedError):
    """What a rule needs to know follows from the values of model inputs."""

    def __init__(self, what: str, names: Sequence[str]) -> None:
        inputs = ", ".join(f"'{n}'" for n in names)
        super().__init__(f"{what} that depends on the value of input {inputs} (fix it with 'values')")
        self.names = names


class UnsupportedNodesError(DiagnosticError):
    """The nodes of a model that are not supported; ``inputs`` are model inputs whose values would have helped."""

    def __init__(self, diagnostic: Diagnostic, inputs: Iterable[str]) -> None:
        super().__init__(diagnostic)
        self.inputs = frozenset(inputs)


class ModelError(Exception):
    """The model itself is wrong: a missing input, a bad attribute, types that do not fit."""
