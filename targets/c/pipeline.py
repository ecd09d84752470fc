"""The C target as the driver sees it: what runs on kernels, and the C files that come out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from ...core.context import TilewrightContext
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity
from ...core.target import TargetInfo
from ...dialects.vm.ops import CallOp
from ...passes.convert.graph_to_vm import is_entry
from ...passes.vm.weights import WeightSection
from ..base import Code, Progress
from ..lowered import lowered_parts, with_lowered_parts
from .emit import MESSAGES_ATTRIBUTE, ModuleEmitter
from .host import lower_host
from .lower import lower_kernel
from .names import identifier
from .schedules import AttachCSchedulesPass

INVALID_ARGUMENT_MESSAGE = "a pointer is NULL or a dimension is negative"

KERNEL_PASSES = (
    "loop-compact-buffers",
    "loop-lower-blocks",
    "loop-simplify",
    "loop-hoist-allocs",
)


class CTarget:
    """Portable C99 without vectors and threads: one source file with its header."""

    name = "c"
    level = "c"

    def machine(self, mcpu: str | None, mattr: str | None) -> TargetInfo:
        """No machine in particular, so that the files are the same wherever they are made."""
        if mcpu or mattr:
            option = "--mcpu" if mcpu else "--mattr"
            raise _failure(f"target 'c' writes portable C: {option} is for the compiler that you give it to")
        return TargetInfo(self.name, "", "", vector_bits=32, vector_registers=0)

    def schedule_passes(self, info: TargetInfo) -> tuple[str, ...]:
        """Sums in local variables; C compilers know their machines, and small devices want small code."""
        return (AttachCSchedulesPass.name,)

    def kernel_passes(self, info: TargetInfo) -> tuple[str, ...]:
        """From blocks to loops that ``lower.py`` takes."""
        return KERNEL_PASSES

    def generate(
        self,
        module: ModuleOp,
        context: TilewrightContext,
        info: TargetInfo,
        weights: WeightSection,
        progress: Progress,
        keep_lowered: bool = False,
    ) -> Code:
        """The module in the ``c`` dialect, and how to write it as files."""
        lowered = lowered_parts(module).get(self.level)
        if lowered is None:
            lowered = lower_module(module, weights, progress)

        def write(path: str | os.PathLike[str]) -> None:
            write_files(Path(path), lowered, weight_bytes(weights, module, context))

        code = Code({"triple": "", "cpu": "", "features": ""}, write=write)
        if keep_lowered:
            code.lowered = with_lowered_parts(module, {self.level: lowered})
        return code


C_TARGET = CTarget()


def lower_module(module: ModuleOp, weights: WeightSection, progress: Progress) -> ModuleOp:
    """A module of the ``c`` dialect: tables, the kernels that are called, and the public functions."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    entries = [op for op in functions.values() if op.body.blocks and is_entry(op)]
    called = Counter(op.kernel.root_reference.data for op in module.walk() if isinstance(op, CallOp))
    kernels = []
    for number, name in enumerate(called):
        progress("kernel", number, len(called))
        kernels.append(lower_kernel(functions[name]))
    program = lower_host(entries, functions, weights)
    lowered = ModuleOp([*program.tables.values(), *kernels, *program.functions])
    messages = [INVALID_ARGUMENT_MESSAGE, *program.messages]
    lowered.attributes[MESSAGES_ATTRIBUTE] = ArrayAttr([StringAttr(text) for text in messages])
    return lowered


def weight_bytes(weights: WeightSection, module: ModuleOp, context: TilewrightContext) -> Iterator[memoryview | bytes]:
    """The bytes of each weight; the section has padding before each."""
    for number, piece in enumerate(weights.chunks(module, context)):
        if number % 2:
            yield piece


def write_files(path: Path, lowered: ModuleOp, weights: Iterator[memoryview | bytes]) -> None:
    """``model.c`` and ``model.h``; each appears when it is complete."""
    if path.suffix != ".c":
        raise _failure(f"target 'c' writes a C file and its header: expected an output such as model.c, found '{path}'")
    emitter = ModuleEmitter(lowered, identifier(path.stem))
    header = path.with_suffix(".h")
    _write(path, emitter.source(header.name, weights))
    _write(header, iter([emitter.header()]))


def _write(path: Path, pieces: Iterator[str]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        os.replace(temporary, path)
    except OSError as error:
        raise _failure(f"cannot write '{path}': {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _failure(message: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(Severity.ERROR, message))
