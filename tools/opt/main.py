"""``tilewright-opt``: reads ``.ir``, runs passes, prints ``.ir``; for people and for tests.

The command line only; what it does is in ``driver``. Nothing of the compiler is imported before the arguments are
known, so that ``--version`` and ``--help`` are immediate. Exit status: 0, 1 after a diagnostic, 2 for a wrong command
line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

EPILOG = """\
examples:
  tilewright-opt model.ir -p "graph-canonicalize,graph-fuse"
  tilewright-opt kernel.ir -p "func.func(loop-simplify),cse" --print-ir-after-all
  tilewright-opt invalid.ir --split-input-file --verify-diagnostics
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright-opt",
        description="Read .ir text, run passes, print .ir text.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", help="input file; '-' (the default) is standard input")
    add("-o", metavar="FILE", dest="output", default="-", help="output file (default: standard output)")
    add("-p", "--pass-pipeline", metavar="PIPELINE", default="", help='e.g. "cse,func.func(dce),pass{option=value}"')
    add("--split-input-file", action="store_true", help="treat chunks between '// -----' lines as files of their own")
    add("--verify-diagnostics", action="store_true", help="check 'expected-error@+1 {{text}}' comments")
    add("--generic", "--print-op-generic", action="store_true", help="print all operations in the generic form")
    add("--locations", action="store_true", help="print locations")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations of unknown dialects")
    add("--no-verify", action="store_true", help="do not verify, neither the input nor between passes")
    add("--resources", metavar="FILE", help="weights (safetensors); default: beside the input, if its text needs them")
    add("--save-resources", metavar="FILE", help="write the weights that the output refers to")
    add("--load-plugin", metavar="FILE", action="append", default=[], help="Python file with register(registry)")
    add("--reproducer", metavar="FILE", help="on failure, write the IR before the failing pass and the rest to run")
    add("--print-ir-before", metavar="PASSES", default="", help="print the IR before these passes (comma separated)")
    add("--print-ir-after", metavar="PASSES", default="", help="print the IR after these passes")
    add("--print-ir-before-all", action="store_true", help="print the IR before every pass")
    add("--print-ir-after-all", action="store_true", help="print the IR after every pass")
    add("--timing", action="store_true", help="print the time of parsing, each pass and printing")
    add("--list-passes", action="store_true", help="list all passes and pipelines with their options, and stop")
    add("--list-dialects", action="store_true", help="list all dialects, and stop")
    add("--debug", action="store_true", help="show the Python traceback of an internal error")
    add("--version", action="store_true", help="print the version, and stop")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script."""
    options = make_parser().parse_args(argv)
    if options.version:
        from ... import __version__

        print(f"tilewright-opt {__version__}")
        return 0
    try:
        from .driver import run

        return run(options)
    except BrokenPipeError:
        # Whoever read our output has seen enough; closing the descriptor keeps Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
