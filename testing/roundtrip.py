"""``%roundtrip`` of the lit tests: text -> pretty -> generic -> pretty; all must agree, and the pretty text is printed.

    // RUN: %roundtrip %s | filecheck %s

Fails with a diff where printing and parsing disagree. Chunks between ``// -----`` lines go on their own with
``--split-input-file``.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..core.context import TilewrightContext, make_context
from ..core.diagnostics import DiagnosticError, render
from ..core.registry import default_registry
from ..core.verifier import verify
from ..text import parse_module, print_module


class RoundTripError(Exception):
    """Two texts that should be equal are not; the message is a diff."""


def roundtrip(text: str, context: TilewrightContext, filename: str = "<input>") -> str:
    """The pretty text of a module, after it went through the generic form and back."""
    module = parse_module(text, filename=filename, context=context)
    verify(module)
    pretty = print_module(module)
    generic = print_module(module, generic=True)
    _check_equal("generic -> parse -> pretty", pretty, print_module(_again(generic, "generic", context)))
    module = _again(pretty, "pretty", context)
    _check_equal("pretty -> parse -> pretty", pretty, print_module(module))
    _check_equal("pretty -> parse -> generic", generic, print_module(module, generic=True))
    return pretty


def _again(text: str, form: str, context: TilewrightContext) -> ModuleOp:
    try:
        module = parse_module(text, filename=f"<{form} form>", context=context)
        verify(module)
    except DiagnosticError as problem:
        raise RoundTripError(f"the {form} form is refused:\n{render(problem, {f'<{form} form>': text})}") from None
    return module


def _check_equal(what: str, expected: str, found: str) -> None:
    if expected != found:
        lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "expected", "found", lineterm="", n=1)
        raise RoundTripError(f"{what} differs:\n" + "\n".join(list(lines)[:60]))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="roundtrip", description=__doc__)
    parser.add_argument("input", nargs="?", default="-")
    parser.add_argument("--split-input-file", action="store_true")
    parser.add_argument("--allow-unregistered-dialect", action="store_true")
    parser.add_argument("--load-plugin", action="append", default=[])
    options = parser.parse_args(argv)
    text = sys.stdin.read() if options.input == "-" else Path(options.input).read_text(encoding="utf-8")
    chunks = text.split("// -----\n") if options.split_input_file else [text]
    registry = default_registry()
    status = 0
    try:
        for path in options.load_plugin:
            registry.load_plugin(path)
        for chunk in chunks:
            context = make_context(registry, allow_unregistered=options.allow_unregistered_dialect)
            print(roundtrip(chunk, context, options.input), end="")
    except DiagnosticError as problem:
        print(render(problem, {options.input: text}), file=sys.stderr)
        status = 1
    except RoundTripError as problem:
        print(problem, file=sys.stderr)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
