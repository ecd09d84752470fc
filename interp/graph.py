"""NumPy meaning of graph ops: the table of value functions, and the elementwise and reducing ones.

Each function takes the op (for its properties) and the operands' arrays, and gives an array of the result's element
type. Half-precision floats are computed in float32 and rounded once. Windows are in ``graph_windows``, moves of
elements in ``graph_moves``, resizing in ``graph_resize``, ops that need symbols or regions in ``graph_structure``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ..dialects.graph.base import get_int, get_ints
from .arith import numpy_dtype
from .graph_moves import MOVE_OPS
from .graph_windows import WINDOW_OPS
from .interpreter import ValueFunction

Array = npt.NDArray[Any]


def in_float32(function: Callable[..., Any]) -> Callable[..., Array]:
    """Runs a float function in float32 for half-precision operands; the result has the first operand's dtype."""

    def run(*args: Array) -> Array:
        dtype = args[0].dtype
        if dtype.itemsize == 2 and dtype.kind not in "iub":
            return np.asarray(function(*(a.astype(np.float32) for a in args))).astype(dtype)
        return np.asarray(function(*args)).astype(dtype, copy=False)

    return run


def _elementwise(function: Callable[..., Any]) -> ValueFunction:
    run = in_float32(function)

    def value_function(op: Operation, *args: Array) -> Array:
        with np.errstate(all="ignore"):
            return run(*args)

    return value_function


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return cast(Array, 1 / (1 + np.exp(-x)))


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    quotient = np.floor_divide(a, b)
    inexact = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return cast(Array, quotient + inexact.astype(a.dtype))


def _mod(op: Operation, a: Array, b: Array) -> Array:
    function = np.fmod if get_int(op.properties, "truncated", 0) else np.mod
    return np.asarray(_elementwise(function)(op, a, b))


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu" and b.size and (b < 0).any():
        return np.power(a.astype(np.float64), b)
    return np.power(a, b)


def _shift(function: Callable[..., Any]) -> ValueFunction:
    """Shifts by the width or more give what infinitely many bits would give."""

    def run(op: Operation, a: Array, b: Array) -> Array:
        width = a.dtype.itemsize * 8
        shifted = function(a, np.minimum(b, width - 1).astype(a.dtype))
        rest = np.where(a < 0, -1, 0).astype(a.dtype) if function is np.right_shift else np.zeros_like(a)
        return np.where(b >= width, rest, shifted)

    return run


_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare(op: Operation, a: Array, b: Array) -> Array:
    predicate = cast(StringAttr, op.properties["predicate"]).data
    return np.asarray(_COMPARE[predicate](a, b))


def _cast(op: Operation, x: Array) -> Array:
    dtype = numpy_dtype(op.properties["to"])
    with np.errstate(all="ignore"):
        return cast(Array, x != 0) if dtype.kind == "b" else x.astype(dtype)


def _reduce(function: Callable[..., Any]) -> ValueFunction:
    def run(op: Operation, x: Array) -> Array:
        axes, keep = get_ints(op.properties, "axes"), bool(get_int(op.properties, "keep_dims", 0))
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iub" else x
        extra: dict[str, Any] = {}
        if function in (np.max, np.min):
            extra["initial"] = _extreme(wide.dtype, smallest=function is np.max)
        elif function in (np.sum, np.prod):
            extra["dtype"] = wide.dtype
        with np.errstate(all="ignore"):
            return np.asarray(function(wide, axis=axes, keepdims=keep, **extra)).astype(x.dtype, copy=False)

    return run


def _extreme(dtype: np.dtype[Any], smallest: bool) -> Any:
    if dtype.kind == "b":
        return not smallest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if smallest else np.iinfo(dtype).max
    return -np.inf if smallest else np.inf


def _arg_reduce(function: Callable[..., Any]) -> ValueFunction:
    def run(op: Operation, x: Array) -> Array:
        axis, keep = get_int(op.properties, "axis", 0), bool(get_int(op.properties, "keep_dims", 0))
        if get_int(op.properties, "last_index", 0):
            found = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis, keepdims=keep)
        else:
            found = function(x, axis=axis, keepdims=keep)
        return np.asarray(found, dtype=np.int64)

    return run


def _where(op: Operation, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


VALUE_OPS: dict[str, ValueFunction] = {
    "graph.neg": _elementwise(np.negative),
    "graph.abs": _elementwise(np.abs),
    "graph.sign": _elementwise(np.sign),
    "graph.relu": _elementwise(lambda x: np.maximum(x, np.zeros((), x.dtype))),
    "graph.exp": _elementwise(np.exp),
    "graph.log": _elementwise(np.log),
    "graph.log1p": _elementwise(np.log1p),
    "graph.expm1": _elementwise(np.expm1),
    "graph.sqrt": _elementwise(np.sqrt),
    "graph.rsqrt": _elementwise(lambda x: 1 / np.sqrt(x)),
    "graph.sin": _elementwise(np.sin),
    "graph.cos": _elementwise(np.cos),
    "graph.tan": _elementwise(np.tan),
    "graph.asin": _elementwise(np.arcsin),
    "graph.acos": _elementwise(np.arccos),
    "graph.atan": _elementwise(np.arctan),
    "graph.sinh": _elementwise(np.sinh),
    "graph.cosh": _elementwise(np.cosh),
    "graph.tanh": _elementwise(np.tanh),
    "graph.erf": _elementwise(_erf),
    "graph.sigmoid": _elementwise(_sigmoid),
    "graph.ceil": _elementwise(np.ceil),
    "graph.floor": _elementwise(np.floor),
    "graph.round": _elementwise(np.round),
    "graph.not": _elementwise(np.invert),
    "graph.is_nan": lambda op, x: np.isnan(x),
    "graph.cast": _cast,
    "graph.add": _elementwise(np.add),
    "graph.sub": _elementwise(np.subtract),
    "graph.mul": _elementwise(np.multiply),
    "graph.div": _elementwise(_divide),
    "graph.mod": _mod,
    "graph.pow": _elementwise(_pow),
    "graph.max": _elementwise(np.maximum),
    "graph.min": _elementwise(np.minimum),
    "graph.and": _elementwise(np.bitwise_and),
    "graph.or": _elementwise(np.bitwise_or),
    "graph.xor": _elementwise(np.bitwise_xor),
    "graph.shift_left": _shift(np.left_shift),
    "graph.shift_right": _shift(np.right_shift),
    "graph.compare": _compare,
    "graph.where": _where,
    "graph.matmul": _elementwise(np.matmul),
    "graph.reduce_sum": _reduce(np.sum),
    "graph.reduce_prod": _reduce(np.prod),
    "graph.reduce_mean": _reduce(np.mean),
    "graph.reduce_max": _reduce(np.max),
    "graph.reduce_min": _reduce(np.min),
    "graph.argmax": _arg_reduce(np.argmax),
    "graph.argmin": _arg_reduce(np.argmin),
    **WINDOW_OPS,
    **MOVE_OPS,
}
"""Value functions of the graph dialect."""
