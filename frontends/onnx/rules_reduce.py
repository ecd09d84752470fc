"""ONNX reductions; axes are an attribute in old opsets and an input in new ones."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import SSAValue

from ...dialects.graph import broadcasting as b
from ...dialects.graph import elementwise as e
from ...dialects.graph import reduce as r
from .node import Node, Result, Rule, shape_of, type_of


def reduction_axes(node: Node) -> list[int] | None:
    """Axes in increasing order; ``None``: nothing is reduced."""
    rank = node.entry(0).rank
    axes = list(node.attr("axes", [])) or (node.ints(1, "axes") if node.has(1) else [])
    if not axes:
        return None if node.attr("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({a % rank if -rank <= a < rank else a for a in axes})


def _reduce(make: type[r.ReduceOp]) -> Rule:
    def rule(node: Node) -> Result:
        axes = reduction_axes(node)
        if axes is None:
            return node.entry(0)
        return _apply(node, make, node[0], axes)

    return rule


def _apply(node: Node, make: type[r.ReduceOp], x: SSAValue, axes: list[int]) -> SSAValue:
    keep = bool(node.attr("keepdims", 1))
    if make is r.ReduceMeanOp and not isinstance(type_of(x).element_type, AnyFloat):
        mean = node.emit(make(node.cast(x, f32), axes, keep))
        return node.cast(mean, type_of(x).element_type)
    return node.emit(make(x, axes, keep))


def _composed(before: str, after: str) -> Rule:
    """A sum with a function of each element before it, and a function of the result after it."""

    def rule(node: Node) -> SSAValue:
        x = node[0]
        element = type_of(x).element_type
        if not isinstance(element, AnyFloat) and after:
            x = node.cast(x, f32)
        if before == "abs":
            x = node.emit(e.AbsOp(x))
        elif before == "square":
            x = node.emit(b.MulOp(x, x))
        axes = reduction_axes(node)
        total = x if axes is None else _apply(node, r.ReduceSumOp, x, axes)
        if after == "sqrt":
            total = node.emit(e.SqrtOp(total))
        elif after == "log":
            total = node.emit(e.LogOp(total))
        return node.cast(total, element)

    return rule


def _log_sum_exp(node: Node) -> SSAValue:
    """max + log(sum(e ** (x - max))), the maximum replaced by 0 where it is infinite"""
    x = node[0]
    element = type_of(x).element_type
    x = x if isinstance(element, AnyFloat) else node.cast(x, f32)
    axes = reduction_axes(node)
    if axes is None:
        return node.cast(node.emit(e.LogOp(node.emit(e.ExpOp(x)))), element)
    top = node.emit(r.ReduceMaxOp(x, axes, True))
    infinite = node.emit(b.CompareOp(node.emit(e.AbsOp(top)), node.constant(np.inf, top), "eq"))
    top = node.emit(b.WhereOp(infinite, node.constant(0, top), top))
    total = node.emit(r.ReduceSumOp(node.emit(e.ExpOp(node.emit(b.SubOp(x, top)))), axes, True))
    result = node.emit(b.AddOp(node.emit(e.LogOp(total)), top))
    if not node.attr("keepdims", 1):
        result = node.reshape(result, [d for i, d in enumerate(shape_of(result)) if i not in axes])
    return node.cast(result, element)


def _arg_reduce(make: type[r.ArgReduceOp]) -> Rule:
    def rule(node: Node) -> SSAValue:
        axis = node.attr("axis", 0) % max(node.entry(0).rank, 1)
        last = bool(node.attr("select_last_index", 0))
        return node.emit(make(node[0], axis, bool(node.attr("keepdims", 1)), last))

    return rule


REDUCE_RULES: dict[str, Rule] = {
    "ReduceSum": _reduce(r.ReduceSumOp),
    "ReduceMean": _reduce(r.ReduceMeanOp),
    "ReduceMax": _reduce(r.ReduceMaxOp),
    "ReduceMin": _reduce(r.ReduceMinOp),
    "ReduceProd": _reduce(r.ReduceProdOp),
    "ReduceL1": _composed("abs", ""),
    "ReduceL2": _composed("square", "sqrt"),
    "ReduceSumSquare": _composed("square", ""),
    "ReduceLogSum": _composed("", "log"),
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": _arg_reduce(r.ArgMaxOp),
    "ArgMin": _arg_reduce(r.ArgMinOp),
}
"""Operator to rule."""
