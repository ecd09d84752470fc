"""Object code into this process: for tests, measurements and experiments. Artefacts are loaded by `runtime/`.

The recipe, which `runtime/` shares: one LLJIT per process, made with `use_jit_link=True` from a target
machine of this host (the JIT takes the machine over, so make one for it alone). Per library one
JITLibraryBuilder, given all object images that refer to each other, and `add_current_process()`, which
resolves libc, pthread and libm. `link` returns a tracker: it knows the addresses of the exported symbols,
and the code stays loaded for as long as it is referenced. Nothing is compiled; linking takes about a
millisecond and a little more per object.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .codegen import compile_ir, host_machine
from .runtime_ir import EXPORTS, runtime_object

if TYPE_CHECKING:
    import llvmlite.binding as llvm

_names = itertools.count()


@dataclass
class LoadedCode:
    """Functions of linked objects by name; the code is unloaded when this object dies."""

    tracker: llvm.ResourceTracker = field(repr=False)

    def address(self, name: str) -> int:
        """The address of an exported symbol."""
        address: int = self.tracker[name]
        return address

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """An exported function as a ctypes function of the given types."""
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(name))


def load_objects(objects: Sequence[bytes], exports: Sequence[str]) -> LoadedCode:
    """Link object images with each other and with this process."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder()
    for image in objects:
        builder.add_object_img(image)
    builder.add_current_process()
    for name in exports:
        builder.export_symbol(name)
    return LoadedCode(builder.link(_jit(), f"tilewright.{next(_names)}"))


def load_ir(text: str, *exports: str) -> LoadedCode:
    """Compile LLVM IR for this machine and link it."""
    return load_objects([compile_ir(text, host_machine())], exports)


class Context:
    """A `tw_context` with its thread pool; close it before the process unloads the runtime."""

    def __init__(self, threads: int = 1) -> None:
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        code = _runtime()
        self._set = code.function("tw_context_set_threads", None, pointer, integer)
        self._get = code.function("tw_context_threads", integer, pointer)
        self._destroy = code.function("tw_context_destroy", None, pointer)
        address = code.function("tw_context_create", pointer, integer)(threads)
        if not address:
            raise MemoryError("no memory for a context")
        self.address: int = address
        table = (ctypes.c_int64 * 5).from_address(self.address)
        self.version: int = table[0]
        self.parallel_for = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, integer)(table[1])
        self.allocate = ctypes.CFUNCTYPE(pointer, pointer, integer)(table[2])
        self.release = ctypes.CFUNCTYPE(None, pointer, pointer)(table[3])

    @property
    def threads(self) -> int:
        """How many threads run a loop, the caller included."""
        count: int = self._get(self.address)
        return count

    @threads.setter
    def threads(self, count: int) -> None:
        self._set(self.address, count)

    def close(self) -> None:
        """End the threads and free the context; a second call does nothing."""
        if self.address:
            self._destroy(self.address)
            self.address = 0

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@lru_cache(maxsize=1)
def _runtime() -> LoadedCode:
    return load_objects([runtime_object(host_machine())], EXPORTS)


@lru_cache(maxsize=1)
def _jit() -> llvm.LLJIT:
    import llvmlite.binding as llvm

    machine = host_machine()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target_machine = llvm.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc="pic", codemodel="small"
    )
    return llvm.create_lljit_compiler(target_machine, use_jit_link=True)
