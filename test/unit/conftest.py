"""A small artefact whose entry is written by hand in LLVM IR: ``y = x * w[0]`` for x and z of n elements each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ENTRY = """
%tensor = type { ptr, i64, ptr }
declare void @scale(ptr, ptr, ptr, ptr, i64)

define i32 @tw_entry_main(ptr %ctx, ptr %weights, ptr %inputs, ptr %outputs, ptr %error) {
entry:
  %xs.p = getelementptr %tensor, ptr %inputs, i64 0, i32 2
  %xs = load ptr, ptr %xs.p
  %n = load i64, ptr %xs
  %zs.p = getelementptr %tensor, ptr %inputs, i64 1, i32 2
  %zs = load ptr, ptr %zs.p
  %m = load i64, ptr %zs
  %same = icmp eq i64 %n, %m
  br i1 %same, label %run, label %refuse
refuse:
  store i64 1, ptr %error
  %site = getelementptr i64, ptr %error, i64 1
  store i64 0, ptr %site
  %a = getelementptr i64, ptr %error, i64 2
  store i64 %n, ptr %a
  %b = getelementptr i64, ptr %error, i64 3
  store i64 %m, ptr %b
  ret i32 1
run:
  %allocate.p = getelementptr ptr, ptr %ctx, i64 2
  %allocate = load ptr, ptr %allocate.p
  %bytes = mul i64 %n, 4
  %y = call ptr %allocate(ptr %ctx, i64 %bytes)
  store ptr %y, ptr %outputs
  %ys.p = getelementptr %tensor, ptr %outputs, i64 0, i32 2
  %ys = load ptr, ptr %ys.p
  store i64 %n, ptr %ys
  %x = load ptr, ptr %inputs
  call void @scale(ptr %ctx, ptr %x, ptr %weights, ptr %y, i64 %n)
  ret i32 0
}
"""

KERNEL = """
define void @scale(ptr %ctx, ptr %x, ptr %w, ptr %y, i64 %n) {
entry:
  %s = load float, ptr %w
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %exit
body:
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %r = fmul float %v, %s
  %q = getelementptr float, ptr %y, i64 %i
  store float %r, ptr %q
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}
"""


@pytest.fixture(scope="session")
def images() -> dict[str, bytes]:
    from tilewright.targets.llvm.codegen import compile_ir, host_machine
    from tilewright.targets.llvm.runtime_ir import runtime_object

    machine = host_machine()
    return {
        "entry": compile_ir(ENTRY, machine),
        "kernel": compile_ir(KERNEL, machine),
        "runtime": runtime_object(machine),
    }


@pytest.fixture
def write_artefact(images: dict[str, bytes], tmp_path: Path) -> Callable[..., Path]:
    """Writes the artefact; keyword arguments replace parts of the manifest."""
    from tilewright.runtime.container import PAGE, ArtefactWriter
    from tilewright.targets.llvm.codegen import host_machine

    def write(name: str = "model.twm", factor: float = 2.0, **changes: Any) -> Path:
        machine = host_machine()
        vector = [{"name": "x", "dtype": "float32", "shape": ["n"]}, {"name": "z", "dtype": "float32", "shape": ["n"]}]
        manifest = {
            "context_version": 1,
            "producer": "a test",
            "kernels": [{"name": "scale", "symbol": "scale", "bytes": len(images["kernel"]), "calls": 1}],
            "weights": [{"name": "w", "offset": 0, "size": 64, "dtype": "float32", "shape": [16]}],
            "target": {"triple": machine.triple, "cpu": machine.cpu, "features": machine.features},
            "entries": [
                {
                    "name": "main",
                    "symbol": "tw_entry_main",
                    "inputs": vector,
                    "outputs": [{"name": "y", "dtype": "float32", "shape": ["n"]}],
                }
            ],
            "errors": ["dimension 'n' disagrees: input 'x' has {a}, input 'z' has {b}"],
            **changes,
        }
        path = tmp_path / name
        with ArtefactWriter(path) as writer:
            writer.add("host", "object", [images["entry"]])
            writer.add("kernel", "object", [images["kernel"]])
            writer.add("runtime", "runtime", [images["runtime"]])
            writer.add("weights", "weights", [np.full(16, factor, np.float32)], align=PAGE)
            writer.finish(manifest)
        return path

    return write
