"""What the passes promise beside keeping results: weights by reference, locations, types, speed."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.core.attributes import layout_of, tensor_type
from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.diagnostics import DiagnosticError, name_location, source_names
from tilewright.core.pass_manager import PassManager
from tilewright.core.pipeline import build_pipeline, print_pipeline
from tilewright.core.verifier import verify
from tilewright.dialects.graph.broadcasting import AddOp, MulOp
from tilewright.dialects.graph.elementwise import ReluOp
from tilewright.dialects.graph.indexing import TopKOp
from tilewright.dialects.graph.nn import BatchNormOp, ConvOp
from tilewright.dialects.graph.structure import ConstantOp, KernelOp, RecipeOp
from tilewright.interp import Interpreter
from tilewright.passes.graph.fold_constants import GraphFoldConstantsPass
from tilewright.passes.graph.fuse import kernel_name
from tilewright.passes.graph.infer_shapes import GraphInferShapesPass
from tilewright.passes.pipelines import graph_optimize


class Network:
    """A chain of operations on one image, made operation by operation."""

    def __init__(self, channels: int) -> None:
        self.context: TilewrightContext = make_context()
        self.random = np.random.default_rng(0)
        self.block = Block(arg_types=[tensor_type(f32, [1, channels, 8, 8])])
        self.value: SSAValue = self.block.args[0]
        self.count = 0

    def add(self, op: Operation, name: str = "") -> SSAValue:
        if name:
            op.location = name_location(name)
        self.block.add_op(op)
        self.value = op.results[0]
        return self.value

    def weight(self, *shape: int) -> SSAValue:
        array = self.random.uniform(0.1, 0.5, shape).astype(np.float32)
        name = self.context.resources.add(array, f"w{self.count}")
        self.count += 1
        op = ConstantOp(DenseResourceAttr.from_params(name, tensor_type(f32, shape)))
        self.block.add_op(op)
        return op.result

    def conv_norm_relu(self, channels: int, name: str) -> None:
        x, inputs = self.value, self.value.type.get_shape()[1]  # type: ignore[attr-defined]
        w = self.weight(channels, inputs, 3, 3)
        y = self.add(ConvOp(x, w, [1, 1], [1] * 4, [1, 1]), name)
        parameters = [self.weight(channels) for _ in range(4)]
        self.add(ReluOp(self.add(BatchNormOp(y, *parameters, 1e-5), f"{name}_norm")), f"{name}_relu")

    def finish(self) -> ModuleOp:
        self.block.add_op(ReturnOp(self.value))
        types = [arg.type for arg in self.block.args], [self.value.type]
        module = ModuleOp([FuncOp("main", types, Region(self.block))])
        verify(module)
        return module


def test_weights_stay_references() -> None:
    network = Network(3)
    network.conv_norm_relu(32, "first")
    module = network.finish()
    before = {name: id(array) for name, array in network.context.resources.items()}
    PassManager(network.context, graph_optimize()).run(module)
    assert {name: id(array) for name, array in network.context.resources.items()} == before
    recipes = [op for op in module.walk() if isinstance(op, RecipeOp)]
    assert [recipe.sym_name.data for recipe in recipes] == ["w0_mul"]


def test_kernels_and_derived_operations_carry_the_names_of_the_model() -> None:
    network = Network(3)
    network.conv_norm_relu(32, "first")
    module = network.finish()
    PassManager(network.context, graph_optimize()).run(module)
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    assert kernel.kernel_name.data == "conv_add_relu"
    assert source_names(kernel.location) == ("first", "first_norm", "first_relu")
    inside = [source_names(op.location) for op in kernel.body.block.ops]
    assert inside[:3] == [("first",), ("first_norm",), ("first_relu",)]


def test_blocks_reach_from_the_first_layer_to_the_result() -> None:
    network = Network(3)
    for number in range(3):
        network.conv_norm_relu(32, f"layer{number}")
    module = network.finish()
    x = network.random.normal(size=(1, 3, 8, 8)).astype(np.float32)
    before = Interpreter(module, network.context).call("main", [x])[0]
    PassManager(network.context, graph_optimize()).run(module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert [layout_of(k.results[0].type) is not None for k in kernels] == [True, True, True, False]
    after = Interpreter(module, network.context).call("main", [x])[0]
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())


def test_a_recipe_that_another_recipe_uses() -> None:
    network = Network(1)
    w = network.weight(64, 64)
    doubled = MulOp(w, w)
    network.block.add_op(doubled)
    network.value = network.block.args[0]
    network.add(ReluOp(doubled.result))
    network.add(AddOp(doubled.result, network.value))
    module = network.finish()
    before = Interpreter(module, network.context).call("main", [np.zeros((1, 1, 8, 8), np.float32)])[0]
    for _ in range(2):
        GraphFoldConstantsPass().apply(network.context, module)
    verify(module)
    after = Interpreter(module, network.context).call("main", [np.zeros((1, 1, 8, 8), np.float32)])[0]
    np.testing.assert_array_equal(after, before)


def test_a_thousand_operations_take_seconds() -> None:
    network = Network(16)
    for number in range(100):
        network.conv_norm_relu(16, f"layer{number}")
    module = network.finish()
    start = time.process_time()
    PassManager(network.context, graph_optimize(), verify_each=False).run(module)
    assert time.process_time() - start < 10


def test_long_kernel_names_are_cut() -> None:
    network = Network(1)
    ops = [ReluOp(network.value) for _ in range(20)]
    assert kernel_name(ops[:2]) == "relu_relu"
    assert kernel_name(ops) == "_".join(["relu"] * 8) + "_more"


def test_pipeline_prints_and_reads_back() -> None:
    registry = make_context().registry
    text = print_pipeline(build_pipeline(graph_optimize(block=8), registry))
    assert "graph-choose-layout{block=8}" in text and text.endswith("graph-fuse,cse,dce")
    assert print_pipeline(build_pipeline(text, registry)) == text


@pytest.mark.parametrize("pair", ["n", "n=", "n=x", "n=-1"])
def test_malformed_binding_is_a_diagnostic(pair: str) -> None:
    network = Network(1)
    module = network.finish()
    with pytest.raises(DiagnosticError, match="takes 'symbol=size'"):
        GraphInferShapesPass((pair,)).apply(network.context, module)


def test_one_pass_in_each_file() -> None:
    import tilewright.passes.graph as package

    for path in Path(package.__file__).parent.glob("*.py"):
        assert path.read_text().count("    name = \"") <= 1, path.name


def test_an_operation_with_two_results_is_a_kernel_with_two_results() -> None:
    block = Block(arg_types=[tensor_type(f32, [3, 8])])
    ops: list[Operation] = [ReluOp(block.args[0])]
    ops += [TopKOp(ops[0].results[0], 2, 1)]
    ops += [ReluOp(ops[1].results[0])]
    block.add_ops([*ops, ReturnOp(ops[2].results[0], ops[1].results[1])])
    results = [ops[2].results[0].type, ops[1].results[1].type]
    module = ModuleOp([FuncOp("main", ([block.args[0].type], results), Region(block))])
    context, x = make_context(), np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    before = Interpreter(module, context).call("main", [x])
    PassManager(context, ["graph-fuse"]).run(module)
    verify(module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert [(k.kernel_name.data, len(k.results)) for k in kernels] == [("relu", 1), ("topk", 2), ("relu", 1)]
    for found, expected in zip(Interpreter(module, context).call("main", [x]), before, strict=True):
        np.testing.assert_array_equal(found, expected)
