"""Every dumped level is a program: it parses, verifies, prints the same again, and compilation goes on from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core.context import make_context
from tilewright.core.verifier import verify
from tilewright.text import parse_module, print_module

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The digits model compiled with a dump: (artefact, folder of levels)."""
    folder = tmp_path_factory.mktemp("levels")
    tilewright.compile(DIGITS / "digits.onnx", output=folder / "model.twm", dump_ir=folder / "ir")
    return folder / "model.twm", folder / "ir"


def images(count: int = 7) -> np.ndarray:
    with np.load(DIGITS / "test.npz") as data:
        return data["images"][:count]


def test_levels_round_trip(compiled: tuple[Path, Path]) -> None:
    files = sorted(compiled[1].glob("*.ir"))
    assert len(files) >= 8
    for path in files:
        text = path.read_text()
        module = parse_module(text, filename=str(path), context=make_context())
        verify(module)
        assert print_module(module).rstrip() == text.rstrip(), path.name
        generic = print_module(module, generic=True)
        again = parse_module(generic, filename=str(path), context=make_context())
        assert print_module(again).rstrip() == text.rstrip(), path.name


def test_compilation_resumes_from_every_level(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """From every level the very same artefact comes out."""
    artefact, folder = compiled
    for path in sorted(folder.glob("*.ir")):
        again = tmp_path / f"{path.stem}.twm"
        tilewright.resume(path, output=again)
        assert again.read_bytes() == artefact.read_bytes(), path.name


def test_two_compiles_are_identical(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    tilewright.compile(DIGITS / "digits.onnx", output=tmp_path / "again.twm")
    assert (tmp_path / "again.twm").read_bytes() == compiled[0].read_bytes()


def test_accuracy_of_the_example(compiled: tuple[Path, Path]) -> None:
    with np.load(DIGITS / "test.npz") as data:
        scores = tilewright.load(compiled[0])(data["images"])
        assert (scores.argmax(1) == data["labels"]).mean() >= 0.97
