"""Random programs through the C target, with every warning an error and the undefined-behaviour sanitizer, give
what the reference interpreter gives.

Floats are compared within 1e-4 of the largest magnitude (float32 has 6e-8, a program some tens of operations with sums
of up to a few hundred terms), integers exactly.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tilewright
from tilewright.testing.c_model import CModel, find_gcc
from tilewright.testing.strategies.graph import SMOOTH_STEPS, GraphProgram, conditional, graph_programs

COVERS = ("attach-c-schedules", "convert-loop-to-c")
FLAGS = ("-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-static-libubsan")
STEPS = tuple(step for step in SMOOTH_STEPS if step is not conditional)

pytestmark = pytest.mark.skipif(find_gcc() is None, reason="no gcc on PATH: generated C is not compiled")


@settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(graph_programs(steps=STEPS))
def test_random_programs_equal_the_interpreter(program: GraphProgram) -> None:
    expected = program.run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.c"
        tilewright.compile((program.module.clone(), program.context), target="c", output=path)
        found = CModel.compile(path, FLAGS)(*program.inputs)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if theirs.dtype.kind == "f":
            finite = np.abs(theirs[np.isfinite(theirs)])
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * float(finite.max(initial=1.0)))
        else:
            np.testing.assert_array_equal(ours, theirs)
