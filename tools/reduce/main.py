"""``tilewright-reduce``: the command line.

Exit status: 0 when a (perhaps not smaller) reduced file was written, 1 after a diagnostic, 2 for a wrong command line,
130 when interrupted; the best module so far is written then, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .reducer import Interesting, Progress, Reducer

EPILOG = """\
A module is interesting if the command fails: by default with any exit status but 0.

examples:
  tilewright-reduce model.ir -p "graph-simplify,graph-fuse" --match "internal error"
  tilewright-reduce model.ir -o small.ir --match "does not dominate" -- tilewright-opt {} -p graph-fuse
  tilewright-reduce model.ir --test ./wrong_result.sh --exit-code 7
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright-reduce",
        usage="%(prog)s FILE [options] (-p PIPELINE | --test COMMAND | -- COMMAND ...)",
        description="Make an .ir file small while a command still fails on it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", metavar="FILE", help="the .ir file")
    add("-o", "--output", metavar="FILE", help="the file to write (default: FILE with .reduced.ir)")
    add("--test", metavar="COMMAND", help="a script, or a command with {} for the file (appended if it has none)")
    add("-p", "--pass-pipeline", metavar="PIPELINE", help="interesting if these passes fail; run in this process")
    add("--exit-code", type=int, metavar="N", help="the exit status that counts (default: any but 0)")
    add("--match", metavar="TEXT", help="what the command's output (the passes' error) must contain")
    add("--timeout", type=float, default=60.0, metavar="S", help="seconds for one run of the command (default: 60)")
    add("--max-tests", type=int, metavar="N", help="stop after so many tests")
    add("--max-seconds", type=float, metavar="S", help="stop after so long")
    add("--resources", metavar="FILE", help="weights (safetensors); default: beside the input")
    add("--load-plugin", metavar="FILE", action="append", default=[], help="Python file with register(registry)")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations of unknown dialects")
    add("-q", "--quiet", action="store_true", help="show no progress")
    add("--debug", action="store_true", help="show the Python traceback of an internal error")
    add("--version", action="store_true", help="print the version, and stop")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    words = list(sys.argv[1:] if argv is None else argv)
    command: list[str] = []
    if "--" in words:
        words, command = words[: words.index("--")], words[words.index("--") + 1 :]
    if "--version" in words:
        from ... import __version__

        print(f"tilewright-reduce {__version__}")
        return 0
    parser = make_parser()
    options = parser.parse_args(words)
    if sum(bool(x) for x in (options.test, options.pass_pipeline, command)) != 1:
        parser.error("give one test: -p PIPELINE, --test COMMAND, or -- COMMAND ...")
    if options.pass_pipeline and options.exit_code is not None:
        parser.error("--exit-code is for commands")
    from ...core.diagnostics import DiagnosticError, render
    from .command import CommandError

    try:
        return _run(options, command)
    except DiagnosticError as problem:
        print(render(problem), file=sys.stderr)
    except CommandError as problem:
        print(render(problem.diagnostic), file=sys.stderr)
    except OSError as problem:
        print(f"error: {problem.strerror or problem}: '{problem.filename}'", file=sys.stderr)
    except RecursionError:
        print("error: regions, attributes or types are nested too deeply", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except Exception as problem:
        if options.debug:
            raise
        print(f"error: internal error: {problem!r} (--debug shows the traceback)", file=sys.stderr)
    return 1


def _run(options: argparse.Namespace, command: list[str]) -> int:
    from ..bisect.program import load_ir
    from .command import CommandTest, Outcome, pipeline_test, save_module, words_of
    from .reducer import Reducer

    path = Path(options.input)
    output = Path(options.output) if options.output else path.with_suffix(".reduced.ir")
    module, context = load_ir(
        path,
        resources=options.resources,
        plugins=options.load_plugin,
        allow_unregistered=options.allow_unregistered_dialect,
    )
    test: Interesting
    if options.pass_pipeline:
        _check_pipeline(options.pass_pipeline, context)
        test = pipeline_test(options.pass_pipeline, context, options.match)
    else:
        outcome = Outcome(options.exit_code, options.match)
        test = CommandTest(command or words_of(options.test), context, outcome, path.name, options.timeout)
    show = _Show(options.quiet)
    reducer = Reducer(
        module,
        test,
        context,
        report=show.progress,
        max_tests=options.max_tests,
        max_seconds=options.max_seconds,
    )
    status = _reduce(reducer)
    save_module(output, reducer.best, context)
    show.end(reducer, output)
    return status


def _reduce(reducer: Reducer) -> int:
    """Run to the end or to an interrupt."""
    try:
        reducer.run()
    except KeyboardInterrupt:
        print("\ninterrupted: writing the best so far", file=sys.stderr)
        return 130
    return 0


def _check_pipeline(pipeline: str, context: object) -> None:
    """A pipeline that does not exist is an error, not an interesting failure."""
    from ...core.pipeline import build_pipeline

    build_pipeline(pipeline, context.registry)  # type: ignore[attr-defined]


class _Show:
    """Progress on standard error: one line that moves on a terminal, a line per finding elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.terminal, self.last = quiet, sys.stderr.isatty(), 0.0

    def progress(self, now: Progress) -> None:
        if self.quiet:
            return
        text = f"{now.ops} of {now.original_ops} ops, {now.tests} tests, {now.strategy}"
        if self.terminal:
            if now.accepted or time.monotonic() - self.last > 0.2:
                self.last = time.monotonic()
                print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif now.accepted:
            print(text, file=sys.stderr)

    def end(self, reducer: Reducer, output: Path) -> None:
        from .measure import op_count

        if self.terminal and not self.quiet:
            print("\r\033[K", end="", file=sys.stderr)
        print(f"{output}: {op_count(reducer.best)} ops after {reducer.tests} tests", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
