"""``tilewright inspect``: what an artefact holds, without loading its code."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ...runtime.container import Artefact
from ...runtime.manifest import model_fault


def run(arguments: argparse.Namespace) -> int:
    """Print a summary, or the manifest as JSON; the file's checksums are compared either way."""
    artefact = Artefact(arguments.artefact)
    artefact.verify()
    artefact.refuse(model_fault(artefact.manifest))
    manifest = artefact.manifest
    if arguments.json:
        print(json.dumps({k: v for k, v in manifest.items() if k != "checksums"}, indent=2, sort_keys=True))
        return 0
    print("\n".join(_summary(artefact, manifest)))
    if arguments.kernels:
        print("\n".join(_kernels(manifest)))
    if arguments.weights:
        print("\n".join(_weights(manifest)))
    return 0


def _summary(artefact: Artefact, manifest: dict[str, Any]) -> list[str]:
    target = manifest["target"]
    sizes: dict[str, int] = {}
    for section in artefact.sections:
        sizes[section.kind] = sizes.get(section.kind, 0) + section.size
    lines = [f"{artefact.path}: {_bytes(len(artefact.buffer))}, written by {manifest['producer']}"]
    lines.append(f"target: {target['triple']}, {target['cpu']}")
    lines += [f"{kind}: {_bytes(size)}" for kind, size in sizes.items()]
    lines.append(f"{len(manifest['kernels'])} kernels, {len(manifest['weights'])} weights")
    for entry in manifest["entries"]:
        lines.append(f"{entry['name']}:")
        for word in ("inputs", "outputs"):
            lines += [f"  {word[:-1]} {_tensor(tensor)}" for tensor in entry[word]]
    return lines


def _kernels(manifest: dict[str, Any]) -> list[str]:
    return [
        f"kernel {k['name']}: {_bytes(k['bytes'])}, called {k['calls']} time{'' if k['calls'] == 1 else 's'}"
        for k in manifest["kernels"]
    ]


def _weights(manifest: dict[str, Any]) -> list[str]:
    return [f"weight {_tensor(weight)} at {weight['offset']}" for weight in manifest["weights"]]


def _tensor(tensor: dict[str, Any]) -> str:
    return f"{tensor['name']}: {tensor['dtype']}[{', '.join(map(str, tensor['shape']))}]"


def _bytes(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
