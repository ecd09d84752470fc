"""The tables of target-independent passes and pipelines. A new pass is one line here; each name is loaded at first use.

``PASSES`` maps a pass name to ``"module:class"``; ``PIPELINES`` maps a pipeline name to its sequence of pass specs.
"""

PASSES: dict[str, str] = {
    "graph-choose-layout": "tilewright.passes.graph.choose_layout:GraphChooseLayoutPass",
    "graph-fuse": "tilewright.passes.graph.fuse:GraphFusePass",
}

PIPELINES: dict[str, tuple[str, ...]] = {}
