"""Models that are not what ONNX says are refused with the node's name; they do not reach the import rules."""

from __future__ import annotations

import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.frontends.onnx.importer import import_model


def model(*nodes: NodeProto, opset: int = 17) -> ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


node = helper.make_node
WRONG = {
    "an unknown attribute": (model(node("Relu", ["x"], ["y"], "act", slope=1)), "node 'act'.*slope"),
    "too many inputs": (model(node("Relu", ["x", "x"], ["y"], "act")), "node 'act'.*input size 2"),
    "no operator set": (model(node("Relu", ["x"], ["y"], "act"), opset=0), "node 'act'.*version of 0"),
    "a value of two nodes": (
        model(node("Relu", ["x"], ["y"], "act"), node("Abs", ["x"], ["y"], "abs")),
        "node 'abs'.*'y' is defined already",
    ),
    "a missing attribute": (model(node("Concat", ["x", "x"], ["y"], "join")), "node 'join'.*axis"),
    "a wrong type": (model(node("MaxPool", ["x"], ["y"], "pool", kernel_shape="ab")), "node 'pool'.*INTS"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_models_are_refused(what: str) -> None:
    wrong, message = WRONG[what]
    with pytest.raises(DiagnosticError, match=message):
        import_model(wrong, make_context())


def test_a_right_model_is_taken() -> None:
    import_model(model(node("Relu", ["x"], ["y"], "act")), make_context())
