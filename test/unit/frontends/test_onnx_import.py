"""What the importer makes of models: symbols, names, locations, constants, control flow, and its messages."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from xdsl.dialects.func import FuncOp

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError, render, source_names
from tilewright.frontends.onnx import import_model
from tilewright.interp import Interpreter
from tilewright.testing.onnx_models import check, model, reference, value
from tilewright.text import print_module


def text_of(made: onnx.ModelProto, **options: Any) -> str:
    module = import_model(made, make_context(), **options)
    module.verify()
    return print_module(module)


def message_of(made: onnx.ModelProto | bytes | Path, **options: Any) -> str:
    with pytest.raises(DiagnosticError) as caught:
        import_model(made, make_context(), **options)
    return render(caught.value)


def flatten_model() -> onnx.ModelProto:
    """The shape arithmetic that exporters write for a flatten."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {"zero": np.int64(0), "axes": np.array([0]), "rest": np.array([-1])}
    return model(nodes, [value("x", ["n", 3, 4])], weights=weights)


def test_shape_arithmetic_leaves_no_trace() -> None:
    text = text_of(flatten_model())
    assert "graph.reshape %x {shape = #tw.exprs<[n, 12]>}" in text
    assert text.count("graph.") == 1
    check(flatten_model(), np.ones((5, 3, 4), np.float32))


def test_unnamed_dimensions_are_fresh_symbols() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [None, "d0", "seq len", 4])])
    assert "#tw.enc<dims = [x_0, dim_d0, seq_len]>" in text_of(made)


def test_shapes_option() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 4])])
    assert "tensor<2x4xf32>" in text_of(made, shapes={"x": [2, 4]})
    assert "the model has no input 'z', its inputs are x" in message_of(made, shapes={"z": [1]})


def test_symbolic_slice_and_split() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "s", "e"], ["tail"]),
        helper.make_node("Split", ["tail", "sizes"], ["y", "z"], axis=1),
    ]
    weights = {"s": np.array([1]), "e": np.array([2**31 - 1]), "sizes": np.array([1, 3])}
    made = model(nodes, [value("x", ["n", 4])], ["y", "z"], weights)
    assert "tensor<?x1xf32, #tw.enc<dims = [n - 1]>>" in text_of(made)
    check(made, np.arange(12, dtype=np.float32).reshape(3, 4))


def test_unrelated_symbols_are_claimed_and_checked() -> None:
    made = model([helper.make_node("Add", ["a", "b"], ["y"])], [value("a", ["n"]), value("b", ["m"])])
    assert (
        "graph.match_shape %b : (tensor<?xf32, #tw.enc<dims = [m]>>) -> tensor<?xf32, #tw.enc<dims = [n]>>"
        in text_of(made)
    )
    context = make_context()
    run = Interpreter(import_model(made, context), context)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(run.call("main", [x, x])[0], [2, 2, 2])
    with pytest.raises(DiagnosticError, match="operand has size 1 in dimension 0, expected n = 3"):
        run.call("main", [x, x[:1]])


def test_names_and_locations() -> None:
    made = model([helper.make_node("Relu", ["in:0"], ["out:0"], name="act/1")], [value("in:0", [4])], ["out:0"])
    module = import_model(made, make_context())
    (main,) = module.body.block.ops
    assert isinstance(main, FuncOp)
    assert 'tw.name = "in:0"' in str(main.arg_attrs) and 'tw.name = "out:0"' in str(main.res_attrs)
    assert source_names(next(iter(main.body.block.ops)).location) == ("act/1",)


def test_weights_are_named_and_shared() -> None:
    weight = np.arange(40, dtype=np.float32).reshape(8, 5)
    nodes = [helper.make_node("Gemm", ["x", "w1"], ["h"], transB=1), helper.make_node("Gemm", ["h", "w2"], ["y"])]
    context = make_context()
    module = import_model(model(nodes, [value("x", [1, 5])], weights={"w1": weight, "w2": weight}), context)
    assert print_module(module).count("dense_resource<w1>") == 2
    assert list(context.resources) == ["w1"]
    assert not context.resources["w1"].flags.writeable


def test_initialiser_that_is_an_input_is_a_constant() -> None:
    weights = {"b": np.ones(4, np.float32)}
    made = model([helper.make_node("Add", ["x", "b"], ["y"])], [value("x", [4]), value("b", [4])], weights=weights)
    assert '(%x: tensor<4xf32> {tw.name = "x"})' in text_of(made)


