"""ONNX frontend: ``import_model`` gives the graph-level module of a model; ``backend`` is ONNX's standard interface.

The names are loaded lazily, so that importing the package needs neither ``onnx`` nor the dialects.
"""

from __future__ import annotations

from typing import Any

__all__ = ["import_model"]


def __getattr__(name: str) -> Any:
    if name == "import_model":
        from .importer import import_model

        return import_model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
