"""ONNX tensors and types: element types, initialisers as arrays (zero copy where possible), external data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute

from ...core.resources import ResourceTable
from .errors import ModelError, UnsupportedError

if TYPE_CHECKING:
    from onnx import TensorProto

Array = npt.NDArray[Any]

DENSE_LIMIT = 16
"""Constants of at most so many elements are written into the IR, larger ones go to the table of weights."""


def _unsigned(width: int) -> IntegerType:
    return IntegerType(width, Signedness.UNSIGNED)


_ELEMENTS: dict[str, Attribute] = {
    "FLOAT": f32,
    "DOUBLE": f64,
    "FLOAT16": f16,
    "BFLOAT16": bf16,
    "BOOL": i1,
    "INT8": i8,
    "INT16": i16,
    "INT32": i32,
    "INT64": i64,
    "UINT8": _unsigned(8),
    "UINT16": _unsigned(16),
    "UINT32": _unsigned(32),
    "UINT64": _unsigned(64),
}


def element_type(onnx_type: int) -> Attribute:
    """The element type of an ``onnx.TensorProto.DataType``."""
    from onnx import TensorProto

    try:
        name = TensorProto.DataType.Name(cast(Any, onnx_type))
    except ValueError:
        raise ModelError(f"element type {onnx_type} does not exist") from None
    if name not in _ELEMENTS:
        raise UnsupportedError(f"element type {name} is not supported")
    return _ELEMENTS[name]


def element_of_dtype(dtype: np.dtype[Any]) -> Attribute:
    """The element type of NumPy arrays."""
    names = {"float32": f32, "float64": f64, "float16": f16, "bfloat16": bf16, "bool": i1}
    found = names.get(dtype.name)
    if found is not None:
        return found
    if dtype.kind not in "iu":
        raise UnsupportedError(f"element type {dtype} is not supported")
    return (
        {8: i8, 16: i16, 32: i32, 64: i64}[dtype.itemsize * 8] if dtype.kind == "i" else _unsigned(dtype.itemsize * 8)
    )


def tensor_array(proto: TensorProto, folder: Path | None) -> Array:
    """The value of a tensor: a read-only view of the protobuf's bytes or of the mapped file where that is possible."""
    from onnx import TensorProto, numpy_helper

    element_type(proto.data_type)
    if proto.data_location == TensorProto.EXTERNAL:
        return _external_array(proto, folder)
    dtype = _dtype(proto)
    shape = tuple(proto.dims)
    if proto.HasField("raw_data") and dtype is not None:
        count = int(np.prod(shape, dtype=object))
        if len(proto.raw_data) != count * dtype.itemsize:
            raise ModelError(
                f"tensor '{proto.name}' has {len(proto.raw_data)} bytes, expected {count * dtype.itemsize}"
            )
        return np.frombuffer(proto.raw_data, dtype, count).reshape(shape)
    try:
        array = np.asarray(numpy_helper.to_array(proto))
    except (ValueError, TypeError) as problem:
        raise ModelError(f"tensor '{proto.name}' is malformed: {problem}") from None
    array.flags.writeable = False
    return array


def _dtype(proto: TensorProto) -> np.dtype[Any] | None:
    from onnx import helper

    return np.dtype(helper.tensor_dtype_to_np_dtype(proto.data_type))


def _external_array(proto: TensorProto, folder: Path | None) -> Array:
    if folder is None:
        raise ModelError(f"tensor '{proto.name}' is in an external file, import the model from its path")
    entries = {e.key: e.value for e in proto.external_data}
    path = (folder / entries.get("location", "")).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ModelError(f"tensor '{proto.name}' is outside of the model's folder")
    dtype = _dtype(proto)
    assert dtype is not None
    shape = tuple(proto.dims)
    count, offset = int(np.prod(shape, dtype=object)), int(entries.get("offset", 0))
    if not path.is_file():
        raise ModelError(f"tensor '{proto.name}' needs the file '{path.name}', which does not exist")
    if offset + count * dtype.itemsize > path.stat().st_size:
        raise ModelError(f"tensor '{proto.name}' does not fit into '{path.name}'")
    if count == 0:
        return np.zeros(shape, dtype)
    mapped: Array = np.memmap(path, dtype, "r", offset, (count,)).reshape(shape)
    return mapped.view(np.ndarray)


def constant_attribute(array: Array, resources: ResourceTable, hint: str) -> Attribute:
    """The ``value`` of a ``graph.constant``: dense when small, else a named resource."""
    element = element_of_dtype(array.dtype)
    type: TensorType[Any] = TensorType(element, array.shape)
    if array.size <= DENSE_LIMIT:
        return dense_attribute(array, type)
    return DenseResourceAttr(StringAttr(resources.add(array, hint)), type)


def dense_attribute(array: Array, type: TensorType[Any]) -> DenseIntOrFPElementsAttr:
    """``dense<...>`` with the elements of an array."""
    if type.element_type == i1:
        return DenseIntOrFPElementsAttr.from_list(cast(Any, type), [int(v) for v in array.reshape(-1)])
    return DenseIntOrFPElementsAttr(cast(Any, type), BytesAttr(np.ascontiguousarray(array).tobytes()))
