"""Trains the example model: a small convolutional network on scikit-learn's handwritten digits, written as ONNX.

Makes ``digits.onnx`` (input ``image``: ``n x 1 x 8 x 8`` float32 in 0..1, output ``scores``: ``n x 10``) and
``test.npz`` (``images``, ``labels``: the 450 held-out images that the training never saw). Both are committed; this
script is how they were made. It needs PyTorch, scikit-learn and onnx: ``pip install torch scikit-learn onnx && python
train.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = Path(__file__).parent
SEED = 0


class DigitsNet(nn.Module):
    """conv-bn-relu, conv-relu, max-pool, conv-relu, fully connected."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.fc = nn.Linear(32 * 4 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(image)))
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.conv3(x))
        return self.fc(x.flatten(1))


def train(images: torch.Tensor, labels: torch.Tensor) -> DigitsNet:
    """Adam with a decaying rate; images are shifted by up to one pixel so that the network does not learn positions."""
    model = DigitsNet()
    epochs = 60
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            shift = [int(s) for s in torch.randint(-1, 2, (2,))]
            shifted = torch.roll(images[batch], shift, dims=(2, 3))
            loss = nn.functional.cross_entropy(model(shifted), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
    return model.eval()


def to_onnx(model: DigitsNet) -> onnx.ModelProto:
    """The network as an ONNX graph, its batch size the symbol ``n``."""

    def tensor(name: str, value: torch.Tensor) -> TensorProto:
        return numpy_helper.from_array(value.detach().numpy(), name)

    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["c1", "bn1.scale", "bn1.bias", "bn1.mean", "bn1.var"], ["b1"], "bn1", epsilon=1e-5
        ),
        helper.make_node("Relu", ["b1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p2", "conv3.weight", "conv3.bias"], ["c3"], "conv3", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c3"], ["r3"], "relu3"),
        helper.make_node("Flatten", ["r3"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["scores"], "fc", transB=1),
    ]
    bn = model.bn1
    assert bn.running_mean is not None and bn.running_var is not None
    weights = [
        tensor("conv1.weight", model.conv1.weight),
        tensor("bn1.scale", bn.weight),
        tensor("bn1.bias", bn.bias),
        tensor("bn1.mean", bn.running_mean),
        tensor("bn1.var", bn.running_var),
    ]
    for name in ("conv2", "conv3", "fc"):
        layer = getattr(model, name)
        weights += [tensor(f"{name}.weight", layer.weight), tensor(f"{name}.bias", layer.bias)]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made


def main() -> None:
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=450, random_state=SEED, stratify=digits.target
    )
    model = train(torch.from_numpy(train_x), torch.from_numpy(train_y))
    with torch.no_grad():
        found = model(torch.from_numpy(test_x)).argmax(1).numpy()
    print(f"accuracy on the {len(test_y)} held-out images: {(found == test_y).mean():.2%}")
    onnx.save(to_onnx(model), HERE / "digits.onnx")
    np.savez_compressed(HERE / "test.npz", images=test_x, labels=test_y.astype(np.int64))


if __name__ == "__main__":
    main()
