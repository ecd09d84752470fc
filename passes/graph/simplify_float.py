"""Simplifications that change float results in the last places; no pipeline has this pass unless it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ...core.context import TilewrightContext
from ...core.passes import FunctionPass
from ...core.rewriting import apply_patterns
from .rules_float import FLOAT_RULES


@dataclass(frozen=True)
class GraphSimplifyFloatPass(FunctionPass):
    """Applies identities that hold for real numbers only.

    Before::

        %0 = graph.add %x, %c1 ...
        %1 = graph.add %0, %c2 ...

    After::

        %c = graph.add %c1, %c2 ...
        %1 = graph.add %x, %c ...
    """

    name = "graph-simplify-float"

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        apply_patterns(func, [rule() for rule in FLOAT_RULES])
