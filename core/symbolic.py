"""Symbolic integers: the one place that knows integer arithmetic over names.

This module is the public face; import from here. ``symexpr`` holds the type and its canonical form,
``symview`` how it reads and prints, ``symranges`` range analysis and simplification, ``symtext`` the parser.

    n = sym("n")
    str((n * 4 + 3) // 4)                                # 'n'
    simplify((sym("a") * 16 + sym("b")) % 16, {"b": (0, 15)})   # b

Ranges are inclusive ``(low, high)`` pairs; ``None`` means unbounded.
"""

from .symexpr import (
    KEYWORDS,
    ExprLike,
    SymExpr,
    as_expr,
    ceildiv,
    const,
    floordiv,
    linear_sum,
    mod,
    sym,
    sym_max,
    sym_min,
)
from .symranges import Interval, Ranges, bounds, proves_eq, proves_le, proves_lt, simplify
from .symtext import parse_expr

__all__ = [
    "KEYWORDS",
    "ExprLike",
    "Interval",
    "Ranges",
    "SymExpr",
    "as_expr",
    "bounds",
    "ceildiv",
    "const",
    "floordiv",
    "linear_sum",
    "mod",
    "parse_expr",
    "proves_eq",
    "proves_le",
    "proves_lt",
    "simplify",
    "sym",
    "sym_max",
    "sym_min",
]
