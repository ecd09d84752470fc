"""Does an artefact's object code suit this machine? Asked before any of it is loaded.

The manifest's ``target`` names the triple that the code was compiled for and the processor features that it
uses. A machine that lacks one of them would stop with an illegal instruction, so the loader refuses with a
message instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import TargetError

_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


def check_machine(target: Mapping[str, Any], path: object) -> None:
    """TargetError unless this machine can run code for ``target`` (``triple``, ``cpu``, ``features``)."""
    import llvmlite.binding as llvm

    wanted, here = target["triple"], llvm.get_process_triple()
    if _platform(wanted) != _platform(here):
        raise TargetError(f"'{path}' was compiled for {wanted}, this machine is {here}")
    present = llvm.get_host_cpu_features()
    missing = [name for name in required_features(target["features"]) if not present.get(name, False)]
    if missing:
        raise TargetError(
            f"'{path}' was compiled for processor '{target['cpu']}' and uses {', '.join(missing)}, "
            f"which this machine's '{llvm.get_host_cpu_name()}' lacks"
        )


def required_features(features: str) -> list[str]:
    """The names switched on in an LLVM feature string such as ``+avx2,-sse4a``."""
    return [word[1:] for word in features.split(",") if word.startswith("+")]


def _platform(triple: str) -> tuple[str, str]:
    """Architecture and operating system of a triple, vendor and environment left out."""
    parts = triple.split("-")
    architecture = _SAME.get(parts[0], parts[0])
    rest = "-".join(parts[1:])
    system = next((name for name in ("linux", "darwin", "macos", "windows") if name in rest), rest)
    return architecture, "darwin" if system == "macos" else system
