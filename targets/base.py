"""What a target is to the rest of the compiler: a few lines of data and one function.

A target is a folder; its line in ``table.py`` names an object with the interface of :class:`Target`. The
driver runs the passes that it lists on the kernels and the host program, then asks it for code. What comes
back goes into an artefact without anybody looking into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from xdsl.dialects.builtin import ModuleOp

from ..core.context import TilewrightContext
from ..core.target import TargetInfo
from ..passes.vm.weights import WeightSection

Progress = Callable[[str, int, int], None]
"""Called with what is being made, how many are done, and how many there are."""


@dataclass(frozen=True)
class CodeSection:
    """One run of code: ``kind`` is ``object`` (linked by the loader), ``runtime`` (the thread pool),
    ``source``...
    """

    name: str
    kind: str
    data: bytes


@dataclass
class Code:
    """What a target makes of a module."""

    target: dict[str, Any]
    """``triple``, ``cpu``, ``features``: what the loader compares with the machine."""
    sections: list[CodeSection] = field(default_factory=list)
    entry_symbols: dict[str, str] = field(default_factory=dict)
    """The linker's name of each public function."""
    messages: list[str] = field(default_factory=list)
    """The messages of failed checks by site number."""
    kernels: list[dict[str, Any]] = field(default_factory=list)
    """For people: name, symbol and code size of each kernel."""
    lowered: ModuleOp | None = None
    """The module with its code in the target's final dialect; there only when it was asked for. ``generate`` takes it
    again, so that a compilation can be resumed from there."""
    write: Callable[[str | os.PathLike[str]], None] | None = None
    """Writes the output, for targets whose output is not an artefact that the runtime loads."""


class Target(Protocol):
    """A hardware target."""

    name: str
    level: str
    """The name of the target's final dialect level, as dumps call it."""

    def machine(self, mcpu: str | None, mattr: str | None) -> TargetInfo:
        """The machine that ``--mcpu`` and ``--mattr`` name, as passes see it; this one if nothing is given."""

    def schedule_passes(self, info: TargetInfo) -> tuple[str, ...]:
        """What gives the unscheduled loops of kernels their schedules."""

    def kernel_passes(self, info: TargetInfo) -> tuple[str, ...]:
        """What runs on the scheduled loops of kernels: from blocks to what ``generate`` takes."""

    def generate(
        self,
        module: ModuleOp,
        context: TilewrightContext,
        info: TargetInfo,
        weights: WeightSection,
        progress: Progress,
        keep_lowered: bool = False,
    ) -> Code:
        """Code for the kernels and host programs of a module whose memory is planned (or which was lowered before)."""
