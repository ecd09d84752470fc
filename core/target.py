"""What schedules and code generation may know about the machine.

A ``TargetInfo`` is plain data: schedule rules take it, cache keys contain it, and a test can make any machine up. The
host's is read from LLVM (name and features) and the operating system (caches), at first use.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute

from .diagnostics import Diagnostic, DiagnosticError, Severity

_KIB = 1024
_MIB = 1024 * _KIB


@dataclass(frozen=True)
class TargetInfo:
    """One machine as code generation sees it. Caches are per core but ``l3_bytes``, which is shared."""

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    vector_registers: int = 16
    fma_units: int = 1
    l1_bytes: int = 32 * _KIB
    l2_bytes: int = 512 * _KIB
    l3_bytes: int = 8 * _MIB
    cores: int = 1

    def vector_lanes(self, element_type: Attribute) -> int:
        """Elements of a type in one vector register, at least 1."""
        return max(1, self.vector_bits // element_bits(element_type))

    @property
    def feature_string(self) -> str:
        """LLVM's form: ``+avx2,+fma``."""
        return ",".join(f"+{f}" for f in self.features)


def element_bits(element_type: Attribute) -> int:
    """Bits that an element takes in memory (``i1`` takes a byte, ``index`` 64 bits)."""
    if isinstance(element_type, IntegerType):
        width: int = element_type.width.data
        return max(8, width)
    if isinstance(element_type, Float16Type | BFloat16Type):
        return 16
    if isinstance(element_type, Float32Type):
        return 32
    if isinstance(element_type, Float64Type | IndexType):
        return 64
    bitwidth = getattr(element_type, "bitwidth", None)
    if not isinstance(bitwidth, int):
        raise ValueError(f"type {element_type} has no size in memory")
    return max(8, bitwidth)


@lru_cache(maxsize=1)
def host_target() -> TargetInfo:
    """This machine."""
    from llvmlite import binding

    features = tuple(sorted(name for name, on in binding.get_host_cpu_features().items() if on))
    target = _from_features("llvm", binding.get_default_triple(), binding.get_host_cpu_name(), features)
    caches = _host_caches()
    return replace(
        target,
        l1_bytes=caches.get(1, target.l1_bytes),
        l2_bytes=caches.get(2, target.l2_bytes),
        l3_bytes=caches.get(3, caches.get(2, target.l3_bytes)),
        cores=_host_cores(),
    )


def make_target(name: str = "llvm", mcpu: str | None = None, mattr: str | None = None) -> TargetInfo:
    """The target of ``--target``, ``--mcpu`` and ``--mattr`` (``+avx2,-fma``); ``native`` or nothing is the host."""
    host = host_target()
    target = host if mcpu in (None, "native", host.cpu) else _known_cpu(host, str(mcpu))
    if mattr:
        features = _changed_features(target, mattr)
        derived = _from_features(name, target.triple, target.cpu, tuple(sorted(features)))
        target = replace(
            derived,
            l1_bytes=target.l1_bytes,
            l2_bytes=target.l2_bytes,
            l3_bytes=target.l3_bytes,
            cores=target.cores,
        )
    return replace(target, name=name)


def _changed_features(target: TargetInfo, mattr: str) -> set[str]:
    """The target's features with those of ``--mattr`` switched on and off."""
    features, known = set(target.features), _known_features(target)
    for item in map(str.strip, mattr.split(",")):
        if len(item) < 2 or item[0] not in "+-":
            raise _failure(f"--mattr takes +feature or -feature separated by commas, found '{item}'")
        if known and item[1:] not in known:
            close = get_close_matches(item[1:], sorted(known), n=1)
            hint = f", did you mean '{close[0]}'?" if close else ""
            raise _failure(f"unknown processor feature '{item[1:]}'{hint}")
        (features.add if item[0] == "+" else features.discard)(item[1:])
    return features


def _known_features(target: TargetInfo) -> frozenset[str]:
    """All features that LLVM detects on this family of processors; empty where it lists only those of this machine."""
    from llvmlite import binding

    return frozenset(binding.get_host_cpu_features()) if target.triple.startswith("x86_64") else frozenset()


def _failure(message: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(Severity.ERROR, message))


_X86_BASELINE = ("cx8", "fxsr", "mmx", "sse", "sse2")
_X86_LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": _X86_BASELINE,
    "x86-64-v2": (*_X86_BASELINE, "cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": (
        *(*_X86_BASELINE, "cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
        *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    ),
    "x86-64-v4": (
        *(*_X86_BASELINE, "cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
        *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
        *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    ),
}
_X86_CPUS = {
    "haswell": "x86-64-v3",
    "broadwell": "x86-64-v3",
    "skylake": "x86-64-v3",
    "znver1": "x86-64-v3",
    "znver2": "x86-64-v3",
    "znver3": "x86-64-v3",
    "skylake-avx512": "x86-64-v4",
    "cascadelake": "x86-64-v4",
    "icelake-server": "x86-64-v4",
    "sapphirerapids": "x86-64-v4",
    "znver4": "x86-64-v4",
    "znver5": "x86-64-v4",
}


def _known_cpu(host: TargetInfo, mcpu: str) -> TargetInfo:
    """A CPU of the host's family: its features decide the vector width; LLVM knows the rest by name."""
    if host.triple.startswith("x86_64"):
        level = _X86_CPUS.get(mcpu, mcpu)
        if level in _X86_LEVELS:
            features = tuple(sorted(_X86_LEVELS[level]))
            return replace(_from_features(host.name, host.triple, mcpu, features), cores=host.cores)
        known = ", ".join(sorted({*_X86_LEVELS, *_X86_CPUS}))
        raise _failure(f"unknown cpu '{mcpu}' (known: native, {known})")
    return replace(_from_features(host.name, host.triple, mcpu, ()), cores=host.cores)


def _from_features(name: str, triple: str, cpu: str, features: tuple[str, ...]) -> TargetInfo:
    bits, registers = 128, 16
    if "avx512f" in features:
        bits, registers = 512, 32
    elif "avx" in features:
        bits = 256
    elif triple.startswith(("aarch64", "arm64")):
        registers = 32
    has_fma = "fma" in features or triple.startswith(("aarch64", "arm64"))
    return TargetInfo(
        name, triple, cpu, features, vector_bits=bits, vector_registers=registers, fma_units=2 if has_fma else 0
    )


def _host_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _host_caches() -> dict[int, int]:
    """Data cache sizes by level from sysfs; empty where there is none."""
    sizes: dict[int, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            level = int((index / "level").read_text())
            size = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        scale = {"K": _KIB, "M": _MIB, "G": 1024 * _MIB}.get(size[-1:], 1)
        digits = size.rstrip("KMG")
        if digits.isdigit():
            sizes[level] = int(digits) * scale
    return sizes
