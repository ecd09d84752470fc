"""Random models as host programs: the conversion, the memory plan and native code keep every result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter

import tilewright
from tilewright.core.context import make_context
from tilewright.core.pass_manager import run_pipeline
from tilewright.dialects.vm.ops import PlaceOp
from tilewright.interp.interpreter import Interpreter
from tilewright.testing.check_pass import TOLERANCES, check_pass
from tilewright.testing.strategies.graph import GraphProgram, smooth_graph_programs

SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
KERNELS = "graph-fuse,convert-graph-to-te,te-inline,outline-kernels,convert-te-to-loop"
FINAL = "loop-compact-buffers,loop-lower-blocks,loop-simplify,loop-hoist-allocs"


def kernels_of(program: GraphProgram, passes: str = KERNELS) -> GraphProgram:
    """The program with its computing ops in kernels of loops."""
    module = program.module.clone()
    run_pipeline(module, passes, program.context)
    return GraphProgram(module, program.context, program.inputs)


def assert_close(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        relative, absolute = TOLERANCES.get(theirs.dtype.name, (0.0, 0.0))
        np.testing.assert_allclose(ours, theirs, rtol=relative, atol=absolute)


@SETTINGS
@given(smooth_graph_programs())
def test_convert_graph_to_vm(program: GraphProgram) -> None:
    kernels = kernels_of(program)
    result = check_pass("convert-graph-to-vm", kernels.module, program.inputs, context=program.context)
    assert result.changed


@SETTINGS
@given(smooth_graph_programs())
def test_vm_plan_memory(program: GraphProgram) -> None:
    kernels = kernels_of(program, f"{KERNELS},{FINAL},convert-graph-to-vm")
    check_pass("vm-plan-memory", kernels.module, program.inputs, context=program.context, exact=True)


@settings(SETTINGS, max_examples=8)
@given(smooth_graph_programs())
def test_native_code_equals_the_interpreter(program: GraphProgram) -> None:
    model = tilewright.compile((program.module.clone(), program.context))
    outputs = model(*program.inputs)
    assert_close(list(outputs) if isinstance(outputs, tuple) else [outputs], program.run())


def test_a_plan_whose_buffers_overlap_is_caught() -> None:
    """The property sees a wrong plan: with all tensors in one place the result changes."""
    text = """
    func.func private @k(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tw.kernel} {
      %0 = arith.constant 0 : index
      loop.for %i = 0 to 4 {
        %v = loop.load %x[%i] : memref<4xf32>
        %w = arith.addf %v, %v : f32
        loop.store %w, %o[%i] : memref<4xf32>
      }
      func.return
    }
    func.func private @add(%x: memref<4xf32>, %y: memref<4xf32>, %o: memref<4xf32>) attributes {tw.kernel} {
      loop.for %i = 0 to 4 {
        %v = loop.load %x[%i] : memref<4xf32>
        %u = loop.load %y[%i] : memref<4xf32>
        %w = arith.addf %v, %u : f32
        loop.store %w, %o[%i] : memref<4xf32>
      }
      func.return
    }
    func.func @main(%x: memref<4xf32>) -> memref<4xf32> {
      %o = vm.output 0() : memref<4xf32>
      %a = vm.alloc() : memref<4xf32>
      vm.call @k(%x, %a) : memref<4xf32>, memref<4xf32>
      %b = vm.alloc() : memref<4xf32>
      vm.call @k(%a, %b) : memref<4xf32>, memref<4xf32>
      vm.call @add(%a, %b, %o) : memref<4xf32>, memref<4xf32>, memref<4xf32>
      vm.return %o : memref<4xf32>
    }
    """
    from tilewright.text import parse_module

    context = make_context()
    module = parse_module(text, context=context)
    x = np.arange(4, dtype=np.float32)
    run_pipeline(module, "vm-plan-memory", context)
    np.testing.assert_array_equal(Interpreter(module, context).call("main", [x])[0], 6 * x)
    everything_at_zero(module)
    assert not np.array_equal(Interpreter(module, context).call("main", [x])[0], 6 * x)


def everything_at_zero(module: ModuleOp) -> None:
    from tilewright.core.attributes import IndexMapAttr

    for function in module.ops:
        if isinstance(function, FuncOp):
            for op in [op for op in function.walk() if isinstance(op, PlaceOp)]:
                moved = PlaceOp(op.storage, IndexMapAttr(0, [0]), [], list(op.sizes), op.result.type)
                Rewriter.replace_op(op, moved)


@pytest.mark.parametrize("n", [1, 5])
@settings(SETTINGS, max_examples=5)
@given(data=st.data())
def test_weights_reach_native_code_packed(n: int, data: st.DataObject) -> None:
    """A constant that a kernel wants packed arrives in that order."""
    rows, columns, block = (data.draw(st.integers(1, 9)) for _ in range(3))
    blocks = -(-columns // block)
    text = f"""
    func.func private @k(%w: memref<{blocks}x{rows}x{block}xf32>, %o: memref<{blocks}x{rows}x{block}xf32>)
        attributes {{tw.kernel, num_inputs = 1, num_outputs = 1, symbols = [],
                     packed = [[0, #tw.map<(d0, d1) -> (d1 floordiv {block}, d0, d1 mod {block})>]]}} {{
      loop.for %i = 0 to {blocks} {{
        loop.for %j = 0 to {rows} {{
          loop.for %k = 0 to {block} {{
            %v = loop.load %w[%i, %j, %k] : memref<{blocks}x{rows}x{block}xf32>
            loop.store %v, %o[%i, %j, %k] : memref<{blocks}x{rows}x{block}xf32>
          }}
        }}
      }}
      func.return
    }}
    func.func @main() -> tensor<{blocks}x{rows}x{block}xf32> {{
      %w = graph.constant dense_resource<w> : tensor<{rows}x{columns}xf32>
      %0 = graph.call @k(%w) : (tensor<{rows}x{columns}xf32>) -> tensor<{blocks}x{rows}x{block}xf32>
      func.return %0 : tensor<{blocks}x{rows}x{block}xf32>
    }}
    """
    from xdsl.dialects.builtin import StringAttr

    from tilewright.text import parse_module

    context = make_context()
    weight = np.random.default_rng(n).standard_normal((rows, columns)).astype(np.float32)
    context.resources.add(weight, "w")
    module = parse_module(text, context=context)
    module.attributes["tw.stage"] = StringAttr("kernels")
    found = tilewright.compile((module, context))()
    padded = np.pad(weight, [(0, 0), (0, blocks * block - columns)])
    np.testing.assert_array_equal(found, padded.reshape(rows, blocks, block).transpose(1, 0, 2))
