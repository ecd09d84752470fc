"""The conversion passes as such: lowerings of plugins, locations, names, keys of structure, index scopes."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, NameLoc, TensorType
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.utils.test_value import create_ssa_value

from tilewright.core.attributes import IndexMapAttr
from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.pass_manager import run_pipeline
from tilewright.core.registry import default_registry
from tilewright.core.symbolic import const, parse_expr, sym
from tilewright.dialects.te.ops import ComputeOp
from tilewright.interp import Interpreter
from tilewright.passes.convert.graph_to_te.builder import TeBuilder
from tilewright.passes.convert.graph_to_te.shape import reassociation
from tilewright.passes.convert.index_scope import IndexScope
from tilewright.passes.convert.structure import structural_key
from tilewright.text import parse_module


@irdl_op_definition
class TwiceOp(IRDLOperation):
    """An op of a plugin."""

    name = "toy.twice"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


def lower_twice(op: Operation, te: TeBuilder) -> Any:
    return te.compute("twice", op.results[0].type, lambda e, i: e.read(op.operands[0], i) * 2)


def toy_context() -> TilewrightContext:
    registry = default_registry()
    registry.add_dialect("toy", Dialect("toy", [TwiceOp]))
    registry.add_lowering("toy.twice", lower_twice)
    return make_context(registry)


TOY = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = graph.kernel "k"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%0: tensor<4xf32>):
    %a = toy.twice %0 : tensor<4xf32> -> tensor<4xf32> loc("node_7")
    %b = toy.twice %a : tensor<4xf32> -> tensor<4xf32>
    graph.yield %b : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}"""


def test_a_plugin_lowers_its_op() -> None:
    context = toy_context()
    module = parse_module(TOY, context=context)
    run_pipeline(module, "convert-graph-to-te,outline-kernels,convert-te-to-loop", context, verify_each=True)
    (found,) = Interpreter(module, context).call("main", [np.arange(4, dtype=np.float32)])
    assert found.tolist() == [0, 4, 8, 12]


def test_computes_keep_locations_and_get_unique_names() -> None:
    context = toy_context()
    module = parse_module(TOY, context=context)
    run_pipeline(module, "convert-graph-to-te", context)
    computes = [op for op in module.walk() if isinstance(op, ComputeOp)]
    assert [op.block_name.data for op in computes if op.block_name] == ["twice", "twice_1"]
    for op in (computes[0], *computes[0].body.block.ops):
        assert isinstance(op.location, NameLoc) and "node_7" in str(op.location)


def test_equal_kernels_are_lowered_alike() -> None:
    """The second one is a clone; results, names and uses are its own."""
    text = TOY.replace("func.return %r", """%s = graph.kernel "k"(%r) : (tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%0: tensor<4xf32>):
        %a = toy.twice %0 : tensor<4xf32> -> tensor<4xf32>
        %b = toy.twice %a : tensor<4xf32> -> tensor<4xf32>
        graph.yield %b : tensor<4xf32>
      }
      func.return %s""")
    context = toy_context()
    module = parse_module(text, context=context)
    run_pipeline(module, "convert-graph-to-te,te-inline", context, verify_each=True)
    assert sum(isinstance(op, ComputeOp) for op in module.walk()) == 2
    (found,) = Interpreter(module, context).call("main", [np.ones(4, np.float32)])
    assert found.tolist() == [16] * 4


def test_structural_keys() -> None:
    context = make_context()

    def key(body: str) -> Any:
        module = parse_module(f"func.func @f(%x: f32, %y: f32) -> f32 {{ {body} }}", context=context)
        return structural_key(next(iter(module.body.block.ops)).regions[0])

    first = key("%a = arith.addf %x, %y : f32 func.return %a : f32")
    assert first == key("%b = arith.addf %x, %y : f32 func.return %b : f32")
    assert first != key("%a = arith.addf %y, %x : f32 func.return %a : f32")
    assert first != key("%a = arith.subf %x, %y : f32 func.return %a : f32")
    assert first != key("%a = arith.addf %x, %y : f32 func.return %x : f32")


def test_index_scope() -> None:
    scope, a, b = IndexScope(), create_ssa_value(IndexType()), create_ssa_value(IndexType())
    i, j = scope.add_index("i", a, const(4)), scope.add_index("i", b, sym("n"))
    assert scope.simplified((i + 4 * j) % 4) == i
    # Operands are in the order in which the text of the expressions names them; unused ones are left out.
    operands, map_ = scope.operands([j * 2, i + j])
    assert operands == [b, a] and map_ == IndexMapAttr(2, [parse_expr("d0 * 2"), parse_expr("d1 + d0")])
    assert scope.operands([const(3)]) == ([], IndexMapAttr(0, [3]))


def test_guards_keep_what_ranges_and_extents_cannot_prove() -> None:
    scope, a, b = IndexScope(), create_ssa_value(IndexType()), create_ssa_value(IndexType())
    i, j, n = scope.add_index("i", a, const(4)), scope.add_index("i", b, sym("n")), sym("n")
    assert scope.guards([i, j, n - 1 - j, j * 2 + 1], [const(4), n, n, n * 2]) == []
    assert scope.guards([i - 1], [const(3)]) == [const(-1), i - 1]
    assert scope.guards([j + 1, j - 1], [n, n]) == [j + 1, n, const(-1), j - 1]
    assert scope.guards([j], [n - 1]) == [j, n - 1]


def test_guards_leave_out_digits_that_do_not_matter() -> None:
    scope, a, b = IndexScope(), create_ssa_value(IndexType()), create_ssa_value(IndexType())
    block, lane = scope.add_index("i", a, const(8)), scope.add_index("i", b, const(16))
    channel = block * 16 + lane
    assert scope.guards([channel], [const(64)]) == [block, const(4)]
    assert scope.guards([channel - 64], [const(64)]) == [const(-1), block - 4]
    assert scope.guards([channel], [const(60)]) == [channel, const(60)]
    assert scope.guards([channel - 8], [const(120)]) == [const(-1), channel - 8]


def test_reassociation_pairs_runs_of_equal_size() -> None:
    def groups(before: list[Any], after: list[Any]) -> Any:
        shapes = [[sym(e) if isinstance(e, str) else const(e) for e in s] for s in (before, after)]
        return reassociation(*shapes)

    assert groups([2, 3, 4], [6, 4]) == [((0, 2), (0, 1)), ((2, 3), (1, 2))]
    assert groups(["n", 6], ["n", 2, 3]) == [((0, 1), (0, 1)), ((1, 2), (1, 3))]
    assert groups([6], [1, 6, 1]) == [((0, 1), (0, 3))]
    assert groups([4, 6], [6, 4]) == [((0, 2), (0, 2))]
