"""Evaluates ``te.compute``: all elements at once, over index grids, in NumPy.

Each index of the compute is one axis: spatial dimensions first, then reduction dimensions. A value that does not
depend on an index has extent 1 on its axis, so element arithmetic is NumPy broadcasting. Reads whose indices are
linear are strided views and copy nothing; others gather. Reductions run in chunks, so that layers of ordinary size
fit into memory; the sum of a product of two strided reads is a contraction, which ``einsum`` gives to BLAS.

The result of a float reduction depends on the order of its elements in the last digits, as in any implementation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ..core.attributes import shape_exprs
from ..core.diagnostics import emit_error
from ..core.symbolic import SymExpr
from ..dialects.te.ops import COMBINERS, ComputeOp, IndexOp, ReadOp
from .arith import SCALAR_OPS, numpy_dtype
from .exprs import evaluate_exprs
from .interpreter import Frame, FrameFunction, Value

Array = NDArray[Any]
Span = tuple[int, int]

CHUNK = 1 << 22
"""Elements that are evaluated at once."""


class InterpretationError(Exception):
    """A program that has no value: an index outside of its tensor, an op without a meaning here."""


def evaluate_compute(
    op: ComputeOp, inputs: Sequence[Array], symbols: Mapping[str, int] | None = None
) -> list[Array]:
    """The results of ``op`` for these inputs; symbols that are sizes of inputs need not be given."""
    known = dict(symbols or {})
    for value, array in zip(op.inputs, inputs):
        for expr, size in zip(shape_exprs(value.type), array.shape):
            if expr.kind == "sym":
                known.setdefault(expr.name, size)
    return _Evaluation(op, [np.asarray(a, order="C") for a in inputs], known).run()


def identity_of(combiner: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction over nothing gives."""
    if combiner in ("sum", "or", "prod", "and"):
        return dtype.type(combiner in ("prod", "and"))
    largest = combiner in ("min", "argmin")
    if dtype.kind == "b":
        return dtype.type(largest)
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if largest else np.iinfo(dtype).min
    return dtype.type(math.inf if largest else -math.inf)


