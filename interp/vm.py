"""NumPy meaning of the ``vm`` ops. A memref is an array of its physical shape, changed in place by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from ..core.attributes import memref_shape_exprs
from ..core.diagnostics import emit_error
from ..dialects.graph.structure import ConstantOp as GraphConstantOp
from ..dialects.graph.structure import RecipeOp
from ..dialects.vm import ops as vm
from .arith import numpy_dtype
from .graph_structure import constant_array
from .interpreter import Frame, FrameFunction, Interpreter, Value
from .packing import Array, pack


def weight(interpreter: Interpreter, value: Attribute) -> Array:
    """The logical array of a constant's value; a recipe is evaluated."""
    if isinstance(value, SymbolRefAttr):
        recipe = interpreter.find(value.root_reference.data)
        if not isinstance(recipe, RecipeOp):
            emit_error(interpreter.module, f"has no recipe {value}")
        return constant_array(Frame(interpreter), GraphConstantOp(value, recipe.type))
    assert isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr)
    return constant_array(Frame(interpreter), GraphConstantOp(value, value.type))


def packed_weight(interpreter: Interpreter, op: vm.ConstantOp) -> Array:
    """The array of a ``vm.constant`` as it lies in memory."""
    array = weight(interpreter, op.value)
    shape = [extent.const_value() for extent in memref_shape_exprs(op.result.type)]
    return np.ascontiguousarray(array).reshape(shape) if op.packed is None else pack(array, op.packed, shape)


def _shape(type: Attribute, sizes: Sequence[Value]) -> tuple[int, ...]:
    values = {name: int(size) for name, size in zip(vm.free_symbols(type), sizes)}
    return tuple(extent.evaluate(values) for extent in memref_shape_exprs(type))


def _evaluate(map: Any, args: Sequence[Value]) -> int:
    return int(map.results[0].evaluate({f"d{i}": int(arg) for i, arg in enumerate(args)}))


def _dim(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return (np.int64(operands[0].shape[cast(vm.DimOp, op).dim.value.data]),)


def _index(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return (np.int64(_evaluate(cast(vm.IndexOp, op).map, operands)),)


def _check(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    found, expected = map(int, operands)
    if found != expected:
        emit_error(op.location, cast(vm.CheckOp, op).message.data.format(a=found, b=expected))
    return ()


def _constant(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return (packed_weight(frame.interpreter, cast(vm.ConstantOp, op)),)


def _fresh(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    type = op.results[0].type
    return (np.empty(_shape(type, operands), numpy_dtype(type)),)


def _storage(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return (np.empty(_evaluate(cast(vm.StorageOp, op).bytes, operands), np.uint8),)


def _place(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    place = cast(vm.PlaceOp, op)
    count = len(place.args)
    storage, args, sizes = operands[0], operands[1 : 1 + count], operands[1 + count :]
    offset, dtype = _evaluate(place.offset, args), numpy_dtype(place.result.type)
    shape = _shape(place.result.type, sizes)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if offset + size > storage.size:
        emit_error(op, f"takes the bytes {offset} to {offset + size} of a storage of {storage.size}")
    return (storage[offset : offset + size].view(dtype).reshape(shape),)


def _view(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    shape = _shape(op.results[0].type, operands[1:])
    if int(np.prod(shape, dtype=np.int64)) != operands[0].size:
        emit_error(op, f"shows {operands[0].size} elements as shape {list(shape)}")
    return (operands[0].reshape(shape),)


def _load(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return (operands[0][()],)


def _copy(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    operands[1][...] = operands[0]
    return ()


def _call(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    kernel = frame.interpreter.find(cast(vm.CallOp, op).kernel.root_reference.data)
    if not isinstance(kernel, FuncOp):
        emit_error(op, "calls something that is no function of the module")
    frame.interpreter.call_function(kernel, operands)
    return ()


FRAME_OPS: dict[str, FrameFunction] = {
    "vm.dim": _dim,
    "vm.index": _index,
    "vm.check": _check,
    "vm.constant": _constant,
    "vm.alloc": _fresh,
    "vm.output": _fresh,
    "vm.storage": _storage,
    "vm.place": _place,
    "vm.view": _view,
    "vm.load": _load,
    "vm.copy": _copy,
    "vm.call": _call,
}
"""Frame functions of ``vm``."""
