"""ONNX GridSample, written out: positions become linear indices of one gather per corner, weighted and summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as cross_product

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from ...core.symbolic import SymExpr
from ...dialects.graph import broadcasting as b
from ...dialects.graph import elementwise as e
from ...dialects.graph.base import product
from ...dialects.graph.indexing import GatherNdOp
from ...dialects.graph.shape import DimsOp, TransposeOp
from .errors import UnsupportedError
from .node import Node, Rule, shape_of, type_of
from .rules_shape import part

CUBIC = -0.75
"""Coefficient of the cubic kernel."""


@dataclass
class Sampler:
    """Emits the arithmetic of one node."""

    node: Node
    align: bool
    padding: str

    def number(self, value: float, like: SSAValue) -> SSAValue:
        return self.node.constant(value, like)

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.node.emit(b.AddOp(x, y))

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.node.emit(b.SubOp(x, y))

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.node.emit(b.MulOp(x, y))

    def clamp(self, x: SSAValue, high: SSAValue) -> SSAValue:
        low = self.node.emit(b.MaxOp(x, self.number(0, x)))
        return self.node.emit(b.MinOp(low, high))

    def size(self, dim: SymExpr) -> SSAValue:
        """A dimension as a float."""
        if dim.is_const():
            return self.node.constant(np.float32(dim.const_value()))
        value = self.node.emit(DimsOp([dim]))
        return self.node.reshape(self.node.cast(value, f32), ())

    def position(self, grid: SSAValue, size: SSAValue) -> SSAValue:
        """From [-1, 1] to indices: the ends are the centres of the border elements, or their outer edges."""
        shifted = self.add(grid, self.number(1, grid))
        half = self.number(0.5, grid)
        if self.align:
            return self.mul(self.mul(shifted, half), self.sub(size, self.number(1, size)))
        return self.mul(self.sub(self.mul(shifted, size), self.number(1, grid)), half)

    def bring_inside(self, x: SSAValue, size: SSAValue) -> SSAValue:
        """``border`` clamps a position, ``reflection`` folds it back, ``zeros`` leaves it."""
        last = self.sub(size, self.number(1, size))
        if self.padding == "border":
            return self.clamp(x, last)
        if self.padding != "reflection":
            return x
        low = self.number(0 if self.align else -0.5, x)
        span = last if self.align else size
        span = self.node.emit(b.MaxOp(span, self.number(1e-6, span)))
        distance = self.node.emit(e.AbsOp(self.sub(x, low)))
        period = self.add(span, span)
        folded = self.node.emit(b.ModOp(distance, period))
        back = self.sub(period, folded)
        return self.clamp(self.add(self.node.emit(b.MinOp(folded, back)), low), last)

    def corners(self, x: SSAValue, mode: str) -> list[tuple[SSAValue, SSAValue | None]]:
        """Indices (as floats) around a position, and their weights."""
        if mode == "nearest":
            return [(self.node.emit(e.RoundOp(x)), None)]
        base = self.node.emit(e.FloorOp(x))
        t = self.sub(x, base)
        rest = self.sub(self.number(1, t), t)
        if mode == "linear":
            return [(base, rest), (self.add(base, self.number(1, base)), t)]
        one = self.number(1, t)
        weights = [self.far(self.add(t, one)), self.near(t), self.near(rest), self.far(self.add(rest, one))]
        return [(self.add(base, self.number(k - 1, base)), w) for k, w in enumerate(weights)]

    def near(self, d: SSAValue) -> SSAValue:
        """((a + 2) d - (a + 3)) d d + 1"""
        inner = self.sub(self.mul(d, self.number(CUBIC + 2, d)), self.number(CUBIC + 3, d))
        return self.add(self.mul(inner, self.mul(d, d)), self.number(1, d))

    def far(self, d: SSAValue) -> SSAValue:
        """((a d - 5 a) d + 8 a) d - 4 a"""
        first = self.sub(self.mul(d, self.number(CUBIC, d)), self.number(5 * CUBIC, d))
        second = self.add(self.mul(first, d), self.number(8 * CUBIC, d))
        return self.sub(self.mul(second, d), self.number(4 * CUBIC, d))


def _grid_sample(node: Node) -> SSAValue:
    """x: N x C x S..., grid: N x O... x K (last coordinate first dimension reversed) give N x C x O..."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.attr("mode", "linear"), node.attr("mode", "linear"))
    if mode not in ("nearest", "linear", "cubic"):
        raise UnsupportedError(f"mode {mode}")
    x, grid = node[0], node.cast(node[1], f32)
    sampler = Sampler(node, bool(node.attr("align_corners", 0)), node.attr("padding_mode", "zeros"))
    batch, channels, *sizes = shape_of(x)
    outer = shape_of(grid)[1:-1]
    rank = len(sizes)
    points = node.reshape(grid, (batch, product(outer), rank))
    axes: list[list[tuple[SSAValue, SSAValue | None]]] = []
    extents = [sampler.size(d) for d in sizes]
    for i, size in enumerate(extents):
        column = node.reshape(part(node, points, 2, rank - 1 - i, 1), (batch, product(outer)))
        position = sampler.position(column, size)
        if mode != "cubic":
            position = sampler.bring_inside(position, size)
        axes.append(sampler.corners(position, mode))
    rows = node.reshape(node.emit(TransposeOp(x, [0, *range(2, rank + 2), 1])), (batch, product(sizes), channels))
    total: SSAValue | None = None
    for corner in cross_product(*axes):
        term = _corner(sampler, rows, corner, extents)
        total = term if total is None else sampler.add(total, term)
    assert total is not None
    moved = node.emit(TransposeOp(total, [0, 2, 1]))
    return node.reshape(moved, (batch, channels, *outer))


def _corner(
    s: Sampler, rows: SSAValue, corner: Sequence[tuple[SSAValue, SSAValue | None]], extents: Sequence[SSAValue]
) -> SSAValue:
    """The elements at one corner of every position, times their weights; outside of the input 0 or the padding's."""
    node = s.node
    linear: SSAValue | None = None
    weight: SSAValue | None = None
    for (index, factor), size in zip(corner, extents):
        if s.padding != "zeros":
            index = s.bring_inside(index, size)
        inside = s.clamp(index, s.sub(size, s.number(1, size)))
        if s.padding == "zeros":
            # An index that clamping moved is outside.
            hit = node.cast(node.emit(b.CompareOp(index, inside, "eq")), f32)
            factor = hit if factor is None else s.mul(factor, hit)
        if factor is not None:
            weight = factor if weight is None else s.mul(weight, factor)
        place = node.cast(inside, i64)
        linear = place if linear is None else s.add(s.mul(linear, node.cast(size, i64)), place)
    assert linear is not None
    picked = node.emit(GatherNdOp(rows, node.reshape(linear, (*shape_of(linear), 1)), 1))
    if weight is None:
        return picked
    column = node.reshape(weight, (*shape_of(weight), 1))
    return s.mul(picked, node.cast(column, type_of(picked).element_type))


GRID_RULES: dict[str, Rule] = {"GridSample": _grid_sample}
"""Operator to rule."""