@dataclass
class _Evaluation:
    op: ComputeOp
    inputs: list[Array]
    symbols: dict[str, int]
    spans: list[Span] = field(default_factory=list)
    values: dict[SSAValue, Any] = field(default_factory=dict)
    axes: dict[SSAValue, int] = field(default_factory=dict)

    def run(self) -> list[Array]:
        op = self.op
        self.extents = [int(v) for v in evaluate_exprs(op.extents.exprs, self.symbols)]
        self.depths = [int(v) for v in evaluate_exprs(op.reduce_extents.exprs, self.symbols)]
        self.axes = {arg: axis for axis, arg in enumerate((*op.spatial_args, *op.reduce_args))}
        self.spans = [(0, n) for n in (*self.extents, *self.depths)]
        self.dtypes = [numpy_dtype(r.type) for r in op.results_]
        with np.errstate(all="ignore"):
            if not op.yield_op.combiner_names:
                return [self._spatial(v, d).copy() for v, d in zip(self._body(), self.dtypes)]
            return self._contraction() or self._reduction()

    def _spatial(self, value: Any, dtype: np.dtype[Any]) -> Array:
        return np.broadcast_to(np.asarray(value, dtype), self.extents)

    # Bodies.

    def _body(self) -> list[Any]:
        """The yielded values for the current spans; each broadcasts to their extents."""
        self.values = dict(zip(self.op.input_args, self.inputs))
        for arg, axis in self.axes.items():
            self.values[arg] = self._axis_values(axis)
        for op in self.op.body.block.ops:
            if op is self.op.yield_op:
                break
            self.values[op.results[0]] = self._evaluate(op)
        return [self.values[v] for v in self.op.yield_op.values]

    def _axis_values(self, axis: int) -> Array:
        shape = [1] * len(self.spans)
        shape[axis] = -1
        return np.arange(*self.spans[axis], dtype=np.int64).reshape(shape)

    def _evaluate(self, op: Operation) -> Any:
        if isinstance(op, ReadOp):
            return self._read(op)
        if isinstance(op, IndexOp):
            (value,) = evaluate_exprs(op.map.results, self._map_values(op.args))
            return np.asarray(value, np.int64)
        function = SCALAR_OPS.get(op.name)
        if function is None:
            raise InterpretationError(f"'{op.name}' has no meaning in the body of te.compute")
        return function(op, *(self.values[v] for v in op.operands))

    def _map_values(self, args: Sequence[SSAValue]) -> dict[str, Any]:
        return {**self.symbols, **{f"d{k}": self.values[arg] for k, arg in enumerate(args)}}

    # Reads.

    def _read(self, op: ReadOp) -> Any:
        array = self.values[op.tensor]
        view = self.strided(op)
        if view is not None:
            return view
        indices = evaluate_exprs(op.map.results, self._map_values(op.args))
        if op.default is None:
            for index, size in zip(indices, array.shape):
                if np.size(index) and (np.min(index) < 0 or np.max(index) >= size):
                    raise InterpretationError(f"'te.read' index is outside of {array.shape}: {op.map}")
            return array[indices]
        inside: Any = np.True_
        for index, size in zip(indices, array.shape):
            inside = inside & (np.asarray(index) >= 0) & (np.asarray(index) < size)
        default = self.values[op.default]
        if 0 in array.shape:
            return np.broadcast_to(default, np.broadcast_shapes(np.shape(inside), np.shape(default)))
        clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, array.shape))
        return np.where(inside, array[clipped], default)

    def strided(self, op: ReadOp) -> Array | None:
        """The read as a view with one axis per index, when all its indices are linear and inside the tensor."""
        array: Array = self.values[op.tensor]
        shape, strides, offset = [1] * len(self.spans), [0] * len(self.spans), 0
        for expr, size, stride in zip(op.map.results, array.shape, array.strides):
            linear = self._linear(expr, op.args)
            if linear is None:
                return None
            low = high = linear[1]
            for axis, coefficient in linear[0].items():
                begin, end = self.spans[axis]
                if begin >= end:
                    return None
                ends = (coefficient * begin, coefficient * (end - 1))
                low, high = low + min(ends), high + max(ends)
                shape[axis] = end - begin
                strides[axis] += coefficient * stride
                offset += coefficient * begin * stride
            if low < 0 or high >= size:
                return None
            offset += linear[1] * stride
        start = array.reshape(-1)[offset // array.itemsize :]
        return as_strided(start, shape, strides, writeable=False)

    def _linear(self, expr: SymExpr, args: Sequence[SSAValue]) -> tuple[dict[int, int], int] | None:
        terms, constant = expr.as_linear()
        coefficients: dict[int, int] = {}
        for term, coefficient in terms.items():
            names = {f"d{k}": arg for k, arg in enumerate(args)}
            if term.symbols().isdisjoint(names):
                (value,) = evaluate_exprs([term], self.symbols)
                constant += coefficient * int(value)
                continue
            if term.kind != "sym" or names[term.name] not in self.axes:
                return None
            axis = self.axes[names[term.name]]
            coefficients[axis] = coefficients.get(axis, 0) + coefficient
        return coefficients, constant

    # Reductions.

    def _reduction(self) -> list[Array]:
        rank = len(self.extents)
        names = self.op.yield_op.combiner_names
        totals: list[Array] | None = None
        for chunk in self._chunks():
            self.spans[rank:] = chunk
            shape = (*self.extents, *(end - begin for begin, end in chunk))
            values = [np.broadcast_to(np.asarray(v), shape) for v in self._body()]
            flat = [v.reshape(*self.extents, -1) for v in values]
            if totals is not None:
                flat = [np.concatenate((t[..., None], v), axis=-1) for t, v in zip(totals, flat)]
            totals = combine(names, flat, self.dtypes)
        if totals is None:
            return self._identities(names)
        return totals

    def _identities(self, names: Sequence[str]) -> list[Array]:
        results: list[Array] = []
        for name in names:
            for k in range(COMBINERS[name]):
                dtype = self.dtypes[len(results)]
                value = np.iinfo(dtype).max if k else identity_of(name, dtype)
                results.append(np.full(self.extents, value, dtype))
        return results

    def _chunks(self) -> Iterator[list[Span]]:
        """Boxes that cover the reduction space, in order, each of about ``CHUNK`` elements with the spatial space."""
        room = max(1, CHUNK // max(1, math.prod(self.extents)))
        steps: list[int] = []
        for depth in reversed(self.depths):
            steps.insert(0, max(1, min(depth, room)))
            room = room // max(1, depth)
        ranges = [
            [(begin, min(begin + step, depth)) for begin in range(0, depth, step)]
            for depth, step in zip(self.depths, steps)
        ]
        return (list(chunk) for chunk in itertools.product(*ranges))

    def _contraction(self) -> list[Array] | None:
        """``sum`` of ``a[...] * b[...]`` with float elements and linear indices, by einsum; ``None`` for others."""
        operands = contraction_reads(self.op)
        if operands is None or self.dtypes[0].kind != "f" or 0 in (*self.extents, *self.depths):
            return None
        self.values = dict(zip(self.op.input_args, self.inputs))
        views = [self.strided(read) for read in operands]
        if views[0] is None or views[1] is None:
            return None
        used = [[axis for axis, n in enumerate(v.shape) if n != 1] for v in cast(list[Array], views)]
        rank = len(self.extents)
        if any(n != 1 and rank + k not in used[0] + used[1] for k, n in enumerate(self.depths)):
            return None
        arrays = [np.squeeze(v) for v in cast(list[Array], views)]
        kept = [axis for axis in range(rank) if axis in used[0] or axis in used[1]]
        result = np.einsum(arrays[0], used[0], arrays[1], used[1], kept, optimize=True)
        shape = [n if axis in kept else 1 for axis, n in enumerate(self.extents)]
        return [self._spatial(result.reshape(shape), self.dtypes[0]).copy()]


def combine(names: Sequence[str], values: Sequence[Array], dtypes: Sequence[np.dtype[Any]]) -> list[Array]:
    """Reduces the last axis of all values with the combiners, in their order."""
    results: list[Array] = []
    position = 0
    for name in names:
        taken = values[position : position + COMBINERS[name]]
        position += COMBINERS[name]
        if COMBINERS[name] == 2:
            results.extend(_extreme_pair(name, taken[0], taken[1]))
            continue
        results.append(np.asarray(_REDUCERS[name](taken[0])))
    return [np.asarray(r, d) for r, d in zip(results, dtypes)]


def _extreme_pair(name: str, value: Array, index: Array) -> tuple[Array, Array]:
    """The extreme value (a NaN is the most extreme) and the smallest index that has it."""
    best = value.max(axis=-1) if name == "argmax" else value.min(axis=-1)
    same = value == best[..., None]
    if value.dtype.kind == "f":
        same |= np.isnan(value) & np.isnan(best)[..., None]
    return best, np.where(same, index, np.iinfo(index.dtype).max).min(axis=-1)


_REDUCERS: dict[str, Any] = {
    "sum": lambda v: v.sum(axis=-1, dtype=v.dtype),
    "prod": lambda v: v.prod(axis=-1, dtype=v.dtype),
    "max": lambda v: v.max(axis=-1),
    "min": lambda v: v.min(axis=-1),
    "and": lambda v: np.bitwise_and.reduce(v, axis=-1),
    "or": lambda v: np.bitwise_or.reduce(v, axis=-1),
}


def contraction_reads(op: ComputeOp) -> tuple[ReadOp, ReadOp] | None:
    """The two reads whose product the compute sums, when it does just that."""
    terminator = op.yield_op
    if terminator.combiner_names != ("sum",):
        return None
    product = terminator.values[0].owner
    if not isinstance(product, Operation) or product.name not in ("arith.mulf", "arith.muli"):
        return None
    a, b = (v.owner for v in product.operands)
    if not isinstance(a, ReadOp) or not isinstance(b, ReadOp) or a.default is not None or b.default is not None:
        return None
    return a, b


def _compute(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    try:
        return evaluate_compute(cast(ComputeOp, op), operands, frame.symbols)
    except InterpretationError as problem:
        emit_error(op, str(problem))


FRAME_OPS: dict[str, FrameFunction] = {"te.compute": _compute}
"""Frame functions of the te dialect."""
