"""LLVM IR text to object code, in this process.

One function, `compile_ir`, takes the text of one LLVM module and a `Machine` and returns the bytes of a
relocatable ELF object. It is a pure function of its arguments: the same text for the same machine gives the
same bytes.

What the optimiser may do is fixed here: LLVM's O3 pipeline, without its loop and SLP vectorisers and
without interleaving, because schedules decide about vectors. Floating-point contraction is not a switch: it
is the `contract` flag on the instructions that allow it.

Deliberately elsewhere: where IR text comes from (`emit.py`), worker processes (`workers.py`), the on-disk
cache (`cache.py`), and what most callers want, all three together (`compiler.py`). This module imports
nothing of the compiler and llvmlite only when it is used, so that a worker process starts quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import llvmlite.binding as llvm

PIPELINE_VERSION = "1"
"""Part of every cache key: raise it when the options below change what comes out."""


class CodegenError(Exception):
    """LLVM refused the IR it was given, or stopped while it compiled it."""


class MachineLike(Protocol):
    """What code generation asks of a description of the target machine."""

    @property
    def triple(self) -> str: ...

    @property
    def cpu(self) -> str: ...

    @property
    def features(self) -> str: ...


@dataclass(frozen=True)
class Machine:
    """Exactly what LLVM is told about the machine: target triple, processor name, and feature string
    (`+avx2,-sse4a`).
    """

    triple: str
    cpu: str = ""
    features: str = ""

    @staticmethod
    def of(target: MachineLike) -> Machine:
        """The three fields of a richer description, for instance of a `TargetInfo`."""
        return Machine(target.triple, target.cpu, target.features)


def compile_ir(text: str, machine: Machine) -> bytes:
    """Optimise one LLVM module and return it as a relocatable object file.

    Raises CodegenError if the text does not parse or verify, or if LLVM does not know the machine. LLVM may
    also abort the process on IR it cannot select for a target; callers that compile for another machine use
    `workers.py`.
    """
    import llvmlite.binding as llvm

    target_machine = _target_machine(machine)
    try:
        module = llvm.parse_assembly(text)
        module.name = "tilewright"
        module.triple = machine.triple
        module.data_layout = str(target_machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"invalid LLVM IR: {_first_line(error)}") from error
    _optimise(module, target_machine)
    return bytes(target_machine.emit_object(module))


def optimised_ir(text: str, machine: Machine) -> str:
    """The module as text after optimisation: for tests and for people who look for a lost vector
    instruction.
    """
    import llvmlite.binding as llvm

    target_machine = _target_machine(machine)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(target_machine.target_data)
    _optimise(module, target_machine)
    return str(module)


def assembly(text: str, machine: Machine) -> str:
    """The machine's assembly for the module, after optimisation."""
    import llvmlite.binding as llvm

    target_machine = _target_machine(machine)
    module = llvm.parse_assembly(optimised_ir(text, machine))
    return str(target_machine.emit_assembly(module))


@lru_cache(maxsize=1)
def host_machine() -> Machine:
    """The machine this process runs on."""
    import llvmlite.binding as llvm

    features: str = llvm.get_host_cpu_features().flatten()
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


@lru_cache(maxsize=1)
def codegen_version() -> str:
    """Everything besides IR and machine that the bytes depend on, for cache keys."""
    import llvmlite
    import llvmlite.binding as llvm

    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return f"llvm {llvm_version}, llvmlite {llvmlite.__version__}, pipeline {PIPELINE_VERSION}"


def _optimise(module: llvm.ModuleRef, target_machine: llvm.TargetMachine) -> None:
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(target_machine, options)
    builder.getModulePassManager().run(module, builder)


@lru_cache(maxsize=4)
def _target_machine(machine: Machine) -> llvm.TargetMachine:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no target for '{machine.triple}': {_first_line(error)}") from error
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc="pic", codemodel="small"
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
