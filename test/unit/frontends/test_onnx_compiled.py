"""Small ONNX models, compiled to native code, against the reference interpreter on the imported module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright
from tilewright.core.diagnostics import DiagnosticError
from tilewright.testing.onnx_models import interpret, model, value

RANDOM = np.random.default_rng(0)


def check(made: onnx.ModelProto, *arrays: Any) -> None:
    """Compiled and interpreted outputs agree."""
    compiled: Any = tilewright.compile(made)
    found = compiled.run(dict(zip((i.name for i in made.graph.input), arrays, strict=True)))
    for name, expected in zip(found, interpret(made, arrays), strict=True):
        same_type = found[name].astype(expected.dtype) if expected.dtype.name != "bfloat16" else found[name]
        assert same_type.shape == expected.shape
        wide = same_type.view(expected.dtype).astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("rows", [3, "n"])
def test_top_k_between_other_operators(rows: int | str, largest: int) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("TopK", ["r", "k"], ["v", "i"], largest=largest),
        helper.make_node("Neg", ["v"], ["y"]),
    ]
    made = model(nodes, [value("x", [rows, 8])], ["y", "i"], {"k": np.array([3], np.int64)})
    check(made, RANDOM.normal(size=(3, 8)).astype(np.float32))


HALVES = [TensorProto.FLOAT16, TensorProto.BFLOAT16]


def casts(types: Sequence[int], middle: Sequence[onnx.NodeProto], source: Any) -> onnx.ModelProto:
    """``x``, cast to each of the types in turn, through nodes from ``a`` to ``b``, and back to ``y``."""
    names = ["x", *(f"x{i}" for i in range(len(types) - 1)), "a"]
    nodes = [helper.make_node("Cast", [a], [b], to=t) for a, b, t in zip(names, names[1:], types)]
    nodes += [*middle, helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)]
    made: onnx.ModelProto = model(nodes, [value("x", [7, 33], source)])
    return made


@pytest.mark.parametrize("half", HALVES, ids=TensorProto.DataType.Name)
def test_arithmetic_in_halves(half: int) -> None:
    middle = [
        helper.make_node("Exp", ["a"], ["e"]),
        helper.make_node("Mul", ["a", "e"], ["p"]),
        helper.make_node("Add", ["p", "a"], ["b"]),
    ]
    check(casts([half], middle, np.float32), RANDOM.normal(size=(7, 33)).astype(np.float32))


@pytest.mark.parametrize("half", HALVES, ids=TensorProto.DataType.Name)
def test_doubles_to_halves(half: int) -> None:
    check(casts([half], [helper.make_node("Identity", ["a"], ["b"])], np.float64), RANDOM.normal(size=(7, 33)))


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceProd", "ReduceMin"])
def test_a_reduction_that_is_empty_at_run_time(operator: str) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "start", "end"], ["part"]),
        helper.make_node(operator, ["part"], ["y"], axes=[0], keepdims=0),
    ]
    weights = {"start": np.array([2]), "end": np.array([np.iinfo(np.int64).max])}
    made = model(nodes, [value("x", ["n", 5])], weights=weights)
    compiled: Any = tilewright.compile(made)
    x = RANDOM.normal(size=(4, 5)).astype(np.float32)
    identity = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceProd": 1}[operator]
    function: Any = {"ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod}[operator]
    np.testing.assert_allclose(compiled.run({"x": x})["y"], function(x[2:], 0), rtol=1e-6)
    np.testing.assert_array_equal(compiled.run({"x": x[:2]})["y"], np.full(5, identity, np.float32))


def test_results_whose_size_depends_on_values_are_refused() -> None:
    made = model([helper.make_node("NonZero", ["x"], ["y"], name="where")], [value("x", [4, 4])])
    with pytest.raises(DiagnosticError) as problem:
        tilewright.compile(made)
    message = str(problem.value)
    assert "'graph.nonzero' op is not supported in compiled code: the size of its result depends on values" in message
    assert "from the model's node 'where'" in message
