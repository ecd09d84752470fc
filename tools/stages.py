"""The compilation of a model as data: the stages from an imported model to planned host programs, in order.

Each stage is a name and the passes that lead to it; a dump writes one numbered ``.ir`` file per stage, and a
compilation resumed from such a file goes on with the next one. After the last stage the target takes over
(``Target.generate``).

What is legal after each stage is said beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type

from ..core.target import TargetInfo
from ..targets.base import Target


@dataclass(frozen=True)
class Stage:
    """A level of the compilation: ``passes`` lead there from the stage before."""

    name: str
    passes: tuple[str, ...]
    after: str
    """What holds after it, in one line."""
    border: bool = True
    """Whether the module is verified here even if nothing is dumped: where it comes in, and before code is made of it.
    A dump verifies every stage."""


def stages(target: Target, info: TargetInfo) -> tuple[Stage, ...]:
    """All stages for a target."""
    block = info.vector_lanes(Float32Type())
    return (
        Stage("import", (), "graph ops as the model has them, weights by reference"),
        Stage(
            "graph",
            (
                "graph-cleanup",
                "graph-fold-scale",
                "graph-cleanup",
                f"graph-choose-layout{{block={block}}}",
                "cse",
                "dce",
            ),
            "simplified graph ops, activations in the layouts that kernels want",
            border=False,
        ),
        Stage("fused", ("graph-fuse", "cse", "dce"), "every computing op is in a graph.kernel", border=False),
        Stage(
            "te",
            ("convert-graph-to-te", "te-inline", "outline-kernels"),
            "kernels are functions of te ops",
            border=False,
        ),
        Stage("loop", ("convert-te-to-loop",), "kernels are plain loop nests on memrefs", border=False),
        Stage("schedule", target.schedule_passes(info), "each kernel has a schedule beside it", border=False),
        Stage("scheduled", ("apply-schedule",), "loop order, tiles, vectors and threads are decided", border=False),
        Stage(
            "kernels", target.kernel_passes(info), "kernels are what the target's code generation takes", border=False
        ),
        Stage("host", ("convert-graph-to-vm", "vm-plan-memory"), "public functions are planned host programs"),
    )


def print_stages(all_stages: tuple[Stage, ...]) -> str:
    """The pipeline for people, one stage a line."""
    return "\n".join(f"{i:02} {s.name:10} {','.join(s.passes) or '-'}" for i, s in enumerate(all_stages))
