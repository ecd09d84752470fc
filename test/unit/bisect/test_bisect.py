"""Bisecting in process and as a command: inputs, entries, references, code generation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

import tilewright
from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.passes import ModulePass
from tilewright.core.pipeline import build_pipeline
from tilewright.dialects.graph.elementwise import ReluOp
from tilewright.dialects.loop.ops import StoreOp
from tilewright.targets.llvm import lower_ops
from tilewright.testing import onnx_models
from tilewright.text import parse_module, print_module
from tilewright.tools.bisect import bisect, reproduce
from tilewright.tools.bisect.main import FOUND, main
from tilewright.tools.bisect.program import Inputs, entry_function, parse_shapes
from tilewright.tools.bisect.reproducer import sound_run
from tilewright.tools.bisect.runs import array_difference

CLAMP = """
func.func @main(%x: tensor<?x3xf32, #tw.enc<dims = [n]>> {tw.name = "x"}) -> tensor<?x3xf32, #tw.enc<dims = [n]>> {
  %0 = graph.exp %x : (tensor<?x3xf32, #tw.enc<dims = [n]>>) -> tensor<?x3xf32, #tw.enc<dims = [n]>>
  %1 = graph.relu %0 : (tensor<?x3xf32, #tw.enc<dims = [n]>>) -> tensor<?x3xf32, #tw.enc<dims = [n]>>
  %2 = graph.relu %x : (tensor<?x3xf32, #tw.enc<dims = [n]>>) -> tensor<?x3xf32, #tw.enc<dims = [n]>>
  %3 = graph.add %1, %2 : (tensor<?x3xf32, #tw.enc<dims = [n]>>, tensor<?x3xf32, #tw.enc<dims = [n]>>)
      -> tensor<?x3xf32, #tw.enc<dims = [n]>>
  func.return %3 : tensor<?x3xf32, #tw.enc<dims = [n]>>
}
"""

KERNEL = """
func.func @k(%x: memref<?x4xf32, #tw.dims<[n]>>, %out: memref<?x4xf32, #tw.dims<[n]>>, %n: index) attributes {tw.kernel,
    constant_args = [], num_inputs = 1 : i64, num_outputs = 1 : i64, symbols = ["n"]} {
  %t = loop.alloc "t" global : memref<?x4xf32, #tw.dims<[n]>>
  loop.for %i = 0 to %n {
    loop.for %j = 0 to 4 {
      loop.block "t" spatial(%vi in %n = %i, %vj in 4 = %j) {
        %a = loop.load %x[%vi, %vj] : memref<?x4xf32, #tw.dims<[n]>>
        %e = math.exp %a : f32
        loop.store %e, %t[%vi, %vj] : memref<?x4xf32, #tw.dims<[n]>>
      }
    }
  }
  loop.for %i = 0 to %n {
    loop.for %j = 0 to 4 {
      loop.block "out" spatial(%vi in %n = %i, %vj in 4 = %j) {
        %a = loop.load %t[%vi, %vj] : memref<?x4xf32, #tw.dims<[n]>>
        loop.store %a, %out[%vi, %vj] : memref<?x4xf32, #tw.dims<[n]>>
      }
    }
  }
  func.return
}
"""


def load(text: str) -> tuple[ModuleOp, TilewrightContext]:
    context = make_context()
    return parse_module(text, filename="program.ir", context=context), context


@dataclass(frozen=True)
class WithoutRelu(ModulePass):
    """Drops every relu."""

    name = "test-without-relu"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, ReluOp):
                Rewriter.replace_op(inner, [], [inner.operands[0]])


@dataclass(frozen=True)
class WithoutLastStore(ModulePass):
    """Drops the last store of a module."""

    name = "test-without-last-store"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        stores = [inner for inner in op.walk() if isinstance(inner, StoreOp)]
        if stores:
            Rewriter.erase_op(stores[-1])


def with_passes(context: TilewrightContext) -> TilewrightContext:
    for cls in (WithoutRelu, WithoutLastStore):
        context.registry.add_pass(cls)
    return context


def test_a_reproducer_that_needs_its_inputs_says_so() -> None:
    module, context = load(CLAMP)
    with_passes(context)
    x = -np.ones((2, 3), np.float32)
    positive = Inputs({"x": np.abs(x)})
    assert bisect(module, context, "test-without-relu", positive) is None
    finding = bisect(module, context, "cse,test-without-relu", Inputs({"x": x}))
    assert finding is not None
    assert (finding.kind, finding.index, finding.pass_name) == ("values", 1, "test-without-relu")
    assert finding.departure is not None
    assert finding.departure.place == ("program.ir:6:8",)
    small = reproduce(finding, context, Inputs({"x": x}))
    assert small.ops <= 3
    assert not small.needs_inputs  # random ones are negative, too


def test_inputs_that_a_seed_does_not_make_are_kept() -> None:
    module, context = load(CLAMP.replace("graph.relu %x", "graph.relu %0"))
    with_passes(context)
    shift = "graph.constant dense<100.0> : tensor<3xf32>"
    text = print_module(module).replace("graph.exp %x :", f"{shift}\n    %s = graph.add %x, %0 :")
    text = text.replace("[n]>>) -> tensor<?x3xf32", "[n]>>, tensor<3xf32>) -> tensor<?x3xf32", 1)
    module = parse_module(text.replace("graph.relu %0", "graph.relu %s"), filename="program.ir", context=context)
    assert bisect(module, context, "test-without-relu") is None
    given = Inputs({"x": np.full((2, 3), -300, np.float32)})
    finding = bisect(module, context, "test-without-relu", given)
    assert finding is not None
    small = reproduce(finding, context, given)
    assert small.needs_inputs
    assert small.ops <= 5


def test_symbolic_dimensions_come_from_inputs_or_from_the_caller() -> None:
    module, _ = load(CLAMP)
    function = entry_function(module)
    assert Inputs(dims={"n": 5}).make(function)[0].shape == (5, 3)
    assert Inputs({"x": np.zeros((7, 3), np.float32)}).make(function)[0].shape == (7, 3)
    assert np.array_equal(Inputs(seed=3).make(function)[0], Inputs(seed=3).make(function)[0])
    with pytest.raises(DiagnosticError, match="float64 of rank 2, expected float32 of rank 2"):
        Inputs({"x": np.zeros((7, 3))}).check(function)


def test_kernels_are_entries_and_may_get_workspaces() -> None:
    module, context = load(KERNEL)
    with_passes(context)
    passes = "loop-lower-blocks,loop-simplify,loop-hoist-allocs"
    assert bisect(module, context, passes, Inputs(dims={"n": 3})) is None
    finding = bisect(module, context, f"{passes},test-without-last-store", Inputs(dims={"n": 3}))
    assert finding is not None
    assert finding.pass_name == "test-without-last-store"
    small = reproduce(finding, context, Inputs(dims={"n": 3}))
    assert small.ops <= 5, print_module(small.module)


def test_programs_that_mean_nothing_are_no_reproducers() -> None:
    context = make_context()
    entry = """
      func.func @main() -> tensor<4xf32> {
        %0 = graph.call @k() : () -> tensor<4xf32>
        func.return %0 : tensor<4xf32>
      }"""
    kernel = """
      func.func private @k(%out: memref<4xf32>) attributes {{tw.kernel}} {{
        %a = arith.constant 1.0 : f32
        loop.for %i = 0 to {extent} {kind} {{
          loop.store %a, %out[{index}] : memref<4xf32>
        }}
        func.return
      }}"""
    texts = {
        "fine": kernel.format(extent=4, kind="vectorized", index="%i"),
        "not all written": kernel.format(extent=3, kind="vectorized", index="%i"),
        "out of bounds": kernel.format(extent=5, kind="", index="%i"),
    }
    sound = {
        name: sound_run(parse_module(entry + text, context=context), context, Inputs(), "main") is not None
        for name, text in texts.items()
    }
    assert sound == {"fine": True, "not all written": False, "out of bounds": False}


def test_differences_are_those_of_check_pass() -> None:
    one = np.ones(3, np.float32)
    assert array_difference(one, one * np.float32(1 + 5e-5)) is None
    found = array_difference(one * 2, one)
    assert found is not None
    assert found.ratio > 1000
    assert "(3 of 3 elements differ)" in str(found)
    assert array_difference(np.array([np.nan]), np.array([np.nan])) is None
    assert array_difference(np.array([np.nan]), np.array([1.0])) is not None
    assert array_difference(np.array([1, 2]), np.array([1, 3])) is not None
    assert "has shape [1], expected [2]" in str(array_difference(np.zeros(1), np.zeros(2)))


def save_model(folder: Path) -> Path:
    """y = relu(x @ w) - x @ w."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "product"),
        helper.make_node("Relu", ["h"], ["r"], "clamp"),
        helper.make_node("Sub", ["r", "h"], ["y"], "difference"),
    ]
    weight = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    made = onnx_models.model(nodes, [onnx_models.value("x", ["batch", 4])], weights={"w": weight})
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_a_model_against_another_runtime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_model(tmp_path)
    command = [str(path), "--dim", "batch=3", "--reference", "onnxruntime", "--no-code", "-q"]
    assert main(command) == 0
    assert "keep the result of 'main'" in capsys.readouterr().out


def test_wrong_code_is_named_and_the_program_reduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_model(tmp_path)
    for table in [v for v in vars(lower_ops).values() if isinstance(v, dict) and "arith.subf" in v]:
        monkeypatch.setitem(table, "arith.subf", table["arith.addf"])
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "")
    assert main([str(path), "-q"]) == FOUND
    said = capsys.readouterr().out
    assert "code generation for llvm changes the result: result 'y'" in said
    reproducer = path.with_suffix(".repro.ir").read_text()
    assert "graph.sub" in reproducer
    assert "graph.matmul" not in reproducer
    assert main([str(path.with_suffix(".repro.ir")), "--no-reproducer", "-q"]) == FOUND
    monkeypatch.undo()
    assert main([str(path.with_suffix(".repro.ir")), "-q"]) == 0


def test_a_dumped_level_goes_on_from_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_model(tmp_path)
    tilewright.compile(path, output=tmp_path / "m.twm", dump_ir=tmp_path / "levels")
    assert main([str(tmp_path / "levels" / "06_scheduled.ir"), "--no-code", "-q"]) == 0
    count = int(capsys.readouterr().out.split()[1])
    context = make_context()
    target: Any = context.registry.resolve("target", "llvm")
    passes = build_pipeline(target.kernel_passes(target.machine(None, None)), context.registry)
    assert count == len(passes) + 2
    assert main([str(tmp_path / "levels" / "09_llvm.ir"), "-q"]) == 1
    assert "give them with -p" in capsys.readouterr().err


def test_shapes_of_the_command_line() -> None:
    assert parse_shapes(["x=n,3,8"]) == {"x": ["n", 3, 8]}
    with pytest.raises(DiagnosticError, match="found 'x'"):
        parse_shapes(["x"])
