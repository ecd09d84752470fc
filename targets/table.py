"""The tables of targets, their passes and pipelines: ``"name": "module:object"``, loaded at first use."""

TARGETS: dict[str, str] = {
    "llvm": "tilewright.targets.llvm.host_target:LLVM_TARGET",
    "c": "tilewright.targets.c.pipeline:C_TARGET",
}

PASSES: dict[str, str] = {
    "attach-schedules": "tilewright.targets.llvm.schedules.attach:AttachSchedulesPass",
    "attach-c-schedules": "tilewright.targets.c.schedules:AttachCSchedulesPass",
    "convert-loop-to-c": "tilewright.targets.c.lower:ConvertLoopToCPass",
    "convert-loop-to-llvm": "tilewright.targets.llvm.lower:ConvertLoopToLLVMPass",
}

PIPELINES: dict[str, tuple[str, ...]] = {}
