"""Symbolic expressions as Python source, for interpreters that run over integers or whole index arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.symbolic import SymExpr

Evaluator = Callable[..., Any]


def python_source(expr: SymExpr, names: Mapping[str, str], arrays: bool = False) -> str:
    """A Python expression of the same value; ``names`` says how symbols are spelt; ``arrays``: operands are NumPy's."""
    kind = expr.kind
    if kind == "const":
        return str(expr.const_value())
    if kind == "sym":
        return names[expr.name]
    parts = [python_source(a, names, arrays) for a in expr.args]
    if kind in ("min", "max"):
        function = f"np.{kind}imum" if arrays else kind
        result = parts[0]
        for part in parts[1:]:
            result = f"{function}({result}, {part})"
        return result
    operator = {"add": " + ", "mul": " * ", "floordiv": " // ", "mod": " % "}[kind]
    return f"({operator.join(parts)})"


@lru_cache(maxsize=65536)
def compile_exprs(exprs: tuple[SymExpr, ...], names: tuple[str, ...]) -> Evaluator:
    """``function(*values of names) -> tuple of values``, on integers and arrays."""
    spelling = {name: f"_{k}" for k, name in enumerate(names)}
    results = "".join(f"{python_source(e, spelling, arrays=True)}, " for e in exprs)
    code = f"lambda {', '.join(spelling.values())}: ({results})"
    return eval(code, {"np": np, "min": min, "max": max})  # type: ignore[no-any-return]


def evaluate_exprs(exprs: Sequence[SymExpr], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of expressions whose symbols have integers or arrays as ``values``."""
    names = tuple(sorted(frozenset[str]().union(*(e.symbols() for e in exprs))))
    return tuple(compile_exprs(tuple(exprs), names)(*(values[n] for n in names)))
