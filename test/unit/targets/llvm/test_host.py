"""Host programs in native code, with kernels written in LLVM IR: shapes, checks, weights, memory, and many callers."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp

import tilewright
from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.pass_manager import run_pipeline
from tilewright.core.verifier import verify
from tilewright.passes.vm.weights import WeightSection
from tilewright.runtime import ExecutionError, InputError, Model, load
from tilewright.targets.base import Code, CodeSection
from tilewright.targets.llvm.codegen import compile_ir, host_machine
from tilewright.targets.llvm.emit import emit_module
from tilewright.targets.llvm.host import entry_symbol, lower_host
from tilewright.targets.llvm.runtime_ir import runtime_object
from tilewright.text import parse_module
from tilewright.tools.artefact import entries, write_artefact

# add: o = x + y over n * 4 elements. twice: the same through a workspace.
KERNELS = """
define void @add(ptr %ctx, ptr %x, ptr %y, ptr %o, i64 %n) {
entry:
  %count = mul i64 %n, 4
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %exit
body:
  %xp = getelementptr float, ptr %x, i64 %i
  %a = load float, ptr %xp
  %yp = getelementptr float, ptr %y, i64 %i
  %b = load float, ptr %yp
  %c = fadd float %a, %b
  %op = getelementptr float, ptr %o, i64 %i
  store float %c, ptr %op
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}

define void @drop(ptr %ctx, ptr %x, ptr %o, i64 %n) {
  ret void
}

define void @row(ptr %ctx, ptr %w, ptr %o, ptr %ws, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %exit
body:
  %w0 = load <4 x float>, ptr %w, align 4
  store <4 x float> %w0, ptr %ws, align 4
  %w1 = load <4 x float>, ptr %ws, align 4
  %j = mul i64 %i, 4
  %op = getelementptr float, ptr %o, i64 %j
  store <4 x float> %w1, ptr %op, align 4
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}
"""

X = "tensor<?x4xf32, #tw.enc<dims = [n]>>"
M = "memref<?x4xf32, #tw.dims<[n]>>"
DECLARATIONS = f"""
func.func private @add(%x: {M}, %y: {M}, %o: {M}, %n: index) attributes
  {{symbols = ["n"], num_inputs = 2 : i64, num_outputs = 1 : i64}}
