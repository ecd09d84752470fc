"""Arrays for the command line: reading and writing ``.npz`` files, and making inputs up."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...runtime.errors import TilewrightError
from ...runtime.files import OutputFile
from ...runtime.tensors import TensorSpec, numpy_dtype

if TYPE_CHECKING:
    from ...core.symbolic import SymExpr

Array = npt.NDArray[Any]


def read_npz(path: str) -> dict[str, Array]:
    """All arrays of a file by name."""
    try:
        if os.path.isfile(path) and not zipfile.is_zipfile(path):
            raise TilewrightError(f"cannot read '{path}': it is no .npz file of arrays by name")
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise TilewrightError(f"cannot read '{path}': {error}") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise TilewrightError(f"cannot read '{path}': '{name}' is no array")
    return arrays


def write_npz(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name; the file appears when it is complete. Small float types become float32."""
    with OutputFile(path) as output, zipfile.ZipFile(output.stream(), "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _portable(array), allow_pickle=False)


def _portable(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.kind == "V" else np.asarray(array)


def parse_dims(words: Sequence[str], inputs: Sequence[TensorSpec] | None = None) -> dict[str, int]:
    """``["n=4"]`` is ``{"n": 4}``; with ``inputs`` the names must be those of their dimensions."""
    dims: dict[str, int] = {}
    known = _known_dims(inputs) if words and inputs is not None else None
    for word in words:
        name, _, size = word.partition("=")
        if not name.isidentifier() or not (size.isascii() and size.isdigit()):
            raise TilewrightError(f"--dim takes NAME=SIZE, found '{word}'")
        if known is not None and name not in known:
            expected = ", ".join(known) or "none: the model has no symbolic dimension"
            raise TilewrightError(f"--dim: unknown dimension '{name}', expected {expected}")
        dims[name] = int(size)
    return dims


def _known_dims(inputs: Sequence[TensorSpec]) -> list[str]:
    return list(dict.fromkeys(name for spec in inputs for extent in spec.shape for name in symbols(extent)))


def made_up(spec: TensorSpec, fill: str, dims: Mapping[str, int], random: np.random.Generator) -> Array:
    """An input of the declared type and shape: zeros, or numbers of a sensible size."""
    shape = [extent if isinstance(extent, int) else evaluate(extent, dims) for extent in spec.shape]
    dtype = numpy_dtype(spec.dtype)
    try:
        return _filled(shape, dtype, fill, random)
    except (MemoryError, ValueError):
        raise TilewrightError(f"no memory for input '{spec.name}' of shape {shape}") from None


def _filled(shape: Sequence[int], dtype: np.dtype[Any], fill: str, random: np.random.Generator) -> Array:
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0, 10, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def evaluate(text: str, dims: Mapping[str, int]) -> int:
    """The value of a symbolic extent of the manifest; symbols that are not given are 1."""
    return _expression(text).evaluate({name: dims.get(name, 1) for name in symbols(text)})


def symbols(extent: int | str) -> list[str]:
    """The names of the symbolic dimensions in an extent of the manifest."""
    return [] if isinstance(extent, int) else sorted(_expression(extent).symbols())


def _expression(text: str) -> SymExpr:
    from ...core.symbolic import parse_expr

    try:
        return parse_expr(text)
    except ValueError as error:
        raise TilewrightError(f"the model has a dimension that cannot be read: {error}") from None
