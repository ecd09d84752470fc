"""The LLVM target as the driver sees it: object code for the kernels and host programs of one module.

Kernels are lowered one after the other; each is handed to the compiler (cache, worker processes) as soon as
its text is there, so that LLVM works on one while the next is lowered. A kernel's symbol is a hash of its
text: equal kernels are one object, whatever they were called, and the cache finds them again in other models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import blake2b

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ..._version import __version__
from ...core.context import TilewrightContext
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity
from ...core.target import TargetInfo, make_target
from ...dialects.vm.ops import CallOp
from ...passes.convert.graph_to_vm import is_entry
from ...passes.vm.weights import WeightSection
from ..base import Code, CodeSection, Progress
from ..lowered import lowered_parts, with_lowered_parts
from .codegen import CodegenError, Machine
from .compiler import KernelCompiler
from .emit import emit_module
from .host import entry_symbol, lower_host
from .lower import lower_kernel
from .runtime_ir import runtime_ir
from .schedules.attach import attach_spec


class LLVMTarget:
    """Native code through LLVM: one object per distinct kernel, one for the host programs, one for the
    runtime.
    """

    name = "llvm"
    level = "llvm"

    def machine(self, mcpu: str | None, mattr: str | None) -> TargetInfo:
        """A processor that LLVM knows."""
        return make_target(self.name, mcpu, mattr)

    def schedule_passes(self, info: TargetInfo) -> tuple[str, ...]:
        """The default schedules for processors."""
        return (attach_spec(info),)

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
        keep_lowered: bool = False,
    ) -> Code:
        """Code for everything that the public functions of the module call."""
        try:
            return _Generation(module, info, progress, keep_lowered).run(weights)
        except CodegenError as error:
            raise DiagnosticError(Diagnostic(Severity.ERROR, str(error))) from error


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
    """What LLVM is told: the processor, its features, and the instruction sets that are not to be used."""
    import llvmlite.binding as llvm

    wanted = set(info.features)
    words = [f"+{name}" for name in sorted(wanted)]
    if wanted and info.triple.startswith("x86_64"):
        known = set(llvm.get_host_cpu_features())
        words += [f"-{name}" for name in sorted(known - wanted) if name.startswith(_INSTRUCTION_SETS)]
    return Machine(info.triple, info.cpu, ",".join(words))


_INSTRUCTION_SETS = ("amx", "avx", "bmi", "f16c", "fma", "popcnt", "sse3", "sse4", "ssse3", "vaes", "vpclmul", "xop")


@dataclass(frozen=True)
class _Kernel:
    """A kernel on its way through the compiler."""

    name: str
    symbol: str
    image: Future[bytes]


class _Generation:
    """Code generation for one module."""

    def __init__(self, module: ModuleOp, info: TargetInfo, progress: Progress, keep_lowered: bool) -> None:
        self.module = module
        self.info = info
        self.progress = progress
        self.functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        self.entries = [op for op in self.functions.values() if op.body.blocks and is_entry(op)]
        self.calls = Counter(op.kernel.root_reference.data for op in module.walk() if isinstance(op, CallOp))
        self.given = lowered_parts(module)
        self.parts: dict[str, ModuleOp] | None = {} if keep_lowered else None

    def run(self, weights: WeightSection) -> Code:
        machine = machine_of(self.info)
        code = Code({"triple": machine.triple, "cpu": machine.cpu, "features": self.info.feature_string})
        program = lower_host(self.entries, self.functions, weights.offset)
        with KernelCompiler(machine, __version__) as compiler:
            runtime = compiler.submit("runtime", runtime_ir(machine.triple))
            kernels = [self._submit(name, number, compiler) for number, name in enumerate(self.calls)]
            host = compiler.submit("host program", self._host_text(program.module, kernels))
            compiler.finish()
            self._collect(code, kernels)
            code.sections.append(CodeSection("host", "object", host.result()))
            code.sections.append(CodeSection("runtime", "runtime", runtime.result()))
        code.messages = program.messages
        code.entry_symbols = {op.sym_name.data: entry_symbol(op.sym_name.data) for op in self.entries}
        if self.parts is not None:
            code.lowered = with_lowered_parts(self.module, self.parts)
        return code

    def _submit(self, name: str, number: int, compiler: KernelCompiler) -> _Kernel:
        """Lower a kernel, give it the symbol of its text, and have it compiled."""
        self.progress("kernel", number, len(self.calls))
        part = self._part(f"kernel.{name}", lambda: ModuleOp(list(lower_kernel(self.functions[name]))))
        text = emit_module(part)
        neutral = renamed(text, {name: "kernel"})
        symbol = f"tw_{blake2b(neutral.encode(), digest_size=10).hexdigest()}"
        return _Kernel(name, symbol, compiler.submit(name, renamed(text, {name: symbol})))

    def _host_text(self, module: ModuleOp, kernels: Sequence[_Kernel]) -> str:
        """The text of the host program; kernels with equal code have one declaration."""
        text = emit_module(self._part("host", lambda: module))
        lines = renamed(text, {kernel.name: kernel.symbol for kernel in kernels}).splitlines()
        declarations = dict.fromkeys(line for line in lines if line.startswith("declare "))
        return "\n".join([*(line for line in lines if line not in declarations), *declarations, ""])

    def _part(self, name: str, make: Callable[[], ModuleOp]) -> ModuleOp:
        """A part in the final dialect: the one that the module holds already, or a new one."""
        part = self.given.get(name)
        if part is None:
            part = make()
        if self.parts is not None:
            self.parts[name] = part
        return part

    def _collect(self, code: Code, kernels: Sequence[_Kernel]) -> None:
        """Wait for the objects; equal kernels are one section."""
        known: set[str] = set()
        for number, kernel in enumerate(kernels):
            self.progress("object", number, len(kernels))
            image = kernel.image.result()
            code.kernels.append(
                {
                    "name": kernel.name,
                    "symbol": kernel.symbol,
                    "bytes": len(image),
                    "calls": self.calls[kernel.name],
                }
            )
            if kernel.symbol not in known:
                known.add(kernel.symbol)
                code.sections.append(CodeSection(kernel.name, "object", image))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """LLVM IR with functions, and the functions named after them (``@k.parallel0``), renamed."""
    if not names:
        return text
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(
        rf'@("?)({pattern})(?=[".(,) ]|$)', lambda m: f"@{m[1]}{names[m[2]]}", text, flags=re.MULTILINE
    )
