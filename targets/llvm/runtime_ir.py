"""The native runtime as LLVM IR: context table, thread pool with parallel-for, allocator that keeps blocks
warm.

Emitted code needs no Python and no OpenMP library. Kernels and host programs reach the runtime through a
context table, which the loader passes to every entry; so they refer to no symbol, and all loaded models
share one pool. The text is in `runtime.ll`; this module fills in what depends on the machine and compiles
it. Every artefact carries the object.

`tw_context` version 1 is a table of 8-byte fields:

| field | type | meaning |
|---|---|---|
| 0 | `i64` | version, 1 |
| 1 | `void (ptr ctx, ptr body, ptr data, i64 n)` | parallel_for: `body(data, begin, end)` for parts of 0..n |
| 2 | `ptr (ptr ctx, i64 bytes)` | allocate: aligned to 64 bytes; null on failure |
| 3 | `void (ptr ctx, ptr block)` | release what allocate returned; null is allowed |
| 4 | `ptr` | the pool; nobody else's business |

The object exports

    ptr  tw_context_create(i64 threads)            threads < 1: one per processor; null without memory
    void tw_context_set_threads(ptr ctx, i64 threads)
    i64  tw_context_threads(ptr ctx)
    void tw_context_destroy(ptr ctx)               no loop may be running; ends the threads

`parallel_for` divides 0..n statically among the threads, the calling one included, and returns when all are
done. The pool runs one job at a time: a call from inside a body, or from a second thread while the pool is
busy, runs its whole loop itself. After a fork the child starts threads of its own when it first needs them.

The code must stay loaded while its threads live: destroy the context before unloading, or never unload.
Symbols it needs from the process: those declared in `runtime.ll` (libc and pthread).
"""

from __future__ import annotations

from importlib.resources import files
from string import Template

from .codegen import CodegenError, Machine, compile_ir

CONTEXT_VERSION = 1
CONTEXT_FIELDS = ("version", "parallel_for", "allocate", "release", "pool")
EXPORTS = ("tw_context_create", "tw_context_set_threads", "tw_context_threads", "tw_context_destroy")

_X86_64 = {
    "futex": "202",
    "pause": "call void @llvm.x86.sse2.pause()",
    "pause_declaration": "declare void @llvm.x86.sse2.pause()",
}
_AARCH64 = {
    "futex": "98",
    "pause": "call void @llvm.aarch64.isb(i32 15)",
    "pause_declaration": "declare void @llvm.aarch64.isb(i32)",
}
_RISCV64 = {"futex": "98", "pause": 'fence syncscope("singlethread") seq_cst', "pause_declaration": ""}
_BY_ARCHITECTURE = {
    "x86_64": _X86_64,
    "amd64": _X86_64,
    "aarch64": _AARCH64,
    "arm64": _AARCH64,
    "riscv64": _RISCV64,
}


def runtime_ir(triple: str) -> str:
    """The text of the runtime for a target triple; CodegenError if there is none for it."""
    architecture, _, rest = triple.partition("-")
    words = _BY_ARCHITECTURE.get(architecture)
    if words is None or "linux" not in rest:
        raise CodegenError(f"no native runtime for '{triple}': expected Linux on x86_64, aarch64 or riscv64")
    text = files(__package__).joinpath("runtime.ll").read_text(encoding="utf-8")
    return Template(text).substitute(words)


def runtime_object(machine: Machine) -> bytes:
    """The runtime compiled for a machine."""
    return compile_ir(runtime_ir(machine.triple), machine)
