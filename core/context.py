"""The context: which dialects, passes and targets exist, and the weights and messages of one compilation.

Dialects are registered by name and loaded at first use. A context is cheap to make and is not shared between threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.context import Context

from .analysis import AnalysisManager
from .diagnostics import Diagnostic, Severity, render
from .registry import Registry, default_registry
from .resources import ResourceTable


def print_diagnostic(diagnostic: Diagnostic) -> None:
    print(render(diagnostic), file=sys.stderr)


@dataclass
class TilewrightContext(Context):
    """xDSL's context with the table of weights, the registry and a place for warnings and remarks."""

    resources: ResourceTable = field(default_factory=ResourceTable)
    registry: Registry = field(default_factory=default_registry)
    on_diagnostic: Callable[[Diagnostic], None] = print_diagnostic
    analyses: AnalysisManager = field(default_factory=AnalysisManager)

    def clone(self) -> TilewrightContext:
        """A context with the same dialects; the table of weights (append-only) and the registry are shared."""
        return TilewrightContext(
            self.allow_unregistered,
            self._loaded_dialects.copy(),
            self._loaded_ops.copy(),
            self._loaded_attrs.copy(),
            self._loaded_types.copy(),
            self._registered_dialects.copy(),
            self.resources,
            self.registry,
            self.on_diagnostic,
        )

    def report(self, diagnostic: Diagnostic) -> None:
        """Say something that does not stop the compilation (warnings, remarks)."""
        assert diagnostic.severity is not Severity.ERROR, "errors are raised"
        self.on_diagnostic(diagnostic)


def make_context(
    registry: Registry | None = None, *, allow_unregistered: bool = False, resources: ResourceTable | None = None
) -> TilewrightContext:
    """A context that knows our dialects, xDSL's and the plugins' of ``registry``, all loaded lazily."""
    registry = default_registry() if registry is None else registry
    context = TilewrightContext(
        allow_unregistered=allow_unregistered,
        resources=ResourceTable() if resources is None else resources,
        registry=registry,
    )
    for name, load in registry.dialect_loaders().items():
        context.register_dialect(name, load)
    return context
