"""What ``tilewright-opt`` does: one chunk of text after the other through parser, verifier, passes and printer."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...core.context import TilewrightContext, make_context
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity, file_location, render
from ...core.instrumentation import Instrumentation, PrintIR, Reproducer, Timing
from ...core.pass_manager import PassManager
from ...core.pipeline import PipelineItem, build_pipeline
from ...core.registry import Registry, default_registry
from ...core.resources import ResourceTable
from ...core.verifier import verify
from ...text import print_module
from .listing import list_dialects, list_passes
from .split import SEPARATOR, Chunk, split_chunks


def run(options: argparse.Namespace) -> int:
    """The exit status of one invocation; everything it has to say is printed."""
    try:
        return _Run(options).run()
    except DiagnosticError as problem:
        print(render(problem), file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as problem:
        print(f"error: {problem.strerror or problem}: '{problem.filename}'", file=sys.stderr)
    return 1


class _Run:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.registry = _load_registry(options.load_plugin)
        self.sources: dict[str, str] = {}
        self.resources = ResourceTable()
        self.timing = Timing() if options.timing else None
        self.phases: dict[str, float] = {}

    def run(self) -> int:
        options = self.options
        if options.list_passes or options.list_dialects:
            if options.list_passes:
                print(list_passes(self.registry))
            if options.list_dialects:
                print(list_dialects(self.registry))
            return 0
        pipeline = build_pipeline(options.pass_pipeline, self.registry)
        for name in sorted(_names(options.print_ir_before) | _names(options.print_ir_after)):
            self.registry.resolve("pass", name)
        name, text = read_input(options.input)
        self.sources[name] = text
        self._load_resources(text)
        outputs: list[str] = []
        ok = True
        for chunk in split_chunks(name, text) if options.split_input_file else [Chunk(name, text, 1)]:
            output = self._run_chunk(chunk, pipeline)
            ok = ok and output is not None
            outputs.append(output or "")
        # Chunks keep their places, so that the output of a failing run still lines up.
        if ok or any(outputs):
            self._write(f"{SEPARATOR}\n".join(outputs))
        if self.timing is not None:
            print(self._timing_report(), file=sys.stderr)
        return 0 if ok else 1

    def _run_chunk(self, chunk: Chunk, pipeline: tuple[PipelineItem, ...]) -> str | None:
        """The output of a chunk; ``None`` when it failed (or did not fail as its comments expect)."""
        seen: list[Diagnostic] = []
        output = self._transform(chunk, pipeline, seen)
        if not self.options.verify_diagnostics:
            for diagnostic in seen:
                print(render(diagnostic, self.sources), file=sys.stderr)
            return output
        from ...testing.matcher import check_expectations, parse_expectations

        expectations, malformed = parse_expectations(chunk.text, chunk.first_line)
        failures = [Diagnostic(Severity.ERROR, m, file_location(chunk.name, line, 1)) for line, m in malformed]
        failures += check_expectations(expectations, seen, chunk.name)
        if failures:
            print(render(failures, self.sources), file=sys.stderr)
            return None
        return output or ""

    def _transform(self, chunk: Chunk, pipeline: tuple[PipelineItem, ...], seen: list[Diagnostic]) -> str | None:
        from ...text import parse_module

        context = make_context(
            self.registry,
            allow_unregistered=self.options.allow_unregistered_dialect,
            resources=self.resources,
        )
        context.on_diagnostic = seen.append
        try:
            start = time.perf_counter()
            module = parse_module(chunk.padded_text, filename=chunk.name, context=context)
            start = self._phase("parse", start)
            if not self.options.no_verify:
                verify(module)
                start = self._phase("verify input", start)
            self._run_passes(module, context, pipeline)
            start = time.perf_counter()
            text = self._print(module)
            self._phase("print", start)
            return text
        except DiagnosticError as problem:
            seen.extend(problem.diagnostics)
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except RecursionError:
            # xDSL walks and clones by recursion.
            message = "regions, attributes or types are nested too deeply"
            seen.append(Diagnostic(Severity.ERROR, message, file_location(chunk.name, 0, 0)))
        except Exception as problem:
            seen.append(self._internal_error(problem, chunk))
        return None

    def _run_passes(self, module: ModuleOp, context: TilewrightContext, pipeline: tuple[PipelineItem, ...]) -> None:
        if not pipeline:
            return
        manager = PassManager(
            context, pipeline, verify_each=not self.options.no_verify, instrumentations=self._instrumentations()
        )
        manager.run(module)

    def _instrumentations(self) -> list[Instrumentation]:
        options = self.options
        found: list[Instrumentation] = []
        before = None if options.print_ir_before_all else _names(options.print_ir_before)
        after = None if options.print_ir_after_all else _names(options.print_ir_after)
        if before is None or after is None or before or after:
            found.append(PrintIR(self._print, sys.stderr.write, before, after))
        if options.reproducer:
            found.append(Reproducer(self._print, lambda text: Path(options.reproducer).write_text(text)))
        if self.timing is not None:
            found.append(self.timing)
        return found

    def _print(self, op: Operation) -> str:
        text = print_module(op, generic=self.options.generic, locations=self.options.locations)
        return text if text.endswith("\n") else f"{text}\n"

    def _internal_error(self, problem: Exception, chunk: Chunk) -> Diagnostic:
        """A bug of ours: one line, and the traceback only on request."""
        if self.options.debug:
            traceback.print_exception(problem)
        message = str(problem) if str(problem).startswith("internal error") else f"internal error: {problem!r}"
        first = message.strip().splitlines()[0] if message.strip() else "internal error"
        return Diagnostic(Severity.ERROR, f"{first} (--debug shows the traceback)", file_location(chunk.name, 0, 0))

    def _load_resources(self, text: str) -> None:
        path = self.options.resources
        if path is None and "dense_resource" in text and self.options.input != "-":
            beside = Path(self.options.input).with_suffix(".safetensors")
            path = beside if beside.is_file() else None
        if path is not None:
            self.resources = ResourceTable.load(path)

    def _write(self, text: str) -> None:
        options = self.options
        if options.output == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            _write_file(options.output, text)
        save = options.save_resources
        if save is None and options.output != "-" and "dense_resource" in text and len(self.resources):
            save = str(Path(options.output).with_suffix(".safetensors"))
        if save is not None:
            try:
                self.resources.save(save, {name for name in self.resources if name in text})
            except OSError as problem:
                raise _fail(f"cannot write '{save}': {problem.strerror}") from None

    def _phase(self, name: str, start: float) -> float:
        now = time.perf_counter()
        self.phases[name] = self.phases.get(name, 0.0) + now - start
        return now

    def _timing_report(self) -> str:
        assert self.timing is not None
        phases = "\n".join(f"  {seconds:8.4f}  {name}" for name, seconds in self.phases.items())
        return f"{self.timing.report()}\n  other phases\n{phases}"


def read_input(path: str) -> tuple[str, str]:
    """``(name, text)`` of a file or of standard input; an unreadable one is a diagnostic."""
    name = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as problem:
        raise _fail(f"cannot read '{path}': {problem.strerror}") from None
    try:
        return name, data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        column = problem.start - (data.rfind(b"\n", 0, problem.start) + 1) + 1
        message = f"the text is not UTF-8 (byte 0x{data[problem.start]:02x})"
        raise DiagnosticError(Diagnostic(Severity.ERROR, message, file_location(name, line, column))) from None


def _write_file(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise _fail(f"cannot write '{path}': {problem.strerror}") from None


def _load_registry(plugins: list[str]) -> Registry:
    registry = default_registry()
    for path in plugins:
        registry.load_plugin(path)
    return registry


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


def _fail(message: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(Severity.ERROR, message))
