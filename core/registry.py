"""The registry: which dialects, passes, pipelines, targets, frontends and syntax exist, by name, loaded at first use.

Each layer contributes a plain table of ``"name": "module:object"`` strings (``dialects/table.py``, ``passes/table.py``
and so on); this module knows the tables by string only, so core imports no layer above it. Plugins add to a registry
through the same methods: by an entry point (group ``tilewright.plugins``: a ``register(registry)`` function; or xDSL's
group ``xdsl.universe``), or from a file (``load_plugin``). Clashes and broken plugins are errors that name the plugin.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from xdsl.ir import Dialect

Kind = Literal["dialect", "pass", "pipeline", "target", "frontend", "lowering"]
KINDS: tuple[Kind, ...] = ("dialect", "pass", "pipeline", "target", "frontend", "lowering")

TABLES: Mapping[Kind, tuple[str, ...]] = {
    "dialect": ("tilewright.dialects.table:DIALECTS",),
    "pass": ("tilewright.passes.table:PASSES", "tilewright.targets.table:PASSES"),
    "pipeline": ("tilewright.passes.table:PIPELINES", "tilewright.targets.table:PIPELINES"),
    "target": ("tilewright.targets.table:TARGETS",),
    "frontend": ("tilewright.frontends.table:FRONTENDS",),
    "lowering": ("tilewright.passes.convert.graph_to_te.table:LOWERINGS",),
}
"""Where each layer's table is. Syntax needs none: the module of an op names its fragment (see the text layer)."""

PLUGIN_GROUP = "tilewright.plugins"
UNIVERSE_GROUP = "xdsl.universe"


class Registry:
    """Named things and where they come from. Values are ``"module:object"`` strings, or the objects themselves."""

    def __init__(self) -> None:
        self._entries: dict[Kind, dict[str, tuple[Any, str]]] = {kind: {} for kind in KINDS}
        self._origin = "tilewright"

    def add(self, kind: Kind, name: str, value: Any) -> None:
        """Register ``value`` under ``name``; a name that is taken is an error naming both origins."""
        taken = self._entries[kind].get(name)
        if taken is not None:
            raise _failure(self._origin, f"{kind} '{name}' is already registered by {taken[1]}")
        self._entries[kind][name] = (value, self._origin)

    # What a plugin's ``register(registry)`` calls.
    def add_dialect(self, name: str, dialect: Any) -> None:
        """A dialect: the ``Dialect`` object, ``"module:object"``, or a function without arguments that returns it."""
        self.add("dialect", name, dialect)

    def add_pass(self, pass_class: Any, name: str | None = None) -> None:
        """A pass class; ``name`` is needed only for a ``"module:object"`` string."""
        self.add("pass", name if name is not None else pass_class.name, pass_class)

    def add_pipeline(self, name: str, passes: Any) -> None:
        """A named sequence of pass specs."""
        self.add("pipeline", name, passes)

    def add_target(self, name: str, target: Any) -> None:
        self.add("target", name, target)

    def add_frontend(self, name: str, frontend: Any) -> None:
        self.add("frontend", name, frontend)

    def add_lowering(self, op_name: str, function: Any) -> None:
        """How a graph op becomes te: see ``passes/convert/graph_to_te/table.py``."""
        self.add("lowering", op_name, function)

    # What the compiler asks.
    def names(self, kind: Kind) -> tuple[str, ...]:
        return tuple(sorted(self._entries[kind]))

    def has(self, kind: Kind, name: str) -> bool:
        return name in self._entries[kind]

    def origin(self, kind: Kind, name: str) -> str:
        """Who registered it: ``tilewright``, ``xdsl`` or the plugin."""
        return self._entries[kind][name][1]

    def resolve(self, kind: Kind, name: str) -> Any:
        """The object registered under ``name``; an unknown name is an error with the closest known one."""
        entry = self._entries[kind].get(name)
        if entry is None:
            raise _failure(None, f"unknown {kind} '{name}'{_did_you_mean(name, self.names(kind))}")
        value, origin = entry
        try:
            return load_object(value) if isinstance(value, str) else _undefer(value)
        except (ImportError, AttributeError, ValueError) as problem:
            if origin == "tilewright":
                raise
            raise _failure(origin, f"cannot load {kind} '{name}' from {value}: {problem}") from problem

    def dialect_loaders(self) -> dict[str, Callable[[], Dialect]]:
        """Functions that load each dialect."""

        def loader(name: str) -> Callable[[], Dialect]:
            def load() -> Dialect:
                from xdsl.ir import Dialect

                value = self.resolve("dialect", name)
                if not isinstance(value, Dialect) and callable(value):
                    value = _call(self.origin("dialect", name), value)
                if not isinstance(value, Dialect) or value.name != name:
                    raise _failure(
                        self.origin("dialect", name), f"'{name}' is not registered with a dialect of that name"
                    )
                return value

            return load

        return {name: loader(name) for name in self.names("dialect")}

    # Filling.
    def add_table(self, kind: Kind, table: Mapping[str, Any]) -> None:
        for name, value in table.items():
            self.add(kind, name, value)

    def add_xdsl_dialects(self) -> None:
        """xDSL's own dialects, as far as no name of ours is theirs."""
        from xdsl.dialects import get_all_dialects

        self._origin = "xdsl"
        for name, load in get_all_dialects().items():
            if not self.has("dialect", name):
                self.add_dialect(name, load)
        self._origin = "tilewright"

    def add_plugin(self, origin: str, register: Callable[[Registry], None]) -> None:
        """Run a plugin's ``register``; whatever goes wrong there is an error that names the plugin."""
        from .diagnostics import DiagnosticError

        before = self._origin
        self._origin = origin
        try:
            register(self)
        except DiagnosticError:
            raise
        except (Exception, SystemExit) as problem:
            raise _failure(origin, f"failed to register: {type(problem).__name__}: {problem}") from problem
        finally:
            self._origin = before

    def add_universe(self, origin: str, universe: Any) -> None:
        """The dialects, passes, targets and frontends of an xDSL ``Universe``."""

        def register(registry: Registry) -> None:
            for name, load in universe.all_dialects.items():
                registry.add_dialect(name, load)
            for name, load in universe.all_passes.items():
                registry.add("pass", name, _Deferred(load))
            for name, load in universe.all_targets.items():
                registry.add_target(name, _Deferred(load))
            for name, load in universe.all_frontends.items():
                registry.add_frontend(name, _Deferred(load))

        self.add_plugin(origin, register)

    def load_plugin(self, path: str | Path) -> None:
        """Execute the Python file ``path`` and call its ``register(registry)``."""
        path = Path(path)
        origin = f"plugin {path}"
        module = _import_file(path, origin)
        register = getattr(module, "register", None)
        if not callable(register):
            raise _failure(origin, "defines no function register(registry)")
        self.add_plugin(origin, register)

    def add_entry_points(self) -> None:
        """Installed plugins of both groups, in the order of their names."""
        for entry in _entry_points(PLUGIN_GROUP):
            self.add_plugin(f"plugin {entry.name}", _load_entry(entry))
        for entry in _entry_points(UNIVERSE_GROUP):
            if entry.value.split(":")[0].split(".")[0] != "xdsl":
                self.add_universe(f"plugin {entry.name}", _load_entry(entry))


