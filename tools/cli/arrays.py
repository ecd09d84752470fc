"""Arrays for the command line: reading and writing ``.npz`` files, and making inputs up."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...runtime.errors import TilewrightError
from ...runtime.tensors import TensorSpec, numpy_dtype

Array = npt.NDArray[Any]


def read_npz(path: str) -> dict[str, Array]:
    """All arrays of a file by name."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise TilewrightError(f"'{path}' holds one array, expected an .npz file of arrays by name")
        with archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise TilewrightError(f"cannot read '{path}': {error}") from None


def write_npz(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name; the file appears when it is complete. Small float types become float32."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, _portable(array), allow_pickle=False)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _portable(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.kind == "V" else np.asarray(array)


def parse_dims(words: Sequence[str]) -> dict[str, int]:
    """``["n=4"]`` is ``{"n": 4}``."""
    dims: dict[str, int] = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name.isidentifier() or not size.isdigit():
            raise TilewrightError(f"--dim takes NAME=SIZE, found '{word}'")
        dims[name] = int(size)
    return dims


def made_up(spec: TensorSpec, fill: str, dims: Mapping[str, int], random: np.random.Generator) -> Array:
    """An input of the declared type and shape: zeros, or numbers of a sensible size."""
    shape = [extent if isinstance(extent, int) else evaluate(extent, dims) for extent in spec.shape]
    dtype = numpy_dtype(spec.dtype)
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0, 10, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def evaluate(text: str, dims: Mapping[str, int]) -> int:
    """The value of a symbolic extent of the manifest; symbols that are not given are 1."""
    from ...core.symbolic import parse_expr

    expr = parse_expr(text)
    return expr.evaluate({name: dims.get(name, 1) for name in expr.symbols()})
