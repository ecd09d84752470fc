"""The LLVM target as the driver sees it: object code for the kernels and host programs of one module.

Kernels are lowered one after the other; each is handed to the compiler (cache, worker processes) as soon as its text is
there, so that LLVM works on one while the next is lowered. A kernel's symbol is a hash of its text: equal kernels are one
object, whatever they were called, and the cache finds them again in other models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from hashlib import blake2b
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from ... import __version__
from ...core.context import TilewrightContext
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity
from ...core.target import TargetInfo
from ...dialects.vm.ops import CallOp
from ...passes.convert.graph_to_vm import is_entry
from ...passes.vm.weights import WeightSection
from ..base import Code, CodeSection, Progress
from .codegen import CodegenError, Machine
from .compiler import KernelCompiler
from .emit import emit_module
from .host import entry_symbol, lower_host
from .lower import lower_kernel
from .runtime_ir import runtime_ir


class LLVMTarget:
    """Native code through LLVM: one object per distinct kernel, one for the host programs, one for the runtime."""

    name = "llvm"

    def kernel_passes(self, info: TargetInfo) -> tuple[str, ...]:
        """From scheduled blocks to loops that ``lower.py`` takes."""
        return KERNEL_PASSES

    def generate(
        self,
        module: ModuleOp,
        context: TilewrightContext,
        info: TargetInfo,
        weights: WeightSection,
        progress: Progress,
        keep_levels: bool = False,
    ) -> Code:
        """Code for everything that the public functions of the module call."""
        machine = machine_of(info)
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        entries = [op for op in functions.values() if op.body.blocks and is_entry(op)]
        calls = Counter(op.kernel.string_value() for op in module.walk() if isinstance(op, CallOp))
        code = Code({"triple": machine.triple, "cpu": machine.cpu, "features": info.feature_string})
        lowered: list[ModuleOp] = []
        try:
            with KernelCompiler(machine, __version__) as compiler:
                runtime = compiler.submit("runtime", runtime_ir(machine.triple))
                kernels: list[_Kernel] = []
                for number, name in enumerate(calls):
                    progress("kernel", number, len(calls))
                    kernels.append(_submit(functions[name], compiler, lowered if keep_levels else None))
                symbols = {kernel.name: kernel.symbol for kernel in kernels}
                program = lower_host(entries, functions, symbols, weights.offset)
                host = compiler.submit("host program", emit_module(program.module))
                compiler.finish()
                _collect(code, kernels, calls, progress)
                code.sections.append(CodeSection("host", "object", host.result()))
                code.sections.append(CodeSection("runtime", "runtime", runtime.result()))
        except CodegenError as error:
            raise DiagnosticError(Diagnostic(Severity.ERROR, str(error))) from error
        code.messages = program.messages
        code.entry_symbols = {op.sym_name.data: entry_symbol(op.sym_name.data) for op in entries}
        if keep_levels:
            code.levels["llvm"] = _one_module([*lowered, _named(program.module, "host")])
        return code


LLVM_TARGET = LLVMTarget()

KERNEL_PASSES = (
    "loop-compact-buffers",
    "loop-lower-blocks",
    "loop-simplify",
    "loop-partition",
    "loop-vectorize",
    "loop-simplify",
    "loop-hoist-allocs",
)


def machine_of(info: TargetInfo) -> Machine:
    """What LLVM is told: the processor, and each of its features that is not to be used switched off."""
    import llvmlite.binding as llvm

    wanted = set(info.features)
    host = llvm.get_host_cpu_features()
    same = info.triple == llvm.get_process_triple() or info.triple == llvm.get_default_triple()
    unwanted = sorted(name for name in host if name not in wanted) if same and wanted else []
    words = [f"+{name}" for name in sorted(wanted)] + [f"-{name}" for name in unwanted]
    return Machine(info.triple, info.cpu, ",".join(words))


class _Kernel:
    """A kernel on its way through the compiler."""

    def __init__(self, name: str, symbol: str, future: Future[bytes]) -> None:
        self.name = name
        self.symbol = symbol
        self.future = future


def _submit(kernel: FuncOp, compiler: KernelCompiler, levels: list[ModuleOp] | None) -> _Kernel:
    """Lower a kernel, give it the symbol of its text, and have it compiled."""
    name = kernel.sym_name.data
    module = ModuleOp(list(lower_kernel(kernel)))
    text = emit_module(module)
    neutral = _renamed(text, name, "kernel")
    symbol = f"tw_{blake2b(neutral.encode(), digest_size=10).hexdigest()}"
    future = compiler.submit(name, _renamed(text, name, symbol))
    if levels is not None:
        levels.append(_named(module, name))
    return _Kernel(name, symbol, future)


def _renamed(text: str, old: str, new: str) -> str:
    """LLVM IR with a function, and the functions named after it, renamed."""
    return re.sub(rf'@("?){re.escape(old)}(?=[".( ,)]|$)', rf"@\1{new}", text, flags=re.MULTILINE)


def _collect(code: Code, kernels: Sequence[_Kernel], calls: Counter[str], progress: Progress) -> None:
    """Wait for the objects; equal kernels are one section."""
    known: set[str] = set()
    for number, kernel in enumerate(kernels):
        progress("object", number, len(kernels))
        image = kernel.future.result()
        entry: dict[str, Any] = {
            "name": kernel.name,
            "symbol": kernel.symbol,
            "bytes": len(image),
            "calls": calls[kernel.name],
        }
        code.kernels.append(entry)
        if kernel.symbol not in known:
            known.add(kernel.symbol)
            code.sections.append(CodeSection(kernel.name, "object", image))


def _named(module: ModuleOp, name: str) -> ModuleOp:
    module.properties["sym_name"] = StringAttr(name)
    return module


def _one_module(parts: Sequence[ModuleOp]) -> ModuleOp:
    return ModuleOp(list(parts))
