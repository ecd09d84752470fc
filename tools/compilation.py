"""One compilation: runs the stages over a module, verifies at their borders, writes dumps, measures, reports
progress.

The module carries its level in the attribute ``tw.stage`` and the target it is compiled for in ``tw.target``,
so that any dumped file says by itself where to go on. Weights are saved once beside the dumps.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr

from ..core.context import TilewrightContext
from ..core.diagnostics import Diagnostic, DiagnosticError, Severity
from ..core.instrumentation import Instrumentation
from ..core.pass_manager import PassManager
from ..core.passes import Pass
from ..core.resources import ResourceTable
from ..core.target import TargetInfo
from ..core.verifier import verify
from ..passes.vm.weights import WeightSection
from ..targets.base import Code, Target
from ..text import print_module
from .artefact import write_artefact
from .sizes import check_sizes
from .stages import Stage, stages

STAGE_ATTRIBUTE = "tw.stage"
TARGET_ATTRIBUTE = "tw.target"
RESOURCES_FILE = "weights.safetensors"


class Reporter:
    """Told what the compilation is doing; does nothing."""

    def stage(self, name: str) -> None:
        """A stage begins."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Within a stage: ``done`` of ``total``."""


@dataclass
class Timings(Instrumentation):
    """Seconds per stage, and per pass within it, in order."""

    stages: dict[str, float] = field(default_factory=dict)
    passes: list[tuple[str, str, float]] = field(default_factory=list)
    _stage: str = ""
    _started: float = 0.0

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Time a stage."""
        self._stage = stage
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[stage] = self.stages.get(stage, 0.0) + time.perf_counter() - start

    def before(self, item: Pass, op: object) -> None:
        self._started = time.perf_counter()

    def after(self, item: Pass, op: object) -> None:
        self.passes.append((self._stage, item.name, time.perf_counter() - self._started))

    def text(self) -> str:
        """A table for people."""
        total = sum(self.stages.values())
        lines = [f"{'stage':<24} {'seconds':>8}"]
        for stage, seconds in self.stages.items():
            lines.append(f"{stage:<24} {seconds:8.3f}")
            lines += [f"  {name:<22} {t:8.3f}" for where, name, t in self.passes if where == stage and t >= 0.001]
        return "\n".join([*lines, f"{'total':<24} {total:8.3f}"])


@dataclass
class Compilation:
    """The state of one compilation; ``run`` takes a module from its level to the last and writes the
    artefact.
    """

    context: TilewrightContext
    target: Target
    info: TargetInfo
    producer: str
    dump: Path | None = None
    reporter: Reporter = field(default_factory=Reporter)
    timings: Timings = field(default_factory=Timings)
    _saved_resources: int = -1

    def run(
        self, module: ModuleOp, after: str, output: str | os.PathLike[str], *, loadable: bool = False
    ) -> None:
        """Compile ``module``, which has passed stage ``after``. ``loadable``: the output must be an artefact."""
        with _collector_off():
            check_sizes(module)
            if self.dump is not None:
                self.dump.mkdir(parents=True, exist_ok=True)
            for number, stage in self._remaining(after):
                self._stage(module, number, stage)
            self._finish(module, output, loadable)

    def stage_names(self) -> list[str]:
        """The names of all stages, in order; the last one is the target's own level."""
        return [*(stage.name for stage in stages(self.target, self.info)), self.target.level]

    def _remaining(self, after: str) -> list[tuple[int, Stage]]:
        names = self.stage_names()
        if after not in names:
            raise DiagnosticError(
                Diagnostic(Severity.ERROR, f"unknown stage '{after}', expected one of {', '.join(names)}")
            )
        numbered = list(enumerate(stages(self.target, self.info)))
        return numbered if after == names[0] else numbered[names.index(after) + 1 :]

    def _stage(self, module: ModuleOp, number: int, stage: Stage) -> None:
        self.reporter.stage(stage.name)
        with self.timings.measure(stage.name):
            manager = PassManager(
                self.context, stage.passes, verify_each=False, instrumentations=[self.timings]
            )
            manager.run(module)
            module.attributes[STAGE_ATTRIBUTE] = StringAttr(stage.name)
        if stage.border or self.dump is not None:
            with self.timings.measure("verify"):
                verify(module)
        self._write_dump(f"{number:02}_{stage.name}", module)

    def _write_dump(self, name: str, module: ModuleOp) -> None:
        if self.dump is None:
            return
        with self.timings.measure("dump"):
            path = self.dump / f"{name}.ir"
            path.write_text(print_module(module).rstrip("\n") + "\n", encoding="utf-8")
            if len(self.context.resources) != self._saved_resources:
                self._save_resources(self.dump / RESOURCES_FILE)

    def _save_resources(self, path: Path) -> None:
        """Write the weights beside the dumps; a file that is there may be the one they are mapped from."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            self.context.resources.save(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        self._saved_resources = len(self.context.resources)

    def _finish(self, module: ModuleOp, output: str | os.PathLike[str], loadable: bool) -> None:
        self.reporter.stage("code")
        weights = WeightSection.of(module)
        with self.timings.measure("code"):
            code: Code = self.target.generate(
                module, self.context, self.info, weights, self.reporter.progress, self.dump is not None
            )
        if code.lowered is not None:
            code.lowered.attributes[STAGE_ATTRIBUTE] = StringAttr(self.target.level)
            self._write_dump(f"{len(self.stage_names()) - 1:02}_{self.target.level}", code.lowered)
        self.reporter.stage("write")
        with self.timings.measure("write"):
            if code.write is not None and loadable:
                message = f"target '{self.target.name}' writes files that cannot be loaded: give an output"
                raise DiagnosticError(Diagnostic(Severity.ERROR, message))
            if code.write is not None:
                code.write(output)
            else:
                write_artefact(output, module, self.context, code, weights, self.producer)


def set_target(module: ModuleOp, name: str, mcpu: str | None, mattr: str | None) -> None:
    """Record what the module is compiled for."""
    given = {"name": name, "mcpu": mcpu, "mattr": mattr}
    module.attributes[TARGET_ATTRIBUTE] = DictionaryAttr(
        {key: StringAttr(value) for key, value in given.items() if value is not None}
    )


def target_of(module: ModuleOp) -> dict[str, str]:
    """What the module says it is compiled for: some of ``name``, ``mcpu``, ``mattr``."""
    found = module.attributes.get(TARGET_ATTRIBUTE)
    if not isinstance(found, DictionaryAttr):
        return {}
    return {key: value.data for key, value in found.data.items() if isinstance(value, StringAttr)}


def stage_of(module: ModuleOp) -> str | None:
    """The stage that the module has passed last, if it says so."""
    found = module.attributes.get(STAGE_ATTRIBUTE)
    return found.data if isinstance(found, StringAttr) else None


def resources_beside(path: Path) -> ResourceTable:
    """The weights saved beside a dumped file; an empty table if there are none."""
    saved = path.with_name(RESOURCES_FILE)
    return ResourceTable.load(saved) if saved.exists() else ResourceTable()


@contextmanager
def _collector_off() -> Iterator[None]:
    """No garbage collection meanwhile: the IR is one live graph, walking it again and again costs a quarter
    of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
