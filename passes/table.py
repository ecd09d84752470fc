"""The tables of target-independent passes and pipelines. A new pass is one line here; each name is loaded at first use.

``PASSES`` maps a pass name to ``"module:class"``; ``PIPELINES`` maps a pipeline name to its sequence of pass specs.
"""

from .pipelines import GRAPH_CLEANUP, GRAPH_OPTIMIZE, LOWER_KERNELS, LOWER_LOOPS

PASSES: dict[str, str] = {
    "convert-graph-to-te": "tilewright.passes.convert.graph_to_te.convert:ConvertGraphToTePass",
    "te-inline": "tilewright.passes.te.inline:TeInlinePass",
    "te-dce": "tilewright.passes.te.dce:TeDcePass",
    "outline-kernels": "tilewright.passes.convert.outline_kernels:OutlineKernelsPass",
    "convert-te-to-loop": "tilewright.passes.convert.te_to_loop:ConvertTeToLoopPass",
    "graph-canonicalize": "tilewright.passes.graph.canonicalize:GraphCanonicalizePass",
    "graph-fold-constants": "tilewright.passes.graph.fold_constants:GraphFoldConstantsPass",
    "graph-fold-scale": "tilewright.passes.graph.fold_scale:GraphFoldScalePass",
    "graph-simplify": "tilewright.passes.graph.simplify:GraphSimplifyPass",
    "graph-simplify-float": "tilewright.passes.graph.simplify_float:GraphSimplifyFloatPass",
    "cse": "tilewright.passes.graph.cse:CsePass",
    "dce": "tilewright.passes.graph.dce:DcePass",
    "graph-infer-shapes": "tilewright.passes.graph.infer_shapes:GraphInferShapesPass",
    "graph-choose-layout": "tilewright.passes.graph.choose_layout:GraphChooseLayoutPass",
    "graph-fuse": "tilewright.passes.graph.fuse:GraphFusePass",
    "apply-schedule": "tilewright.passes.loop.apply_schedule:ApplySchedulePass",
    "loop-compact-buffers": "tilewright.passes.loop.compact_buffers:LoopCompactBuffersPass",
    "loop-lower-blocks": "tilewright.passes.loop.lower_blocks:LoopLowerBlocksPass",
    "loop-simplify": "tilewright.passes.loop.simplify:LoopSimplifyPass",
    "loop-partition": "tilewright.passes.loop.partition:LoopPartitionPass",
    "loop-vectorize": "tilewright.passes.loop.vectorize:LoopVectorizePass",
    "loop-hoist-allocs": "tilewright.passes.loop.hoist_allocs:LoopHoistAllocsPass",
    "convert-graph-to-vm": "tilewright.passes.convert.graph_to_vm:ConvertGraphToVmPass",
    "vm-plan-memory": "tilewright.passes.vm.plan_memory:VmPlanMemoryPass",
}

PIPELINES: dict[str, tuple[str, ...]] = {
    "graph-cleanup": GRAPH_CLEANUP,
    "graph-optimize": GRAPH_OPTIMIZE,
    "lower-kernels": LOWER_KERNELS,
    "lower-loops": LOWER_LOOPS,
}
