"""Arrays at the border of a model: NumPy and DLPack in, NumPy out, and the descriptors that native code
reads.

What is checked here is what native code cannot know: that an array is of the declared element type and rank,
laid out in row-major order and aligned. Sizes are checked by the entry itself, against its symbolic
dimensions.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import ArtefactError, InputError

Array = npt.NDArray[Any]
ALIGNMENT = 64


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name in the model, element type, and one integer or expression per dimension."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class TensorStruct(ctypes.Structure):
    """``{ptr data; i64 rank; ptr shape}``, as entries read and write it."""

    _fields_ = (("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("shape", ctypes.c_void_p))


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type for an element type of the manifest; the small float types come from ``ml_dtypes``."""
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        try:
            import ml_dtypes
        except ImportError:
            raise ArtefactError(f"the model uses {name}, which needs the package 'ml_dtypes'") from None
        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    try:
        return np.dtype(name)
    except TypeError:
        raise ArtefactError(f"the model uses element type '{name}', which this version does not know") from None


def as_array(value: Any, spec: TensorSpec, dtype: np.dtype[Any]) -> Array:
    """``value`` as a row-major, aligned array of the declared type and rank; copies only where it must."""
    array = _to_numpy(value, spec, dtype)
    if array.dtype.newbyteorder("=") != dtype:
        raise InputError(f"input '{spec.name}' has element type {array.dtype.name}, expected {spec.dtype}")
    if array.ndim != len(spec.shape):
        raise InputError(
            f"input '{spec.name}' has rank {array.ndim} (shape {list(array.shape)}), "
            f"expected rank {len(spec.shape)} (shape [{', '.join(map(str, spec.shape))}])"
        )
    if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0 and array.dtype.isnative:
        return array
    copy = aligned_empty(array.shape, dtype)
    np.copyto(copy, array)
    return copy


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array whose data is aligned to 64 bytes."""
    count = 1
    for size in shape:
        count *= size
    raw = np.empty(count * dtype.itemsize + ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT
    return raw[skip : skip + count * dtype.itemsize].view(dtype).reshape(tuple(shape))


def adopt(address: int, shape: tuple[int, ...], dtype: np.dtype[Any], release: Callable[[int], None]) -> Array:
    """An array over memory that native code allocated; ``release`` is called when nobody uses it any more."""
    count = 1
    for size in shape:
        count *= size
    memory = (ctypes.c_ubyte * (count * dtype.itemsize)).from_address(address)
    weakref.finalize(memory, release, address).atexit = False
    array: Array = np.frombuffer(memoryview(memory).cast("B"), dtype, count)
    return array.reshape(shape)


def _to_numpy(value: Any, spec: TensorSpec, dtype: np.dtype[Any]) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(f"input '{spec.name}' cannot be read through DLPack: {error}") from None
    if isinstance(value, np.generic):
        return np.asarray(value)
    try:
        array = np.asarray(value, dtype=dtype)
        if dtype.kind in "iub" and array.size and np.asarray(value).dtype.kind == "f":
            raise TypeError("a number with a fraction would be cut")
        return array
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"input '{spec.name}' cannot be read as an array of {spec.dtype}: {error}") from None
