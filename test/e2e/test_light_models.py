"""The ``onnx`` package's real-model tests, run by its own runner with its own tolerances; and the same networks with
random weights against ONNX Runtime.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx.backend.test.runner import Runner

import tilewright
from tilewright.frontends.onnx import backend
from tilewright.testing.models import light_models, load_randomised, random_inputs

OnnxBackendRealModelTest = Runner(backend, __name__).test_cases["OnnxBackendRealModelTest"]
"""Collected by pytest: one test per model that the runner knows, each compiled and compared by the runner."""

RTOL, ATOL = 1e-3, 1e-4
"""fp32 networks whose sums are taken in another order."""


@pytest.mark.parametrize("name", light_models())
def test_random_weights_agree_with_onnx_runtime(name: str, tmp_path: Path) -> None:
    """With random weights every channel is another number, so that no mix-up can hide."""
    model = load_randomised(light_models()[name])
    inputs = random_inputs(model)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    compiled = tilewright.compile(model)
    for found, wanted in zip(compiled.run(inputs).values(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=RTOL, atol=ATOL)
