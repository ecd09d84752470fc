"""Real models for tests and benchmarks: the ``onnx`` package's light models, with random weights of sensible scale.

The package ships some well-known image networks whose weights are ``ConstantOfShape`` nodes, so that the files stay
small. As they are, every channel of a layer computes the same number and many faults cannot show; :func:`randomise`
replaces the constants by random weights under which activations keep their scale through the network.

Nothing here knows any model by name: models are found by looking into the folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Array = NDArray[np.float32]


def light_models() -> dict[str, Path]:
    """The ``onnx`` package's light models by short name (the file's name without ``light_`` and suffix)."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {path.stem.removeprefix("light_"): path for path in sorted(folder.glob("*.onnx"))}


def load_randomised(path: Path, seed: int = 0) -> ModelProto:
    """The model in the file with random weights (see :func:`randomise`)."""
    return randomise(onnx.load(path), seed)


def random_inputs(model: ModelProto, seed: int = 0, dims: dict[str, int] | None = None) -> dict[str, Array]:
    """Standard-normal arrays for the float inputs of a model that are not initialisers; ``dims`` gives named sizes."""
    rng = np.random.default_rng(seed)
    weights = {w.name for w in model.graph.initializer}
    found: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        if tensor.elem_type != TensorProto.FLOAT:
            raise ValueError(f"input '{value.name}' is not float32")
        shape = [d.dim_value or (dims or {}).get(d.dim_param, 1) for d in tensor.shape.dim]
        found[value.name] = rng.standard_normal(shape, dtype=np.float32)
    return found


def randomise(model: ModelProto, seed: int = 0) -> ModelProto:
    """Replaces every float ``ConstantOfShape`` of constant shape by an initialiser with random values.

    The scale follows the use: convolution and matrix weights get the variance 2 / fan-in before a
    ReLU (He et al., 2015) and 1 / fan-in elsewhere, normalisation scales
    and variances lie in 0.5..1.5, biases and means are small. A normalisation whose result is added to another branch
    gets a scale of 0.2..0.5, or else activations would double with every residual block.
    """
    rng = np.random.default_rng(seed)
    arrays = {w.name: w for w in model.graph.initializer}
    users: dict[str, list[tuple[NodeProto, int]]] = {}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            users.setdefault(name, []).append((node, index))
    kept: list[NodeProto] = []
    made: list[TensorProto] = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in arrays or _is_integer(node):
            kept.append(node)
            continue
        shape = numpy_helper.to_array(arrays[node.input[0]])
        values = _weight(users, node.output[0], tuple(int(d) for d in shape), rng)
        made.append(numpy_helper.from_array(values, node.output[0]))
    used = {name for node in kept for name in node.input}
    unused = [w for w in model.graph.initializer if w.name not in used]
    for weight in unused:
        model.graph.initializer.remove(weight)
    names = {w.name for w in unused}
    for value in [v for v in model.graph.input if v.name in names]:
        model.graph.input.remove(value)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(made)
    return model


def _is_integer(node: NodeProto) -> bool:
    return any(a.name == "value" and a.t.data_type != TensorProto.FLOAT for a in node.attribute)


def _weight(
    users: dict[str, list[tuple[NodeProto, int]]], name: str, shape: tuple[int, ...], rng: np.random.Generator
) -> Array:
    """Random values for the weight ``name``, looking through shape changes at the op that uses it."""
    node, index = users[name][0]
    while node.op_type in ("Unsqueeze", "Reshape", "Transpose", "Identity") and node.output[0] in users:
        node, index = users[node.output[0]][0]
    near_one: Callable[[], Array] = lambda: rng.uniform(0.5, 1.5, shape).astype(np.float32)  # noqa: E731
    small: Callable[[], Array] = lambda: (0.1 * rng.standard_normal(shape)).astype(np.float32)  # noqa: E731
    if node.op_type in ("Conv", "Gemm", "MatMul") and index == 1:
        transposed = node.op_type == "Conv" or any(
            helper.get_attribute_value(a) for a in node.attribute if a.name == "transB"
        )
        fan_in = int(np.prod(shape[1:])) if transposed else shape[0]
        gain = 2.0 if _reaches_relu(users, node.output[0]) else 1.0
        weight: Array = (rng.standard_normal(shape) * np.sqrt(gain / fan_in)).astype(np.float32)
        return weight
    if node.op_type == "BatchNormalization" and index == 1 and _feeds_sum(users, node.output[0]):
        return rng.uniform(0.2, 0.5, shape).astype(np.float32)
    if (node.op_type == "BatchNormalization" and index in (1, 4)) or node.op_type == "Mul":
        return near_one()
    return small()


def _feeds_sum(users: dict[str, list[tuple[NodeProto, int]]], name: str) -> bool:
    return any(user.op_type == "Sum" for user, _ in users.get(name, ()))


def _reaches_relu(users: dict[str, list[tuple[NodeProto, int]]], name: str) -> bool:
    """Whether a ReLU follows directly or after normalisations and per-channel scales."""
    for user, _ in users.get(name, ()):
        if user.op_type == "Relu":
            return True
        if user.op_type in ("BatchNormalization", "Mul", "Add") and _reaches_relu(users, user.output[0]):
            return True
    return False
