"""``tilewright compile | run | inspect``: arguments, exit codes, and errors without tracebacks.

Exit codes: 0 done, 1 something is wrong with the model, the artefact or the inputs (one message on standard
error), 2 wrong usage, 130 interrupted. Each command is a module of this package, imported when it is asked
for, so that ``--version`` and ``--help`` answer at once and ``run`` needs nothing of the compiler.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from importlib import import_module


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command == "compile" and not arguments.print_pipeline and not (arguments.model and arguments.output):
        parser.error("compile needs a model and -o FILE")
    collecting = gc.isenabled()
    gc.disable()  # A command is one short job around one live graph: a collection walks it all and frees nothing.
    try:
        command = import_module(f".{arguments.command}", __package__)
        return int(command.run(arguments))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps one that comes while a class is made.
            return 130
        message = _message(error)
        if message is None:
            if arguments.debug:
                raise
            message = f"error: internal error: {error!r} (--debug shows the traceback)"
        print(message, file=sys.stderr)
        return 1
    finally:
        if collecting:
            gc.freeze()  # Nor does the one at the end of the process find anything.
            gc.enable()


def _message(error: Exception) -> str | None:
    """What the user is told, or None for a bug of ours."""
    from ...runtime.errors import TilewrightError

    if isinstance(error, TilewrightError):
        return f"error: {error}"
    if isinstance(error, MemoryError):
        return f"error: no memory: {error}" if str(error) else "error: no memory"
    if isinstance(error, OSError):
        where = f"'{error.filename}': " if error.filename else ""
        return f"error: {where}{error.strerror or error}"
    diagnostics = sys.modules.get(f"{__package__.rsplit('.', 2)[0]}.core.diagnostics")
    if diagnostics is not None and isinstance(error, diagnostics.DiagnosticError):
        return str(diagnostics.render(error))
    return None


def _parser() -> argparse.ArgumentParser:
    from ... import __version__

    parser = argparse.ArgumentParser(
        prog="tilewright", description="Compile deep-learning models to native code, and run them."
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, add_arguments, text in (
        ("compile", _compile_arguments, "compile a model to an artefact"),
        ("run", _run_arguments, "run an artefact"),
        ("inspect", _inspect_arguments, "show what an artefact holds"),
    ):
        command = commands.add_parser(name, help=text)
        add_arguments(command)
        command.add_argument("--debug", action="store_true", help="show the Python traceback of an internal error")
    return parser


def _compile_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", help="an ONNX file, or an .ir file (a dumped level goes on from there)")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write (model.twm, or model.c for C)")
    parser.add_argument("--target", metavar="NAME", help="what to make code for (default: llvm)")
    parser.add_argument("--mcpu", metavar="CPU", help="the processor (default: native)")
    parser.add_argument("--mattr", metavar="LIST", help="processor features, such as +avx2,-fma")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=DIMS",
        help="the shape of an input, such as x=n,3,224,224; names are symbolic dimensions",
    )
    parser.add_argument("--dump-ir", metavar="DIR", help="write one .ir file per level into this folder")
    parser.add_argument("--timing", action="store_true", help="print the seconds of each stage")
    parser.add_argument("--print-pipeline", action="store_true", help="print the stages and their passes, and stop")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("artefact", help="a file that 'tilewright compile' wrote")
    parser.add_argument("--inputs", metavar="NPZ", help="arrays by the model's input names")
    parser.add_argument("--outputs", metavar="NPZ", help="where to write the outputs, by name")
    parser.add_argument("--fill", choices=("random", "zeros"), help="make up the inputs that are not given")
    parser.add_argument("--seed", type=_natural, default=0, help="for --fill random (default: 0)")
    parser.add_argument(
        "--dim", action="append", default=[], metavar="NAME=SIZE", help="a symbolic dimension for --fill (default: 1)"
    )
    parser.add_argument("--entry", metavar="NAME", help="the public function to run (default: the first)")
    parser.add_argument(
        "--benchmark",
        nargs="?",
        const=100,
        type=_positive,
        metavar="N",
        help="run N times (default: 100) and print median, minimum and percentiles",
    )
    parser.add_argument("--threads", type=_positive, metavar="N", help="threads to use (default: one per processor)")


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("artefact", help="a file that 'tilewright compile' wrote")
    parser.add_argument("--json", action="store_true", help="print the whole manifest")
    parser.add_argument("--kernels", action="store_true", help="list the kernels")
    parser.add_argument("--weights", action="store_true", help="list the weights")


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number, found '{text}'")
    return int(text)


def _positive(text: str) -> int:
    value = _natural(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
