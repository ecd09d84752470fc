"""``tilewright-bisect``: which pass first changes a result, which operation first, and a small program that shows it.

    from tilewright.tools.bisect import bisect
    finding = bisect(module, context, passes, inputs)

``program`` loads and makes inputs, ``runs`` runs and compares, ``search`` goes through the passes, ``trace`` finds the
operation, ``reproducer`` shrinks, ``main`` is the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reproducer import reproduce
    from .search import Finding, bisect

_WHERE = {"bisect": "search", "Finding": "search", "reproduce": "reproducer"}
__all__ = ["Finding", "bisect", "reproduce"]


def __getattr__(name: str) -> Any:
    """Loaded at first use, so that ``--help`` of the command line needs nothing of the compiler."""
    if name not in _WHERE:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f".{_WHERE[name]}", __name__), name)
