"""What makes a module interesting, as the command line says it: a command over its text, or a pass pipeline."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ...core.context import TilewrightContext
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity
from ...core.pass_manager import InternalPassError, run_pipeline
from ...core.resources import ResourceTable
from ...text import print_module

PLACEHOLDER = "{}"
_RESOURCE = re.compile(r'dense_resource<"?([^>"]+)"?>')


def resource_names(text: str, table: ResourceTable) -> set[str]:
    """The arrays of a table that a text names."""
    return {name for name in _RESOURCE.findall(text) if name in table}


def save_module(path: Path, module: ModuleOp, context: TilewrightContext, heading: str = "") -> None:
    """Write a module, and the arrays that it names beside it; each file appears when it is complete."""
    text = heading + print_module(module).rstrip("\n") + "\n"
    names = resource_names(text, context.resources)
    if names:
        weights = path.with_suffix(".safetensors")
        temporary = weights.with_name(f".{weights.name}.tmp")
        context.resources.save(temporary, names)
        temporary.replace(weights)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


@dataclass
class Outcome:
    """Which ends of a command count: its exit status, and what it says."""

    exit_code: int | None = None
    """The status; if not given, any but 0."""
    match: str | None = None
    """A text that standard output or error must contain."""

    def holds(self, status: int, said: str) -> bool:
        """Whether this end counts."""
        if status == 0 if self.exit_code is None else status != self.exit_code:
            return False
        return self.match is None or self.match in said


class CommandError(Exception):
    """The command of a test cannot be run at all."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class CommandTest:
    """Runs a command on a file with the module's text, in an empty folder."""

    def __init__(
        self, command: Sequence[str], context: TilewrightContext, outcome: Outcome, name: str, timeout: float
    ) -> None:
        self.context, self.outcome, self.name, self.timeout = context, outcome, name, timeout
        self.command = list(command)
        if not any(PLACEHOLDER in word for word in self.command):
            self.command.append(PLACEHOLDER)

    def __call__(self, module: ModuleOp) -> bool:
        with tempfile.TemporaryDirectory(prefix="tilewright-reduce-") as folder:
            path = Path(folder) / self.name
            save_module(path, module, self.context)
            words = [word.replace(PLACEHOLDER, str(path)) for word in self.command]
            done = _run(words, self.timeout)
        if done is None:
            return False
        status, said = done
        # As shells say it: a command that a signal ended.
        return self.outcome.holds(status if status >= 0 else 128 - status, said.decode("utf-8", "replace"))


def _run(words: Sequence[str], timeout: float) -> tuple[int, bytes] | None:
    """Status and output of a command; None if it took too long. Whatever it started ends with it."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as problem:
        message = f"cannot run '{words[0]}': {problem.strerror or problem}"
        raise CommandError(Diagnostic(Severity.ERROR, message)) from None
    try:
        said, _ = process.communicate(timeout=timeout)
    except BaseException as problem:
        _kill(process)
        if isinstance(problem, subprocess.TimeoutExpired):
            return None
        raise
    return process.returncode, said


def _kill(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def pipeline_test(pipeline: str, context: TilewrightContext, match: str | None) -> Callable[[ModuleOp], bool]:
    """Interesting is a module on which the pipeline fails or leaves invalid IR; no process is started for it."""

    def test(module: ModuleOp) -> bool:
        try:
            run_pipeline(module, pipeline, context, verify_each=True)
        except (DiagnosticError, InternalPassError) as problem:
            return match is None or match in str(problem)
        return False

    return test


def words_of(command: str) -> list[str]:
    """A command given as one text."""
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise DiagnosticError(Diagnostic(Severity.ERROR, f"cannot read the command: {problem}")) from None
    if not words:
        raise DiagnosticError(Diagnostic(Severity.ERROR, "the command is empty"))
    return words
