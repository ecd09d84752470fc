"""Object code into this process, through llvmlite's JIT linker: nothing is compiled and no external tool is
needed.

One linker session serves the process and is never closed; nor is the code of the thread pool
(``threads.py``), because worker threads may still wait in it while the interpreter shuts down.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .errors import ArtefactError

if TYPE_CHECKING:
    import llvmlite.binding as llvm

_numbers = itertools.count()


class LoadedCode:
    """Linked objects: the exported functions by name. The code is unloaded when this object dies."""

    def __init__(self, images: Sequence[bytes], exports: Sequence[str]) -> None:
        import llvmlite.binding as llvm

        builder = llvm.JITLibraryBuilder()
        for image in images:
            builder.add_object_img(image)
        builder.add_current_process()
        for name in exports:
            builder.export_symbol(name)
        try:
            self._tracker = builder.link(_session(), f"tilewright.{next(_numbers)}")
        except RuntimeError as error:
            raise ArtefactError(f"cannot link the object code: {str(error).strip()}") from None

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """An exported function for ctypes; calls release the interpreter lock."""
        return ctypes.CFUNCTYPE(result, *arguments)(self._tracker[name])


@cache
def _session() -> llvm.LLJIT:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )
    return llvm.create_lljit_compiler(machine, use_jit_link=True)
