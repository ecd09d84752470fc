"""Frame functions of the graph dialect: ops with regions, ops that call, ops whose properties name symbolic
dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, IntegerAttr, MemRefType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from ..core.attributes import IndexMapAttr, SymExprAttr, layout_of, memref_shape_exprs
from ..core.diagnostics import emit_error
from ..dialects.graph.base import get_exprs, get_int, get_ints
from ..dialects.graph.structure import CallOp, ConstantOp, KernelOp, RecipeOp
from .arith import numpy_dtype
from .graph_resize import resize
from .interpreter import Frame, FrameFunction, Value
from .loop import allocate

Array = npt.NDArray[Any]


def constant_array(frame: Frame, op: ConstantOp) -> Array:
    """The value of a constant: from the op, the table of weights, or a recipe."""
    if op.recipe is not None:
        return _recipe_value(frame, op, op.recipe)
    type = cast("TensorType[Attribute]", op.result.type)
    shape, dtype = type.get_shape(), numpy_dtype(type)
    if op.resource is not None:
        array = frame.interpreter.context.resources.get(op.resource)
        if array is None:
            emit_error(op, f"names the resource '{op.resource}', which the table does not have")
        if array.dtype != dtype or array.size != int(np.prod(shape, dtype=object)):
            emit_error(op, f"resource '{op.resource}' is {array.dtype}{list(array.shape)}, expected {type}")
        return cast(Array, array.reshape(shape))
    return dense_array(cast(DenseIntOrFPElementsAttr, op.value), shape, dtype)


def dense_array(value: DenseIntOrFPElementsAttr, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """The elements of a ``dense<...>`` attribute."""
    boolean = dtype.kind == "b"
    values = np.array(value.get_values(), bool) if boolean else np.frombuffer(value.data.data, dtype)
    return np.broadcast_to(values.reshape(()), shape) if values.size == 1 else values.reshape(shape)


def _recipe_value(frame: Frame, op: Operation, name: str) -> Array:
    known = frame.interpreter.recipes
    if name not in known:
        recipe = frame.interpreter.find(name)
        if not isinstance(recipe, RecipeOp):
            emit_error(op, f"names the recipe '{name}', which the module does not have")
        known[name] = Frame(frame.interpreter).run_block(recipe.body.block, [])[1][0]
    return cast(Array, known[name])


def _constant(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return [constant_array(frame, cast(ConstantOp, op))]


def _kernel(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return frame.isolated().run_block(cast(KernelOp, op).body.block, operands)[1]


def _call(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    call = cast(CallOp, op)
    callee = frame.interpreter.find(call.callee.root_reference.data)
    if not isinstance(callee, FuncOp):
        emit_error(op, f"calls '{call.callee.root_reference.data}', which is not a function of the module")
    types = callee.function_type.inputs.data
    if not any(isinstance(t, MemRefType) for t in types):
        return frame.interpreter.call_function(callee, operands, frame.symbols)
    return _call_on_memory(frame, call, callee, operands)


def _call_on_memory(frame: Frame, call: CallOp, callee: FuncOp, operands: list[Value]) -> Sequence[Value]:
    """Calls a kernel in destination-passing form: arguments in their physical layout, outputs and workspaces made
    here, filled with what no kernel may take for a result.
    """
    types = callee.function_type.inputs.data
    packed = _packed_maps(callee)
    args: list[Value] = []
    for i, (value, array) in enumerate(zip(call.arguments, operands)):
        args.append(to_physical(array, packed.get(i, layout_of(value.type)), numpy_dtype(types[i])))
    outputs: list[Array] = []
    for result in call.results:
        layout, shape = layout_of(result.type), frame.shape(result.type)
        physical = shape if layout is None else _physical_shape(layout, shape)
        outputs.append(allocate(physical, numpy_dtype(types[len(args) + len(outputs)])))
    args += outputs
    symbols = _symbol_names(callee)
    values = _kernel_symbols(callee, [np.shape(a) for a in args], frame)
    for type in types[len(args) : len(types) - len(symbols)]:
        extents = [e.evaluate(values) for e in memref_shape_exprs(type)]
        args.append(allocate(extents, numpy_dtype(type)))
    frame.interpreter.call_function(callee, [*args, *(values[name] for name in symbols)])
    return [
        from_physical(output, layout_of(r.type), frame.shape(r.type), numpy_dtype(r.type))
        for output, r in zip(outputs, call.results)
    ]


def _kernel_symbols(callee: FuncOp, shapes: Sequence[tuple[int, ...]], frame: Frame) -> dict[str, int]:
    """Values of the callee's symbols: the caller's, or bound by the shapes of the memrefs."""
    values = dict(frame.symbols)
    for type, shape in zip(callee.function_type.inputs.data, shapes):
        for dim, size in zip(memref_shape_exprs(type), shape):
            if dim.kind == "sym":
                values.setdefault(dim.name, size)
    return values


def _symbol_names(callee: FuncOp) -> list[str]:
    names = callee.attributes.get("symbols")
    return [cast(Any, n).data for n in names.data] if isinstance(names, ArrayAttr) else []


def _packed_maps(callee: FuncOp) -> dict[int, IndexMapAttr]:
    packed = callee.attributes.get("packed")
    maps: dict[int, IndexMapAttr] = {}
    for entry in packed.data if isinstance(packed, ArrayAttr) else ():
        index, layout = cast("ArrayAttr[Attribute]", entry).data
        assert isinstance(layout, IndexMapAttr)
        maps[int(cast("IntegerAttr[Any]", index).value.data)] = layout
    return maps


def _physical_shape(layout: IndexMapAttr, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(e.const_value() for e in layout.image_shape(shape))


def _physical_index(layout: IndexMapAttr, shape: Sequence[int]) -> tuple[Array, ...]:
    """For each logical element its position in memory; index expressions are evaluated over whole grids."""
    grids = dict(zip((f"d{i}" for i in range(len(shape))), np.indices(shape)))
    return tuple(np.asarray(e.evaluate(cast(Any, grids))) for e in layout.results)


def to_physical(array: Array, layout: IndexMapAttr | None, dtype: np.dtype[Any]) -> Array:
    """A row-major array moved to ``layout``; lanes that hold no element are zero."""
    if layout is None:
        return np.asarray(array, order="C").astype(dtype, copy=False)
    result = np.zeros(_physical_shape(layout, array.shape), dtype)
    result[_physical_index(layout, array.shape)] = array
    return result


def from_physical(array: Array, layout: IndexMapAttr | None, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """The row-major array of logical ``shape`` held in ``layout``."""
    if layout is None:
        return array.reshape(shape).astype(dtype, copy=False)
    return np.asarray(array[_physical_index(layout, shape)]).astype(dtype, copy=False)


def _match_shape(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    frame.bind(op, ["operand"], [op.results[0].type], operands)
    return operands


def _reshape(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    shape = [frame.evaluate(e) for e in get_exprs(op.properties, "shape")]
    if int(np.prod(shape, dtype=object)) != operands[0].size:
        emit_error(op, f"cannot reshape {list(operands[0].shape)} to {shape}")
    return [operands[0].reshape(shape)]


def _broadcast_to(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    shape = [frame.evaluate(e) for e in get_exprs(op.properties, "shape")]
    return [np.ascontiguousarray(np.broadcast_to(operands[0], shape))]


def _slice(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    index: list[slice] = []
    bounds = zip(
        get_exprs(op.properties, "starts"),
        get_exprs(op.properties, "sizes"),
        get_ints(op.properties, "steps"),
        operands[0].shape,
    )
    for start_expr, size_expr, step, dim in bounds:
        start, size = frame.evaluate(start_expr), frame.evaluate(size_expr)
        stop = start + size * step
        last = stop - step
        if size < 0 or (size > 0 and not (0 <= start < dim and 0 <= last < dim)):
            emit_error(op, f"reads {start} to {last} of a dimension of size {dim}")
        index.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return [np.ascontiguousarray(operands[0][tuple(index)])]


def _iota(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    shape = [frame.evaluate(e) for e in get_exprs(op.properties, "shape")]
    axis = get_int(op.properties, "axis", 0)
    column = [-1 if i == axis else 1 for i in range(len(shape))]
    ramp = np.arange(shape[axis]).astype(numpy_dtype(op.results[0].type)).reshape(column)
    return [np.ascontiguousarray(np.broadcast_to(ramp, shape))]


def _dims(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return [np.array([frame.evaluate(e) for e in get_exprs(op.properties, "values")], np.int64)]


def _resize(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return [resize(op, operands[0], [frame.evaluate(e) for e in get_exprs(op.properties, "shape")])]


def _topk(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    (x,) = operands
    k, axis = frame.evaluate(cast(SymExprAttr, op.properties["k"]).expr), get_int(op.properties, "axis", 0)
    if k > x.shape[axis]:
        emit_error(op, f"cannot take {k} of {x.shape[axis]} elements")
    if get_int(op.properties, "largest", 1):
        # A stable ascending sort of the reversed elements, reversed, is descending with lower indices first.
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    picks = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, picks, axis), picks.astype(np.int64)]


def _introduce(frame: Frame, op: Operation, size: int) -> None:
    frame.symbols[cast(SymExprAttr, op.properties["count"]).expr.name] = size


def _nonzero(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    found = np.array(np.nonzero(operands[0]) if operands[0].ndim else np.nonzero(np.atleast_1d(operands[0])))
    found = found[: operands[0].ndim].astype(np.int64)
    _introduce(frame, op, found.shape[1] if operands[0].ndim else int(bool(operands[0])))
    return [found]


def _compress(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    x, condition = operands
    axis = get_int(op.properties, "axis", 0)
    if len(condition) > x.shape[axis]:
        emit_error(op, f"condition has {len(condition)} elements for a dimension of size {x.shape[axis]}")
    result = np.compress(condition, x, axis=axis)
    _introduce(frame, op, result.shape[axis])
    return [result]


FRAME_OPS: dict[str, FrameFunction] = {
    "graph.constant": _constant,
    "graph.kernel": _kernel,
    "graph.call": _call,
    "graph.match_shape": _match_shape,
    "graph.reshape": _reshape,
    "graph.broadcast_to": _broadcast_to,
    "graph.slice": _slice,
    "graph.iota": _iota,
    "graph.dims": _dims,
    "graph.resize": _resize,
    "graph.topk": _topk,
    "graph.nonzero": _nonzero,
    "graph.compress": _compress,
}
"""Frame functions of the graph dialect."""
