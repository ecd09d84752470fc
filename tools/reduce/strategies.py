"""The strategies in the order of a round: what removes most comes first."""

from __future__ import annotations

from .functions import DropArguments, DropResults, EarlyReturn, TopLevel
from .literals import DropAttributes, SimplifyLiterals
from .ops import Constants, DropOperands, EarlierOperands, EraseOps, FreshArguments, SimplerIndices
from .reducer import Strategy
from .regions import EmptyRegions, Hoist
from .shapes import SmallerShapes


def default_strategies() -> tuple[Strategy, ...]:
    """All of them."""
    return (
        EarlyReturn(),
        FreshArguments(),
        TopLevel(),
        EraseOps(),
        Constants(),
        Hoist(),
        EmptyRegions(),
        DropResults(),
        DropArguments(),
        DropOperands(),
        SimplerIndices(),
        SmallerShapes(),
        EarlierOperands(),
        SimplifyLiterals(),
        DropAttributes(),
    )
