"""What watches a pass pipeline: printing the IR, timing, reproducers.

Core cannot print IR (the text layer is above it), so whoever prints passes a function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.ir import Operation

if TYPE_CHECKING:
    from .passes import Pass

PrintOp = Callable[[Operation], str]


class Instrumentation:
    """Called around every pass; all methods do nothing here."""

    def start_of_rest(self, pipeline: str, module: Operation) -> None:
        """Before each element of the pipeline, with the text of what is still to run."""

    def before(self, item: Pass, op: Operation) -> None: ...

    def verifying(self, item: Pass) -> None: ...

    def after(self, item: Pass, op: Operation) -> None: ...

    def failed(self, item: Pass, op: Operation, problem: Exception) -> None: ...

    def finished(self, module: Operation) -> None: ...


@dataclass
class PrintIR(Instrumentation):
    """Prints the IR around the named passes (``None`` is all of them), under ``// -----// IR Dump After name //-----
    //``.
    """

    print_op: PrintOp
    write: Callable[[str], object]
    before_passes: Collection[str] | None = ()
    after_passes: Collection[str] | None = ()

    def before(self, item: Pass, op: Operation) -> None:
        self._dump("Before", item, op, self.before_passes)

    def after(self, item: Pass, op: Operation) -> None:
        self._dump("After", item, op, self.after_passes)

    def failed(self, item: Pass, op: Operation, problem: Exception) -> None:
        if self.after_passes is None or item.name in self.after_passes:
            self._dump("After Failure of", item, op, None)

    def _dump(self, when: str, item: Pass, op: Operation, chosen: Collection[str] | None) -> None:
        if chosen is None or item.name in chosen:
            where = "" if op.parent is None else f" ('{op.name}' operation)"
            self.write(f"// -----// IR Dump {when} {item.name}{where} //----- //\n{self.print_op(op).rstrip()}\n")


@dataclass
class Timing(Instrumentation):
    """Wall time of each pass, and of verification inside of it, as a table in the order of first runs."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    _started: float = 0.0
    _verify_started: float | None = None

    def before(self, item: Pass, op: Operation) -> None:
        self._verify_started = None
        self._started = time.perf_counter()

    def verifying(self, item: Pass) -> None:
        self._verify_started = time.perf_counter()

    def after(self, item: Pass, op: Operation) -> None:
        now = time.perf_counter()
        entry = self.seconds.setdefault(item.name, [0.0, 0.0, 0.0])
        entry[0] += (self._verify_started or now) - self._started
        entry[1] += 0.0 if self._verify_started is None else now - self._verify_started
        entry[2] += 1

    def report(self) -> str:
        """The table: seconds, share, runs, name."""
        total = sum(run + check for run, check, _ in self.seconds.values())
        lines = ["===-- Pass execution timing --===", f"  total {total:.4f} s"]
        lines.append("   seconds   share   verify    runs  pass")
        for name, (run, check, count) in self.seconds.items():
            share = 100 * (run + check) / total if total else 0.0
            lines.append(f"  {run:8.4f}  {share:5.1f}%  {check:7.4f}  {int(count):6d}  {name}")
        return "\n".join(lines)


@dataclass
class Reproducer(Instrumentation):
    """On failure, writes the module as it was before the failing pass, with the pipeline that was still to run."""

    print_op: PrintOp
    write: Callable[[str], object]
    _text: str = ""

    def start_of_rest(self, pipeline: str, module: Operation) -> None:
        self._text = f'// reproduce with: tilewright-opt -p "{pipeline}"\n{self.print_op(module)}'

    def failed(self, item: Pass, op: Operation, problem: Exception) -> None:
        first_line = str(problem).partition("\n")[0]
        self.write(f"// pass '{item.name}' failed: {first_line}\n{self._text.rstrip()}\n")
