"""``--list-passes`` and ``--list-dialects``."""

from __future__ import annotations

import inspect
from typing import Any

from ...core.passes import option_summary
from ...core.registry import Registry


def list_passes(registry: Registry) -> str:
    """Each pass with the first line of its docstring and its options, then the pipelines."""
    lines: list[str] = ["passes:"]
    for name in registry.names("pass"):
        pass_class = registry.resolve("pass", name)
        lines.append(f"  {name}{_from(registry, 'pass', name)}")
        summary = _summary(pass_class)
        if summary:
            lines.append(f"      {summary}")
        for option, kind, default in option_summary(pass_class):
            lines.append(f"      {{{option}}}  {kind}" + (f", default {default}" if default else ""))
    lines.append("pipelines:")
    for name in registry.names("pipeline"):
        specs = registry.resolve("pipeline", name)
        lines.append(f"  {name}{_from(registry, 'pipeline', name)}")
        lines.append(f"      {','.join(map(str, (specs,) if isinstance(specs, str) else specs))}")
    return "\n".join(lines)


def list_dialects(registry: Registry) -> str:
    """Our dialects first, then those of plugins and xDSL's."""
    names = registry.names("dialect")
    ours = [n for n in names if registry.origin("dialect", n) == "tilewright"]
    plugins = [n for n in names if registry.origin("dialect", n) not in ("tilewright", "xdsl")]
    lines = ["dialects:"]
    lines += [f"  {name}" for name in ours]
    lines += [f"  {name}{_from(registry, 'dialect', name)}" for name in plugins]
    lines += [f"  {name}  (xdsl)" for name in names if registry.origin("dialect", name) == "xdsl"]
    return "\n".join(lines)


def _from(registry: Registry, kind: Any, name: str) -> str:
    origin = registry.origin(kind, name)
    return "" if origin == "tilewright" else f"  ({origin})"


def _summary(pass_class: type[Any]) -> str:
    text = inspect.getdoc(pass_class) or ""
    return text.split("\n\n")[0].replace("\n", " ")
