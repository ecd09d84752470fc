"""``tilewright compile``."""

from __future__ import annotations

import argparse
import sys
from types import TracebackType
from typing import Any

from ..compilation import Reporter, Timings
from ..driver import compile as compile_model
from ..driver import pipeline_text


def run(arguments: argparse.Namespace) -> int:
    """Compile one model; the artefact appears when it is complete."""
    if arguments.print_pipeline:
        print(pipeline_text(arguments.target or "llvm", arguments.mcpu, arguments.mattr))
        return 0
    timings = Timings()
    with ProgressReporter(enabled=not arguments.quiet and sys.stderr.isatty()) as reporter:
        compile_model(
            arguments.model,
            output=arguments.output,
            target=arguments.target,
            mcpu=arguments.mcpu,
            mattr=arguments.mattr,
            shapes=dict(map(_shape, arguments.shape)),
            dump_ir=arguments.dump_ir,
            reporter=reporter,
            timings=timings,
        )
    if arguments.timing:
        print(timings.text(), file=sys.stderr)
    return 0


def _shape(text: str) -> tuple[str, list[int | str]]:
    """``x=n,3,224`` is ``("x", ["n", 3, 224])``."""
    from ...runtime.errors import TilewrightError

    name, equals, dims = text.partition("=")
    words = [word.strip() for word in dims.split(",")] if dims.strip() else []
    if not equals or not name or not all(_is_number(word) or word.isidentifier() for word in words):
        raise TilewrightError(f"--shape takes INPUT=DIMS, such as x=n,3,224,224, found '{text}'")
    return name, [int(word) if _is_number(word) else word for word in words]


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


class ProgressReporter(Reporter):
    """A line on the terminal that says what is being done."""

    def __init__(self, enabled: bool) -> None:
        self._status: Any = None
        if enabled:
            from rich.console import Console

            self._status = Console(stderr=True).status("import")

    def stage(self, name: str) -> None:
        if self._status is not None:
            self._status.update(name)

    def progress(self, what: str, done: int, total: int) -> None:
        if self._status is not None:
            self._status.update(f"{what} {done}/{total}")

    def __enter__(self) -> ProgressReporter:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
