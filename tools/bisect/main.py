"""``tilewright-bisect``: the command line.

Exit status: 0 when every pass keeps the result, 3 when one was found that does not, 1 after a diagnostic, 2 for a wrong
command line, 130 when interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

FOUND = 3

EPILOG = """\
The reference is the program as given, in the interpreter, unless --reference says otherwise. After each pass the
program runs in the interpreter, after the last one also as compiled code; sizes should be small.

examples:
  tilewright-bisect model.onnx --seed 1 --dim batch=2
  tilewright-bisect model.onnx --inputs in.npz --reference expected.npz
  tilewright-bisect levels/04_loop.ir                      from a dumped level on
  tilewright-bisect kernel.ir -p "loop-vectorize,loop-simplify" -o small.ir
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright-bisect",
        description="Find the first pass that changes a program's result, and a small program that shows it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", metavar="FILE", help="an ONNX model or an .ir file; a dumped level goes on from there")
    add("-p", "--pass-pipeline", metavar="PIPELINE", help="these passes (default: those of a compilation)")
    add("--inputs", metavar="NPZ", help="arrays by the names of the inputs; others are random")
    add("--seed", type=int, default=0, metavar="N", help="for random inputs (default: 0)")
    add("--dim", action="append", default=[], metavar="NAME=SIZE", help="a symbolic dimension (default: 2)")
    add("--shape", action="append", default=[], metavar="INPUT=DIMS", help="the shape of a model's input, as compile")
    add("--reference", metavar="WHAT", help="an .npz file of expected outputs, or 'onnxruntime'")
    add("--entry", metavar="NAME", help="the function to run (default: main, or the first public one)")
    add("--target", metavar="NAME", help="whose passes and code (default: llvm)")
    add("--mcpu", metavar="CPU", help="the processor (default: native)")
    add("--mattr", metavar="LIST", help="processor features, such as +avx2,-fma")
    add("--no-code", action="store_true", help="do not run compiled code after the last pass")
    add("-o", "--output", metavar="FILE", help="the reduced reproducer (default: FILE with .repro.ir)")
    add("--no-reproducer", action="store_true", help="only name the pass")
    add("--max-seconds", type=float, default=60.0, metavar="S", help="for reducing (default: 60)")
    add("--resources", metavar="FILE", help="weights (safetensors) of an .ir file; default: beside it")
    add("--load-plugin", metavar="FILE", action="append", default=[], help="Python file with register(registry)")
    add("-q", "--quiet", action="store_true", help="show no progress")
    add("--debug", action="store_true", help="show the Python traceback of an internal error")
    add("--version", action="store_true", help="print the version, and stop")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--version" in words:
        from ... import __version__

        print(f"tilewright-bisect {__version__}")
        return 0
    options = make_parser().parse_args(words)
    from ...core.diagnostics import DiagnosticError, render
    from ...runtime.errors import TilewrightError
    from .session import Session

    try:
        return FOUND if Session(options).run() else 0
    except DiagnosticError as problem:
        print(render(problem), file=sys.stderr)
    except TilewrightError as problem:
        print(f"error: {problem}", file=sys.stderr)
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


class Show:
    """Progress on standard error, on a terminal only; findings on standard output."""

    def __init__(self, quiet: bool) -> None:
        self.live = sys.stderr.isatty() and not quiet

    def passes(self, index: int, count: int, text: str) -> None:
        """A pass is next."""
        if self.live:
            print(f"\r\033[K[{index + 1}/{count}] {text}", end="", file=sys.stderr, flush=True)

    def reduction(self, now: Any) -> None:
        """A candidate was tried."""
        if self.live:
            text = f"reducing: {now.ops} of {now.original_ops} ops, {now.tests} tests"
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Clears the line."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
