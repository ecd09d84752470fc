"""The table of weights: arrays that IR text names but never contains.

Why: a model has hundreds of megabytes of weights. ``graph.constant dense_resource<name>`` points here; arrays are
immutable and found by content, so adding one twice keeps one. Saved beside the text as one safetensors file and mapped
from it on load. Derived weights are recipes (IR), not entries of this table.
"""

from __future__ import annotations

import json
import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .diagnostics import Diagnostic, DiagnosticError, Severity, file_location

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
_NAMES = {numpy_name: name for name, numpy_name in _DTYPES.items()}
_HEADER_LIMIT = 100_000_000
_ALIGNMENT = 64


class ResourceTable(Mapping[str, Any]):
    """Immutable arrays by name: ``add`` is the only change, and it never replaces."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._digests: dict[bytes, str] = {}

    def add(self, array: npt.ArrayLike, hint: str = "w") -> str:
        """Store an array (a copy unless it is read-only already) and return its name; equal content shares a name."""
        import numpy as np

        stored = _freeze(np.asarray(array))
        digest = content_digest(stored)
        name = self._digests.get(digest)
        if name is None:
            name = self._unused_name(hint)
            self._arrays[name] = stored
            self._digests[digest] = name
        return name

    def _unused_name(self, hint: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_.$]", "_", hint) or "w"
        if base[0].isdigit():
            base = f"w{base}"
        name, count = base, 0
        while name in self._arrays:
            count += 1
            name = f"{base}_{count}"
        return name

    def get(self, name: str, default: Any = None) -> Any:
        """The read-only array, or ``default``."""
        return self._arrays.get(name, default)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self._arrays.values())

    def merge(self, other: ResourceTable) -> dict[str, str]:
        """Add all arrays of ``other``; returns its names mapped to the names here."""
        return {name: self.add(array, name) for name, array in other.items()}

    def save(self, path: str | Path, names: set[str] | None = None) -> None:
        """Write (all or the named) arrays as safetensors, sorted by name, data aligned: equal tables, equal bytes."""
        chosen = {n: self._arrays[n] for n in sorted(self._arrays if names is None else names)}
        header: dict[str, Any] = {}
        offset = 0
        for name, array in chosen.items():
            dtype = _NAMES.get(array.dtype.name)
            if dtype is None:
                raise DiagnosticError(
                    Diagnostic(Severity.ERROR, f"array '{name}' of type {array.dtype} cannot be saved")
                )
            end = offset + array.nbytes
            header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, end]}
            offset = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(len(text) + 8) % _ALIGNMENT)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for array in chosen.values():
                file.write(_bytes_of(array))

    @staticmethod
    def load(path: str | Path) -> ResourceTable:
        """Map a safetensors file; arrays are views of the mapping, read-only. A malformed file is a diagnostic."""
        table = ResourceTable()
        for name, array in _map_safetensors(Path(path)):
            table._arrays[name] = array
        return table


def content_digest(array: Array) -> bytes:
    """A hash of element type, shape and content (SHA-256, which processors have instructions for)."""
    digest = sha256(f"{array.dtype.name}{array.shape}".encode())
    digest.update(_bytes_of(array))
    return digest.digest()


def _bytes_of(array: Array) -> Any:
    """The content as a buffer, without a copy."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _freeze(array: Array) -> Array:
    import numpy as np

    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C", copy=True)
        array.flags.writeable = False
    return array


def _map_safetensors(path: Path) -> Iterator[tuple[str, Array]]:
    import numpy as np

    def fail(message: str) -> DiagnosticError:
        return DiagnosticError(Diagnostic(Severity.ERROR, message, file_location(str(path), 0, 0)))

    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as problem:
        raise fail(f"cannot read the resources: {problem.strerror}") from None
    if size < 8:
        raise fail("not a safetensors file: shorter than its header")
    (length,) = struct.unpack("<Q", mapped[:8])
    if length > min(size - 8, _HEADER_LIMIT):
        raise fail("not a safetensors file: the header is longer than the file")
    try:
        header = json.loads(bytes(mapped[8 : 8 + length]))
        header.pop("__metadata__", None)
        entries = [
            (str(n), e["dtype"], tuple(map(int, e["shape"])), *map(int, e["data_offsets"])) for n, e in header.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise fail("not a safetensors file: the header is malformed") from None
    for name, kind, shape, begin, end in entries:
        if kind not in _DTYPES:
            raise fail(f"array '{name}' has the unknown element type {kind}")
        dtype = _numpy_dtype(_DTYPES[kind])
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if begin < 0 or any(e < 0 for e in shape) or end - begin != count * dtype.itemsize or 8 + length + end > size:
            raise fail(f"array '{name}' does not fit into the file (truncated?)")
        flat = np.frombuffer(mapped, dtype=np.uint8, count=end - begin, offset=8 + length + begin)
        if (8 + length + begin) % dtype.itemsize:
            flat = flat.copy()
            flat.flags.writeable = False
        yield name, flat.view(dtype).reshape(shape)


def _numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
