"""Trained models that packages ship, against ONNX Runtime: nobody here made them, and nothing here was fitted to them.

The wheels are downloaded once into a cache folder; without a network the tests say so and are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import tilewright

CACHE = Path(os.environ.get("TILEWRIGHT_TEST_DATA", Path.home() / ".cache" / "tilewright-test-data"))
RTOL, ATOL = 1e-3, 1e-4
"""fp32 networks whose sums are taken in another order."""


@dataclass(frozen=True)
class Packaged:
    """A model file inside of a wheel, and the shape to run it at (dynamic dimensions stay dynamic in the artefact)."""

    requirement: str
    file: str
    shape: tuple[int, ...]


MODELS = {
    "text orientation": Packaged("rapidocr-onnxruntime==1.4.4", "*mobile_v2.0_cls*.onnx", (6, 3, 48, 192)),
    "file types": Packaged("magika==1.0.3", "*/model.onnx", (3, 2048)),
}


def fetch(model: Packaged) -> Path:
    """The model's file, from the cache or the package index."""
    folder = CACHE / model.requirement.replace("==", "-")
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = folder.with_suffix(".part")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(part)]
        result = subprocess.run([*command, model.requirement], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            pytest.skip(f"cannot download {model.requirement}: {result.stderr.strip().splitlines()[-1:]}")
        with zipfile.ZipFile(next(part.glob("*.whl"))) as wheel:
            wheel.extractall(part)
        part.rename(folder)
    found = sorted(folder.rglob(model.file))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_onnx_runtime(name: str) -> None:
    path = fetch(MODELS[name])
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    rng = np.random.default_rng(0)
    if value.type == "tensor(float)":
        data = rng.standard_normal(MODELS[name].shape, dtype=np.float32)
    else:
        data = rng.integers(0, 256, MODELS[name].shape).astype(np.int32)
    expected = session.run(None, {value.name: data})
    model = tilewright.compile(path)
    for found, wanted in zip(model.run({value.name: data}).values(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=RTOL, atol=ATOL)
