"""Canonical form of movement: the pass over ``rules_movement.py`` and the identity elements of ``rules_algebra.py``."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ...core.context import TilewrightContext
from ...core.passes import FunctionPass
from ...core.rewriting import apply_patterns
from .rules_algebra import IDENTITY_RULES
from .rules_movement import MOVEMENT_RULES


@dataclass(frozen=True)
class GraphCanonicalizePass(FunctionPass):
    """Removes data movement that does nothing, merges chains of it, and puts constants on the right.

    Before::

        %0 = graph.transpose %x {permutation = array<i64: 1, 0>} ...
        %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} ...
        %2 = graph.mul %one, %1 ...

    After: uses of ``%2`` use ``%x``. Results are the same bit by bit.
    """

    name = "graph-canonicalize"

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        apply_patterns(func, [rule() for rule in (*MOVEMENT_RULES, *IDENTITY_RULES)])
