"""Imported models give ONNX Runtime's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tilewright.testing.onnx_models import check, interpret, model, value

RNG = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


ACTIVATIONS: list[tuple[str, dict[str, Any], int]] = [
    ("LeakyRelu", {"alpha": 0.3}, 17),
    ("Elu", {"alpha": 0.7}, 17),
    ("Selu", {}, 17),
    ("Celu", {"alpha": 0.5}, 17),
    ("ThresholdedRelu", {"alpha": 0.4}, 17),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, 17),
    ("HardSwish", {}, 17),
    ("Softplus", {}, 17),
    ("Softsign", {}, 17),
    ("Mish", {}, 18),
    ("Gelu", {}, 20),
    ("Gelu", {"approximate": "tanh"}, 20),
    ("Shrink", {"lambd": 0.4, "bias": 0.1}, 17),
    ("Asinh", {}, 17),
    ("Atanh", {}, 17),
    ("Softmax", {"axis": 1}, 17),
    ("Softmax", {"axis": 1}, 9),
    ("LogSoftmax", {"axis": 0}, 11),
    ("Hardmax", {"axis": 1}, 17),
    ("LpNormalization", {"axis": 1, "p": 1}, 17),
    ("Clip", {"min": -0.2, "max": 0.3}, 6),
]


@pytest.mark.parametrize(("operator", "attributes", "opset"), ACTIVATIONS)
def test_activation(operator: str, attributes: dict[str, Any], opset: int) -> None:
    made = model([helper.make_node(operator, ["x"], ["y"], **attributes)], [value("x", [2, 3, 5])], opset=opset)
    check(made, np.tanh(floats(2, 3, 5)) * np.float32(0.9))


WINDOWS: list[tuple[str, dict[str, Any]]] = [
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER"}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 0, 0], "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("LpPool", {"kernel_shape": [2, 3], "p": 3}),
    ("GlobalAveragePool", {}),
    ("GlobalMaxPool", {}),
    ("LRN", {"size": 3, "alpha": 0.2}),
    ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", {"blocksize": 2}),
]


@pytest.mark.parametrize(("operator", "attributes"), WINDOWS)
def test_window(operator: str, attributes: dict[str, Any]) -> None:
    made = model([helper.make_node(operator, ["x"], ["y"], **attributes)], [value("x", [2, 4, 8, 10])])
    check(made, np.abs(floats(2, 4, 8, 10)))


CONVOLUTIONS: list[tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ("Conv", {"pads": [1, 2, 0, 1], "strides": [2, 1]}, (2, 6, 9, 8), (4, 6, 3, 2)),
    ("Conv", {"group": 3, "dilations": [2, 2]}, (1, 6, 9, 8), (9, 2, 3, 3)),
    ("Conv", {"group": 6, "auto_pad": "SAME_UPPER", "strides": [2, 2]}, (1, 6, 9, 8), (6, 1, 3, 3)),
    ("Conv", {"pads": [2, 1]}, (2, 3, 11), (5, 3, 4)),
    ("Conv", {"pads": [1, 0, 1, 1, 0, 1]}, (1, 2, 5, 4, 6), (3, 2, 3, 1, 2)),
    ("ConvTranspose", {"strides": [2, 3], "output_padding": [1, 0]}, (2, 6, 5, 4), (6, 4, 3, 2)),
    ("ConvTranspose", {"group": 2, "pads": [1, 1, 0, 1], "dilations": [2, 1]}, (1, 6, 5, 4), (6, 2, 3, 3)),
    ("ConvTranspose", {"strides": [2, 2], "output_shape": [11, 8]}, (1, 2, 5, 4), (2, 3, 3, 3)),
]


@pytest.mark.parametrize(("operator", "attributes", "shape", "filter_shape"), CONVOLUTIONS)
def test_convolution(
    operator: str, attributes: dict[str, Any], shape: tuple[int, ...], filter_shape: tuple[int, ...]
) -> None:
    transposed = operator == "ConvTranspose"
    channels = filter_shape[1] * attributes.get("group", 1) if transposed else filter_shape[0]
    weights = {"w": floats(*filter_shape), "b": floats(channels)}
    made = model(
        [helper.make_node(operator, ["x", "w", "b"], ["y"], **attributes)], [value("x", shape)], weights=weights
    )
    check(made, floats(*shape), rtol=1e-4, atol=1e-5)


def test_normalisations() -> None:
    weights = {"s": floats(4), "b": floats(4), "m": floats(4), "v": np.abs(floats(4)) + 1}
    weights |= {"ls": floats(5), "lb": floats(5)}
    nodes = [
        helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["a"], epsilon=0.01),
        helper.make_node("InstanceNormalization", ["a", "s", "b"], ["c"]),
        helper.make_node("LayerNormalization", ["c", "ls", "lb"], ["y"], axis=-1),
    ]
    check(model(nodes, [value("x", [2, 4, 3, 5])], weights=weights), floats(2, 4, 3, 5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(transposed: int) -> None:
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5, beta=2.0, transB=transposed)]
    weights = {"w": floats(3, 6) if transposed else floats(6, 3), "b": floats(3)}
    check(model(nodes, [value("x", [4, 6])], weights=weights), floats(4, 6))


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 6)), ((3,), (2, 3, 4)), ((2, 3), (3,)), ((3,), (3,))]
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    made = model([helper.make_node("MatMul", ["a", "b"], ["y"])], [value("a", left), value("b", right)])
    check(made, floats(*left), floats(*right))


@pytest.mark.parametrize(
    "equation", ["bij,bjk->bik", "ij,kj->ik", "bhqd,bhkd->bhqk", "i,j->ij", "...ij,jk->...ik", "ij->ji"]
)
def test_einsum(equation: str) -> None:
    sizes = {c: n for n, c in enumerate("bdhijkq", 2)}
    terms = equation.split("->")[0].split(",")
    shapes = [tuple([2, 3] if t.startswith("...") else []) + tuple(sizes[c] for c in t.strip(".")) for t in terms]
    names = [f"x{i}" for i in range(len(shapes))]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    made = model([node], [value(n, s) for n, s in zip(names, shapes)])
    check(made, *[floats(*s) for s in shapes])


REDUCTIONS = [
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp",
    "ReduceSumSquare",
]  # fmt: skip


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("keep", [0, 1])
def test_reduction(operator: str, keep: int) -> None:
    if operator == "ReduceSum":
        node = helper.make_node(operator, ["x", "axes"], ["y"], keepdims=keep)
        made = model([node], [value("x", [2, 3, 4])], weights={"axes": np.array([-1, 0])})
    else:
        made = model([helper.make_node(operator, ["x"], ["y"], axes=[-1, 0], keepdims=keep)], [value("x", [2, 3, 4])])
    check(made, floats(2, 3, 4))


SLICES = [
    ([1, 0], [3, 9], [0, 1], [1, 2]),
    ([-1], [-100], [1], [-1]),
    ([4], [2], [1], [1]),
    ([-3, 1], [-1, 99], [1, 0], [1, 3]),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), SLICES)
def test_slice(starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> None:
    lists = {"s": starts, "e": ends, "a": axes, "t": steps}
    node = helper.make_node("Slice", ["x", *lists], ["y"])
    made = model([node], [value("x", [4, 6])], weights={k: np.array(v, np.int64) for k, v in lists.items()})
    check(made, floats(4, 6))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode: str) -> None:
    node = helper.make_node("Pad", ["x", "p", "v"], ["y"], mode=mode)
    made = model([node], [value("x", [4, 6])], weights={"p": np.array([1, -1, 2, 3]), "v": np.float32(0.5)})
    check(made, floats(4, 6))


RESIZES: list[dict[str, Any]] = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel", "cubic_coeff_a": -0.5},
]


@pytest.mark.parametrize("attributes", RESIZES)
@pytest.mark.parametrize("size", [(7, 9), (3, 4)])
def test_resize(attributes: dict[str, Any], size: tuple[int, int]) -> None:
    node = helper.make_node("Resize", ["x", "", "", "size"], ["y"], **attributes)
    made = model([node], [value("x", [1, 2, 5, 6])], weights={"size": np.array([1, 2, *size])})
    check(made, floats(1, 2, 5, 6), rtol=1e-4, atol=1e-5)


def test_integers_keep_their_meaning() -> None:
    """Division truncates, remainders follow the divisor or the dividend, shifts and bit operations are exact."""
    nodes = [
        helper.make_node("Div", ["a", "b"], ["y"]),
        helper.make_node("Mod", ["a", "b"], ["z"]),
        helper.make_node("Mod", ["a", "b"], ["w"], fmod=1),
        helper.make_node("BitwiseXor", ["a", "b"], ["v"]),
    ]
    inputs = [value("a", [6], np.int32), value("b", [6], np.int32)]
    made = model(nodes, inputs, ["y", "z", "w", "v"], opset=18)
    check(made, np.array([7, -7, 7, -7, 6, 0], np.int32), np.array([2, 2, -2, -2, 3, 5], np.int32))


def test_quantised_round_trip() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    made = model(nodes, [value("x", [3, 4])], ["q", "y"], {"s": np.float32(0.05), "z": np.uint8(128)})
    check(made, floats(3, 4) * 4)


def test_old_broadcast() -> None:
    """Before opset 7 the right operand is aligned at an axis."""
    nodes = [helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)]
    made = model(nodes, [value("x", [2, 3, 4])], weights={"b": floats(3)}, opset=6)
    x = floats(2, 3, 4)
    bias = made.graph.initializer[0]
    from onnx import numpy_helper

    (found,) = interpret(made, [x])
    np.testing.assert_array_equal(found, x + numpy_helper.to_array(bias)[:, None])


RECURRENT: list[tuple[str, int, dict[str, Any]]] = [
    ("LSTM", 4, {"direction": "bidirectional"}),
    ("GRU", 3, {"direction": "reverse", "linear_before_reset": 1}),
    ("RNN", 1, {"activations": ["Relu"]}),
]


@pytest.mark.parametrize(("operator", "gates", "attributes"), RECURRENT)
def test_recurrent(operator: str, gates: int, attributes: dict[str, Any]) -> None:
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    weights = {
        "w": floats(directions, gates * 4, 3),
        "r": floats(directions, gates * 4, 4),
        "b": floats(directions, 2 * gates * 4),
    }
    node = helper.make_node(operator, ["x", "w", "r", "b"], ["y", "h"], hidden_size=4, **attributes)
    made = model([node], [value("x", [5, "n", 3])], ["y", "h"], weights)
    check(made, floats(5, 2, 3))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding: str) -> None:
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=1)
    made = model([node], [value("x", [2, 3, "h", 5]), value("g", [2, 4, 6, 2])])
    check(made, floats(2, 3, 4, 5), floats(2, 4, 6, 2), rtol=1e-4, atol=1e-5)
