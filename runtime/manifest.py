"""What a manifest must hold before anything else reads it, so that a wrong one is an error and no exception.

Checksums tell damage; this tells a file that another program, or another version of ours, put together. Each
function gives the first thing that is wrong, in words, or ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_Fields = Mapping[str, type | tuple[type, ...]]

_CONTAINER: _Fields = {"sections": list, "checksums": dict}
_SECTION: _Fields = {"name": str, "kind": str, "offset": int, "size": int}
_CHECKSUMS: _Fields = {"chunk": int, "crc32": list}
_MODEL: _Fields = {
    "producer": str,
    "context_version": int,
    "target": dict,
    "entries": list,
    "errors": list,
    "kernels": list,
    "weights": list,
}
_TARGET: _Fields = {"triple": str, "cpu": str, "features": str}
_ENTRY: _Fields = {"name": str, "symbol": str, "inputs": list, "outputs": list}
_TENSOR: _Fields = {"name": str, "dtype": str, "shape": list}
_WEIGHT: _Fields = {**_TENSOR, "offset": int, "size": int}
_KERNEL: _Fields = {"name": str, "bytes": int, "calls": int}


def container_fault(manifest: Any) -> str | None:
    """Sections and checksums, which every artefact has."""
    return (
        _fault("manifest", manifest, _CONTAINER)
        or _list_fault("section", manifest["sections"], _SECTION)
        or _fault("checksums", manifest["checksums"], _CHECKSUMS)
        or ("checksums: 'chunk' is less than 1" if manifest["checksums"]["chunk"] < 1 else None)
    )


def model_fault(manifest: Any) -> str | None:
    """What the loader and ``tilewright inspect`` read of a model."""
    fault = _fault("manifest", manifest, _MODEL) or _fault("target", manifest["target"], _TARGET)
    fault = fault or _list_fault("entry", manifest["entries"], _ENTRY)
    if fault is not None:
        return fault
    if not manifest["entries"]:
        return "there are no entries"
    if not all(isinstance(text, str) for text in manifest["errors"]):
        return "'errors' are not texts"
    tensors = [tensor for entry in manifest["entries"] for tensor in (*entry["inputs"], *entry["outputs"])]
    return (
        _tensors_fault("tensor", tensors, _TENSOR)
        or _tensors_fault("weight", manifest["weights"], _WEIGHT)
        or _list_fault("kernel", manifest["kernels"], _KERNEL)
    )


def _tensors_fault(what: str, items: list[Any], fields: _Fields) -> str | None:
    fault = _list_fault(what, items, fields)
    if fault is None and any(not _is_extent(extent) for item in items for extent in item["shape"]):
        fault = f"{what}: an extent is neither a number nor an expression"
    return fault


def _is_extent(extent: Any) -> bool:
    return isinstance(extent, str) or (_is_a(extent, int) and extent >= 0)


def _list_fault(what: str, items: list[Any], fields: _Fields) -> str | None:
    return next(filter(None, (_fault(f"{what} {number}", item, fields) for number, item in enumerate(items))), None)


def _fault(what: str, item: Any, fields: _Fields) -> str | None:
    if not isinstance(item, dict):
        return f"{what} is no object"
    for name, kind in fields.items():
        if not _is_a(item.get(name), kind):
            return f"{what}: '{name}' is missing or of another type"
    return None


def _is_a(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
