"""One invocation of ``tilewright-bisect``: loads, searches, reduces, says what was found."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ...core.context import TilewrightContext, make_context
from ...core.registry import default_registry
from ...text import print_module
from ..cli.arrays import parse_dims, read_npz, write_npz
from ..reduce.command import save_module
from .program import Array, Inputs, entry_function, failure, input_names, load_ir, output_names, parse_shapes
from .reproducer import Reproducer, reproduce, reproduce_code
from .search import CODE, FAILS, INPUT, INVALID, STUCK, Finding, bisect, first_run

if TYPE_CHECKING:
    from .compiled import Machine

SHOWN_OPS = 40
"""The longest reproducer that is printed as well as written."""


class Session:
    """The state of one invocation."""

    def __init__(self, options: argparse.Namespace) -> None:
        from .main import Show

        self.options = options
        self.path = Path(options.input)
        self.show = Show(options.quiet)
        self.module, self.context = self._load()
        function = entry_function(self.module, options.entry)
        self.entry = function.sym_name.data
        given = {} if options.inputs is None else read_npz(options.inputs)
        self.inputs = Inputs(given, options.seed, parse_dims(options.dim))
        self.inputs.check(function)
        self.machine, self.stage = self._machine()

    def run(self) -> bool:
        """Whether a departure was found; all that there is to say is printed."""
        passes = self._passes()
        expected = self._expected()
        lowered: list[ModuleOp] = []
        finding = bisect(
            self.module,
            self.context,
            passes,
            self.inputs,
            entry=self.entry,
            expected=expected,
            report=self.show.passes,
            keep=lowered,
        )
        if finding is None and self._checks_code():
            finding = self._code(lowered[0], expected, len(passes))
        self.show.done()
        if finding is None:
            print(f"all {len(passes)} passes keep the result of '{self.entry}'")
            return False
        self._tell(finding)
        if finding.kind != INPUT and not self.options.no_reproducer:
            self._reproduce(finding)
        return True

    # What is searched.

    def _load(self) -> tuple[ModuleOp, TilewrightContext]:
        options = self.options
        if self.path.suffix in (".ir", ".mlir"):
            if options.shape:
                raise failure("--shape is for models: the shapes of an .ir file are in it")
            return load_ir(self.path, resources=options.resources, plugins=options.load_plugin)
        if not self.path.is_file():
            raise failure(f"cannot read '{self.path}': no such file")
        from ...frontends.onnx.importer import import_model

        registry = default_registry()
        for plugin in options.load_plugin:
            registry.load_plugin(plugin)
        context = make_context(registry)
        return import_model(self.path, context, shapes=parse_shapes(options.shape) or None), context

    def _machine(self) -> tuple[Machine, str | None]:
        """What to compile for, and the stage that the module has passed."""
        from ..compilation import stage_of, target_of
        from .compiled import Machine

        recorded, options = target_of(self.module), self.options
        name = options.target or recorded.get("name", "llvm")
        mcpu, mattr = options.mcpu or recorded.get("mcpu"), options.mattr or recorded.get("mattr")
        return Machine(name, mcpu, mattr), stage_of(self.module)

    def _passes(self) -> list[Any]:
        from ...core.pipeline import build_pipeline
        from ..stages import stages

        if self.options.pass_pipeline is not None:
            return list(build_pipeline(self.options.pass_pipeline, self.context.registry))
        target = self.context.registry.resolve("target", self.machine.target)
        all_stages = stages(target, target.machine(self.machine.mcpu, self.machine.mattr))
        names = [s.name for s in all_stages]
        if self.stage is not None and self.stage not in names:
            raise failure(f"the file is at stage '{self.stage}': its passes are done, or give them with -p")
        rest = all_stages if self.stage is None else all_stages[names.index(self.stage) + 1 :]
        return [item for s in rest for item in build_pipeline(s.passes, self.context.registry)]

    def _expected(self) -> list[Array] | None:
        """The outputs to compare with; None for those of the program as given."""
        what = self.options.reference
        function = entry_function(self.module, self.entry)
        if what in (None, "interpreter"):
            return None
        if what == "onnxruntime":
            return self._onnxruntime(function)
        given = read_npz(what)
        missing = [name for name in output_names(function) if name not in given]
        if missing or not given:
            raise failure(f"'{what}' has no output '{missing[0] if missing else ''}', it holds {', '.join(given)}")
        return [given[name] for name in output_names(function)]

    def _onnxruntime(self, function: FuncOp) -> list[Array]:
        if self.path.suffix in (".ir", ".mlir"):
            raise failure("--reference onnxruntime is for ONNX models")
        try:
            import onnxruntime
        except ImportError:
            raise failure("--reference onnxruntime needs the package onnxruntime") from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        arrays = dict(zip(input_names(function), self.inputs.make(function)))
        try:
            session = onnxruntime.InferenceSession(str(self.path), options, ["CPUExecutionProvider"])
            return list(session.run(None, {i.name: arrays[i.name] for i in session.get_inputs()}))
        except Exception as problem:
            raise failure(f"onnxruntime cannot run the model: {str(problem).partition(chr(10))[0]}") from None

    # Code generation.

    def _checks_code(self) -> bool:
        return self.options.pass_pipeline is None and not self.options.no_code and self.machine.target == "llvm"

    def _code(self, lowered: ModuleOp, expected: Sequence[Array] | None, index: int) -> Finding | None:
        from ..stages import stages
        from .compiled import check_code

        target = self.context.registry.resolve("target", self.machine.target)
        last = stages(target, target.machine(self.machine.mcpu, self.machine.mattr))[-1].name
        args = self.inputs.make(entry_function(self.module, self.entry))
        if expected is None:
            expected = first_run(self.module, self.context, self.entry, args).outputs
        return check_code(lowered, self.context, self.machine, self.entry, args, expected, index, last)

    # What is said.

    def _tell(self, finding: Finding) -> None:
        if finding.kind == INPUT:
            print(f"the program as given does not compute the reference: {finding.message}")
            return
        where = finding.pass_spec if finding.kind == CODE else f"pass {finding.index + 1} '{finding.pass_spec}'"
        if finding.kind == CODE and not finding.ratio:
            print(f"{where} {finding.message}")
            return
        verb = {FAILS: "fails", INVALID: "leaves invalid IR", STUCK: "leaves IR that does not run"}
        print(f"{where} {verb.get(finding.kind, 'changes the result')}: {finding.message}")
        if finding.departure is not None:
            print(f"first operation that departs: {finding.departure}")

    def _reproduce(self, finding: Finding) -> None:
        seconds = self.options.max_seconds
        if finding.kind == CODE:
            from .compiled import code_departs

            test = code_departs(finding, self.context, self.machine, self.inputs, self.entry, self.stage)
            found = reproduce_code(
                self.module,
                finding,
                self.context,
                test,
                self.inputs,
                entry=self.entry,
                report=self.show.reduction,
                max_seconds=seconds,
            )
        else:
            found = reproduce(
                finding,
                self.context,
                self.inputs,
                entry=self.entry,
                report=self.show.reduction,
                max_seconds=seconds,
            )
        self.show.done()
        self._write(finding, found)

    def _write(self, finding: Finding, found: Reproducer) -> None:
        path = Path(self.options.output) if self.options.output else self.path.with_suffix(".repro.ir")
        command = self._command(path, finding, found)
        save_module(path, found.module, self.context, f"// {finding.message}\n// {command}\n")
        print(f"reproducer of {found.ops} ops: {path}")
        if found.ops <= SHOWN_OPS:
            print(print_module(found.module).rstrip())
        print(f"show it with: {command}")

    def _command(self, path: Path, finding: Finding, found: Reproducer) -> str:
        words = ["tilewright-bisect", str(path)]
        if finding.kind != CODE:
            words += ["-p", f'"{found.pass_spec}"']
        if self.options.entry is not None:
            words += ["--entry", self.entry]
        words += ["--seed", str(self.options.seed)]
        words += [f"--dim {name}={size}" for name, size in sorted(self.inputs.dims.items())]
        if found.needs_inputs:
            arrays = path.with_suffix(".npz")
            write_npz(str(arrays), self._cut_inputs(found.module))
            words += ["--inputs", str(arrays)]
        if self.machine.target != "llvm":
            words += ["--target", self.machine.target]
        words += [f"--load-plugin {plugin}" for plugin in self.options.load_plugin]
        return " ".join([*words, "--no-reproducer"])

    def _cut_inputs(self, module: ModuleOp) -> Mapping[str, Array]:
        function = entry_function(module, self.entry)
        made = dict(zip(input_names(function), self.inputs.make(function)))
        return {name: array for name, array in made.items() if name in self.inputs.given}


