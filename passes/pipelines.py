"""The target-independent pipelines, as data: what runs on a model, in order, before a target takes over.

``tilewright-opt -p <name>`` runs one; a pipeline may name another one. What is legal after each is said beneath it.
Pipelines of targets are in ``targets/<name>/pipeline.py``.
"""

from __future__ import annotations

GRAPH_CLEANUP: tuple[str, ...] = (
    "graph-infer-shapes",
    "graph-canonicalize",
    "graph-simplify",
    "graph-fold-constants",
    "cse",
    "dce",
)
"""Keeps every result bit by bit. After it: no operation on constants alone, but for large generated ones."""


def graph_optimize(block: int = 16) -> tuple[str, ...]:
    """From an imported model to kernels, for a target of ``block`` vector lanes.

    After it: every operation that computes is in a ``graph.kernel``.
    """
    return (
        "graph-cleanup",
        "graph-fold-scale",
        "graph-cleanup",
        f"graph-choose-layout{{block={block}}}",
        "graph-fuse",
        "cse",
        "dce",
    )


GRAPH_OPTIMIZE: tuple[str, ...] = graph_optimize()

LOWER_KERNELS: tuple[str, ...] = (
    "convert-graph-to-te",
    "te-inline",
    "te-dce",
    "outline-kernels",
    "convert-te-to-loop",
)
"""From fused graph ops to functions of plain loop nests.

After it: every kernel is a private function on memrefs, called by ``graph.call``; nothing is scheduled.
"""

LOWER_LOOPS: tuple[str, ...] = (
    "apply-schedule",
    "loop-compact-buffers",
    "loop-lower-blocks",
    "loop-simplify",
    "loop-partition",
    "loop-simplify",
    "loop-vectorize",
    "loop-simplify",
    "loop-hoist-allocs",
)
"""From plain nests and their schedules to what targets consume.

After it: no blocks, no vectorised loops, no global allocations; guards only where no bound could be computed.
"""