func.func private @row(%w: memref<2x2xf32>, %o: {M}, %ws: memref<16xf32>, %n: index) attributes
  {{symbols = ["n"], num_inputs = 1 : i64, num_outputs = 1 : i64, num_workspaces = 1 : i64,
   packed = [[0 : i64, #tw.map<(d0) -> (d0 floordiv 2, d0 mod 2)>]]}}
"""
# (x + y) + w, and its view; x + y is returned as well.
MAIN = f"""
func.func @main(%x: {X} {{tw.name = "left"}}, %y: {X} {{tw.name = "right"}})
    -> (tensor<?xf32, #tw.enc<dims = [n * 4]>> {{tw.name = "flat"}}, {X} {{tw.name = "sum"}},
        {X} {{tw.name = "same"}}) {{
  %w = graph.constant dense_resource<w> : tensor<4xf32>
  %r = graph.call @row(%w) : (tensor<4xf32>) -> {X}
  %s = graph.call @add(%x, %y) : ({X}, {X}) -> {X}
  %t = graph.call @add(%s, %r) : ({X}, {X}) -> {X}
  %u = graph.reshape %t {{shape = #tw.exprs<[n * 4]>}} : ({X}) -> tensor<?xf32, #tw.enc<dims = [n * 4]>>
  func.return %u, %s, %s : tensor<?xf32, #tw.enc<dims = [n * 4]>>, {X}, {X}
}}
"""
WEIGHT = np.array([1, 10, 100, 1000], np.float32)


def build(path: Path, text: str = DECLARATIONS + MAIN, plan: str = "convert-graph-to-vm,vm-plan-memory") -> Model:
    context = make_context()
    context.resources.add(WEIGHT, "w")
    module = parse_module(text, context=context)
    run_pipeline(module, plan, context, verify_each=True)
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    weights = WeightSection.of(module)
    program = lower_host(entries(module), functions, weights.offset)
    verify(program.module)
    machine = host_machine()
    code = Code(
        {"triple": machine.triple, "cpu": machine.cpu, "features": machine.features},
        [
            CodeSection("host", "object", compile_ir(emit_module(program.module), machine)),
            CodeSection("kernels", "object", compile_ir(KERNELS, machine)),
            CodeSection("runtime", "runtime", runtime_object(machine)),
        ],
        {"main": entry_symbol("main")},
        program.messages,
    )
    write_artefact(path, module, context, code, weights, "test")
    return load(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return build(tmp_path_factory.mktemp("host") / "model.twm")


def arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(n * 4, dtype=np.float32).reshape(n, 4)
    return x, x * x


@pytest.mark.parametrize("n", [1, 7, 128])
def test_results_for_every_size(model: Model, n: int) -> None:
    x, y = arrays(n)
    flat, total, same = model(x, y)
    np.testing.assert_array_equal(flat, (x + y + WEIGHT).reshape(-1))
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(same, x + y)


def test_signature(model: Model) -> None:
    assert [str(spec) for spec in model.inputs] == ["left: float32[n, 4]", "right: float32[n, 4]"]
    outputs = ["flat: float32[n * 4]", "sum: float32[n, 4]", "same: float32[n, 4]"]
    assert [str(spec) for spec in model.outputs] == outputs


def test_sizes_that_disagree_name_both(model: Model) -> None:
    message = "dimension 'n' disagrees: input 'right' has 5 in dimension 0, input 'left' has 3 in dimension 0"
    with pytest.raises(InputError, match=message):
        model(arrays(3)[0], arrays(5)[0])
    with pytest.raises(InputError, match="input 'right' has 6 in dimension 1, expected 4"):
        model(arrays(3)[0], np.zeros((3, 6), np.float32))


def test_empty_dimensions_are_refused(model: Model) -> None:
    with pytest.raises(InputError, match="input 'left' has 0 in dimension 0, which is 'n', expected at least 1"):
        model(*arrays(0))


def test_sizes_that_would_be_negative(tmp_path: Path) -> None:
    text = """
    func.func private @drop(%x: memref<?xf32, #tw.dims<[n]>>, %o: memref<?xf32, #tw.dims<[n - 2]>>, %n: index)
      attributes {symbols = ["n"], num_inputs = 1, num_outputs = 1}
    func.func @main(%x: tensor<?xf32, #tw.enc<dims = [n]>>) -> tensor<?xf32, #tw.enc<dims = [n - 2]>> {
      %0 = graph.call @drop(%x) : (tensor<?xf32, #tw.enc<dims = [n]>>) -> tensor<?xf32, #tw.enc<dims = [n - 2]>>
      func.return %0 : tensor<?xf32, #tw.enc<dims = [n - 2]>>
    }
    """
    model = build(tmp_path / "f.twm", text)
    with pytest.raises(InputError, match="a dimension of size 'n - 2' would be -1: the inputs are too small"):
        model(np.zeros(1, np.float32))
    assert model(np.zeros(2, np.float32)).shape == (0,)


def test_no_memory_is_an_error(model: Model) -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 45, 4), (0, 0))
    entry = model.entries["main"]
    x, _ = arrays(1)
    with pytest.raises((ExecutionError, MemoryError)):
        entry(huge, x)


def test_kernels_with_equal_code_are_one_object() -> None:
    kernel = """
    func.func private @NAME(%x: memref<SHAPExf32>, %o: memref<SHAPExf32>)
      attributes {tw.kernel, symbols = [], num_inputs = 1, num_outputs = 1} {
      loop.for %i = 0 to 4 {
        %v = loop.load %x[INDEX] : memref<SHAPExf32>
        %w = arith.addf %v, %v : f32
        loop.store %w, %o[INDEX] : memref<SHAPExf32>
      }
      func.return
    }
    """
    flat = kernel.replace("NAME", "flat").replace("SHAPE", "4").replace("INDEX", "%i")
    square = kernel.replace("NAME", "square").replace("SHAPE", "1x4").replace("INDEX", "0, %i")
    main = """
    func.func @main(%x: tensor<4xf32>, %y: tensor<1x4xf32>) -> (tensor<4xf32>, tensor<1x4xf32>) {
      %0 = graph.call @flat(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = graph.call @square(%y) : (tensor<1x4xf32>) -> tensor<1x4xf32>
      func.return %0, %1 : tensor<4xf32>, tensor<1x4xf32>
    }
    """
    context = make_context()
    module = parse_module(flat + square + main, context=context)
    module.attributes["tw.stage"] = StringAttr("kernels")
    model = tilewright.compile((module, context))
    assert len({kernel["symbol"] for kernel in model.manifest["kernels"]}) == 1
    x = np.arange(4, dtype=np.float32)
    first, second = model(x, x.reshape(1, 4))
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(second, 2 * x.reshape(1, 4))


def test_many_callers(model: Model) -> None:
    wrong: list[int] = []

    def call(seed: int) -> None:
        for turn in range(50):
            x, y = arrays(1 + seed + turn)
            if not np.array_equal(model(x, y)[0], (x + y + WEIGHT).reshape(-1)):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_builds_give_equal_bytes(tmp_path: Path) -> None:
    build(tmp_path / "a.twm")
    build(tmp_path / "b.twm")
    assert (tmp_path / "a.twm").read_bytes() == (tmp_path / "b.twm").read_bytes()


def test_the_memory_must_be_planned(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match=r"'vm.alloc' op has no place yet: run vm-plan-memory first"):
        build(tmp_path / "c.twm", plan="convert-graph-to-vm")


@pytest.mark.parametrize(
    ("extent", "sizes", "message"),
    [
        ("n * 2", (6, None), None),
        ("n * 2", (7, None), "dimension 'n \\* 2' disagrees: input 'left' has 7 in dimension 0, expected 6"),
        ("n + 3", (3, None), "dimension 0 of input 'left', which is 'n \\+ 3', makes 'n' 0, expected at least 1"),
    ],
)
def test_symbols_inside_of_expressions(tmp_path: Path, extent: str, sizes: tuple[int, None], message: str) -> None:
    tensor = f"tensor<?xf32, #tw.enc<dims = [{extent}]>>"
    text = f"""
    func.func @main(%x: {tensor} {{tw.name = "left"}}) -> {tensor} {{
      func.return %x : {tensor}
    }}
    """
    model = build(tmp_path / "d.twm", text)
    x = np.arange(sizes[0], dtype=np.float32)
    if message is None:
        np.testing.assert_array_equal(model(x), x)
    else:
        with pytest.raises(InputError, match=message):
            model(x)


def test_symbols_that_cannot_be_found(tmp_path: Path) -> None:
    text = """
    func.func @main(%x: tensor<?xf32, #tw.enc<dims = [n * m]>>) -> tensor<?xf32, #tw.enc<dims = [n * m]>> {
      func.return %x : tensor<?xf32, #tw.enc<dims = [n * m]>>
    }
    """
    with pytest.raises(DiagnosticError, match=r"cannot find 'm', 'n' from input 'input0', whose dimension 0 is"):
        build(tmp_path / "e.twm", text)
