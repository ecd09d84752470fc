"""The table of dialects: ``"name": "module:object"``, loaded at first use. A new dialect is one line here."""

DIALECTS: dict[str, str] = {
    "tw": "tilewright.core.attributes:TW",
    "graph": "tilewright.dialects.graph.ops:GRAPH",
    "te": "tilewright.dialects.te.ops:TE",
    "loop": "tilewright.dialects.loop.ops:LOOP",
    "vm": "tilewright.dialects.vm.ops:VM",
    "tllvm": "tilewright.targets.llvm.dialect:TLLVM",
    "c": "tilewright.targets.c.dialect:C",
    "schedule": "tilewright.dialects.schedule.ops:SCHEDULE",
}