def test_external_data(tmp_path: Path) -> None:
    weight = np.arange(64, dtype=np.float32)
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [64])], weights={"w": weight})
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.bin", size_threshold=0)
    context = make_context()
    module = import_model(path, context)
    (found,) = Interpreter(module, context).call("main", [np.zeros(64, np.float32)])
    np.testing.assert_array_equal(found, weight)
    (tmp_path / "m.bin").write_bytes(b"short")
    assert "tensor 'w' does not fit into 'm.bin'" in message_of(path)
    (tmp_path / "m.bin").unlink()
    assert "tensor 'w' needs the file 'm.bin', which does not exist" in message_of(path)


def test_external_data_stays_in_its_folder(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [1])], weights={"w": np.zeros(1, np.float32)}
    )
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    assert "outside of the model's folder" in message_of(path)


def conditional() -> onnx.ModelProto:
    then = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["t"])], "then", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [value("e", None)])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    return model(nodes, [value("x", [3])], weights={"zero": np.float32(0)})


@pytest.mark.parametrize("sign", [1, -1])
def test_if(sign: int) -> None:
    check(conditional(), np.array([1, 2, 3], np.float32) * np.float32(sign))
    assert "scf.if" in text_of(conditional())


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loop(count: int) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [value("i", [], np.int64), value("c", [], np.bool_), value("v", [2])],
        [value("d", [], np.bool_), value("w", [2])],
    )
    made = model(
        [helper.make_node("Loop", ["m", "c0", "x"], ["y"], body=body)],
        [value("m", [], np.int64), value("x", [2])],
        weights={"c0": np.array(True)},
    )
    check(made, np.array(count), np.array([1, 3], np.float32))


def test_model_functions_are_expanded() -> None:
    body = [helper.make_node("Mul", ["a", "a"], ["q"]), helper.make_node("Add", ["q", "a"], ["r"])]
    function = helper.make_function("own", "Poly", ["a"], ["r"], body, [helper.make_opsetid("", 17)])
    graph = helper.make_graph(
        [helper.make_node("Poly", ["x"], ["y"], domain="own")], "g", [value("x", [3])], [value("y", [3])]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=9)
    check(made, np.array([1, 2, 3], np.float32))


def test_values_option_fixes_an_input() -> None:
    made = model([helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", [6]), value("s", [2], np.int64)])
    assert "a shape that depends on the value of input 's'" in message_of(made)
    text = text_of(made, values={"s": np.array([2, -1])})
    assert "tensor<2x3xf32>" in text and "%s" not in text


def test_every_unsupported_node_is_named_at_once() -> None:
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], name="first", domain="vendor"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Other", ["b"], ["c"], name="second", domain="vendor"),
        helper.make_node("NonMaxSuppression", ["c", "c"], ["y"], name="third"),
    ]
    made = model(nodes, [value("x", [3])], domains=["vendor"])
    message = message_of(made)
    assert "3 nodes are not supported: Fancy, NonMaxSuppression, Other" in message
    assert "Fancy 'first' (vendor, opset 3): no rule for this operator" in message
    assert "Other 'second' (vendor, opset 3)" in message
    assert "NonMaxSuppression 'third' (ai.onnx, opset 17)" in message


def test_wrong_models() -> None:
    assert "the protobuf cannot be decoded" in message_of(b"\xff\xff\xff\xff not a model")
    assert "it has no graph" in message_of(b"")
    assert "cannot read the model" in message_of(Path("missing.onnx"))
    made = model([helper.make_node("Add", ["x", "nowhere"], ["y"])], [value("x", [3])])
    assert "node 'y' (Add): value 'nowhere' is used but not defined" in message_of(made)
    made = model([helper.make_node("Relu", ["x"], ["z"])], [value("x", [3])], ["y"])
    assert "value 'y' is used but not defined" in message_of(made)


def test_types_that_do_not_fit() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    made = helper.make_model(
        helper.make_graph([node], "g", [value("x", ["n", 64]), value("w", [32, 8])], [value("y", None)]),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    message = message_of(made)
    assert "node 'dense' (MatMul): inner dimensions differ: 64 and 32" in message
    assert "from the model's node 'dense'" in message


def test_truncated_model_never_shows_another_error() -> None:
    data = flatten_model().SerializeToString()
    for length in range(0, len(data), 7):
        with contextlib.suppress(DiagnosticError):
            import_model(data[:length], make_context())


def test_reshape_of_a_large_fill_stays_small() -> None:
    node = helper.make_node("ConstantOfShape", ["s"], ["w"], value=numpy_helper.from_array(np.array([2], np.float32)))
    made = model(
        [node, helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", [1, 100])],
        weights={"s": np.array([100, 90])},
    )
    context = make_context()
    text = print_module(import_model(made, context))
    assert "graph.broadcast_to" in text and not context.resources
    x = np.ones((1, 100), np.float32)
    np.testing.assert_allclose(
        reference(made, [x])[0], Interpreter(import_model(made, context), context).call("main", [x])[0]
    )
