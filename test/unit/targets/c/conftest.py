"""What the tests of the C target share: a C compiler, models from text, and kernels as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tilewright
from tilewright.core.context import make_context
from tilewright.core.verifier import verify
from tilewright.testing.c_model import find_gcc
from tilewright.text import parse_module

CompileText = Callable[..., Path]


@pytest.fixture(scope="session")
def gcc() -> str:
    found = find_gcc()
    if found is None:
        pytest.skip("no gcc on PATH: generated C is not compiled")
    return found


@pytest.fixture
def compile_text(tmp_path: Path) -> CompileText:
    """Compile a program of the graph dialect with the C target; gives the path of the C file."""

    def compile(text: str, weights: Mapping[str, npt.NDArray[np.generic]] | None = None) -> Path:
        context = make_context()
        for name, array in (weights or {}).items():
            context.resources.add(array, name)
        module = parse_module(text, context=context)
        verify(module)
        path = tilewright.compile((module, context), target="c", output=tmp_path / "model.c")
        assert isinstance(path, Path)
        return path

    return compile
