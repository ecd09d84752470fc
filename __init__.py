"""Tilewright: a deep-learning compiler built as a framework of dialects on xDSL.

The public API is loaded when it is first used, so that ``import tilewright`` costs nothing and the runtime works where
neither xDSL nor Lark is installed::

    import tilewright

    tilewright.compile("model.onnx", output="model.twm")     # needs the compiler
    model = tilewright.load("model.twm")                     # needs NumPy and llvmlite only
    y = model(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .runtime import Model, TilewrightError, get_num_threads, load, set_num_threads
    from .tools.driver import compile, resume


__all__ = [
    "Model",
    "TilewrightError",
    "__version__",
    "compile",
    "get_num_threads",
    "load",
    "resume",
    "set_num_threads",
]

_WHERE = {
    "Model": ".runtime",
    "TilewrightError": ".runtime",
    "get_num_threads": ".runtime",
    "load": ".runtime",
    "set_num_threads": ".runtime",
    "compile": ".tools.driver",
    "resume": ".tools.driver",
}


def __getattr__(name: str) -> Any:
    """A public object, imported now."""
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(module, __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
