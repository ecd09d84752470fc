"""Small ONNX models for the tests of the importer, made in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ..core.context import make_context
from ..frontends.onnx import import_model
from ..interp import Interpreter

Dim = int | str | None


def value(name: str, shape: Sequence[Dim] | None, dtype: Any = np.float32) -> onnx.ValueInfoProto:
    """A tensor of the graph's interface."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str] = ("y",),
    weights: dict[str, Any] | None = None,
    opset: int = 17,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; output types are left to inference."""
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()]
    infos = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
    graph = helper.make_graph(nodes, "test", list(inputs), infos, initializers)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 3) for d in domains)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return made if domains else onnx.shape_inference.infer_shapes(made)


def interpret(made: onnx.ModelProto, arrays: Sequence[Any]) -> list[Any]:
    """Outputs of the imported module in the reference interpreter."""
    context = make_context()
    module = import_model(made, context)
    module.verify()
    return Interpreter(module, context).call("main", list(arrays))


def reference(made: onnx.ModelProto, arrays: Sequence[Any]) -> list[Any]:
    """Outputs of ONNX Runtime, unoptimised."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays)}))


def check(made: onnx.ModelProto, *arrays: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Both agree in shapes, element types and values."""
    for found, expected in zip(interpret(made, arrays), reference(made, arrays), strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
