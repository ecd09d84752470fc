"""``tilewright-reduce``: makes a module small while it stays interesting.

    from tilewright.tools.reduce import reduce
    small = reduce(module, lambda candidate: crashes(candidate), context)

``reducer`` is the search, ``strategies`` what it tries, ``measure`` what small means, ``command`` the tests that the
command line offers, ``main`` the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reducer import Reducer, reduce

__all__ = ["Reducer", "reduce"]


def __getattr__(name: str) -> Any:
    """Loaded at first use, so that ``--help`` of the command line needs nothing of the compiler."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from . import reducer

    return getattr(reducer, name)
