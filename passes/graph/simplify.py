"""Algebraic simplification: the pass over ``rules_algebra.py``."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ...core.context import TilewrightContext
from ...core.passes import FunctionPass
from ...core.rewriting import apply_patterns
from .rules_algebra import ALGEBRA_RULES


@dataclass(frozen=True)
class GraphSimplifyPass(FunctionPass):
    """Applies identities of arithmetic that hold bit by bit.

    Before::

        %0 = graph.relu %x ...
        %1 = graph.relu %0 ...
        %2 = graph.div %1, %four ...

    After::

        %0 = graph.relu %x ...
        %2 = graph.mul %0, %quarter ...

    Rules that change float results are in ``graph-simplify-float``.
    """

    name = "graph-simplify"

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        apply_patterns(func, [rule() for rule in ALGEBRA_RULES])