def _call(origin: str, load: Callable[[], Any]) -> Any:
    """A plugin's own code may fail in any way."""
    if origin in ("tilewright", "xdsl"):
        return load()
    try:
        return load()
    except Exception as problem:
        raise _failure(origin, f"{type(problem).__name__}: {problem}") from problem


class _Deferred:
    """A table entry that is a function returning the object, as xDSL's tables have them."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load


def _undefer(value: Any) -> Any:
    return value.load() if isinstance(value, _Deferred) else value


def default_registry() -> Registry:
    """All tables, xDSL's dialects and the installed plugins. Each call makes a new one: plugins of one do not leak."""
    registry = Registry()
    for kind, tables in TABLES.items():
        for table in tables:
            registry.add_table(kind, load_object(table))
    registry.add_xdsl_dialects()
    registry.add_entry_points()
    return registry


def load_object(path: str) -> Any:
    """The object that ``"module:object"`` names."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"'{path}' is not of the form module:object")
    return getattr(importlib.import_module(module), name)


@cache
def _entry_points(group: str) -> tuple[Any, ...]:
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda e: e.name))


def _load_entry(entry: Any) -> Any:
    try:
        return entry.load()
    except Exception as problem:
        raise _failure(f"plugin {entry.name}", f"cannot be loaded: {type(problem).__name__}: {problem}") from problem


def _import_file(path: Path, origin: str) -> ModuleType:
    name = f"tilewright_plugin_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None or not path.is_file():
        raise _failure(origin, "is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        del sys.modules[name]
        raise _failure(origin, f"cannot be loaded: {type(problem).__name__}: {problem}") from problem
    return module


def _did_you_mean(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f", did you mean '{close[0]}'?" if close else ""


def _failure(origin: str | None, message: str) -> Exception:
    from .diagnostics import Diagnostic, DiagnosticError, Severity

    return DiagnosticError(Diagnostic(Severity.ERROR, message if origin is None else f"{origin}: {message}"))
