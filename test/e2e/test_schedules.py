"""Schedules are real: the file holds each kernel's plain loops and its schedule, and only the schedule makes them fast.

Editing a tile size changes the loops and not the results; an illegal edit is refused with loop and reason; without any
schedule the results are the same.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.pass_manager import PassManager
from tilewright.text import parse_module, print_module

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
SPLIT = re.compile(r"(schedule\.split [^\n]* by \[\?, )(\d+)(\])")


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schedules")
    tilewright.compile(DIGITS / "digits.onnx", output=folder / "model.twm", dump_ir=folder)
    return folder


def level(folder: Path, name: str) -> Path:
    return next(folder.glob(f"*_{name}.ir"))


def scheduled(text: str) -> str:
    """What ``tilewright-opt -p apply-schedule`` makes of a file."""
    context = make_context()
    module = parse_module(text, context=context)
    PassManager(context, ["apply-schedule"]).run(module)
    return print_module(module)


def without_stage(text: str) -> str:
    return re.sub(r'tw\.stage = "\w+"', "", text).rstrip()


def run(path: Path, folder: Path) -> np.ndarray:
    with np.load(DIGITS / "test.npz") as data:
        images = data["images"][:9]
    tilewright.resume(path, output=folder / "edited.twm")
    return tilewright.load(folder / "edited.twm")(images)


def reference(levels: Path) -> np.ndarray:
    with np.load(DIGITS / "test.npz") as data:
        return tilewright.load(levels / "model.twm")(data["images"][:9])


def test_apply_schedule_gives_the_loops_that_were_compiled(levels: Path) -> None:
    found = scheduled(level(levels, "schedule").read_text())
    assert without_stage(found) == without_stage(level(levels, "scheduled").read_text())


def test_plain_loops_and_schedules_stand_side_by_side(levels: Path) -> None:
    text = level(levels, "schedule").read_text()
    kernels = set(re.findall(r"func\.func private @(\w+)", text))
    assert kernels and kernels == set(re.findall(r"schedule\.func @\w+ for @(\w+)", text))
    assert not re.search(r"loop\.for [^\n]*(parallel|vectorized|unrolled)", text)


def test_an_edited_tile_changes_loops_and_not_results(levels: Path, tmp_path: Path) -> None:
    text = level(levels, "schedule").read_text()
    match = next(m for m in SPLIT.finditer(text) if int(m[2]) not in (16, 3))
    edited = f"{text[: match.start()]}{match[1]}3{match[3]}{text[match.end() :]}"
    assert scheduled(edited) != scheduled(text)
    path = tmp_path / level(levels, "schedule").name
    path.write_text(edited)
    (tmp_path / "weights.safetensors").symlink_to(levels / "weights.safetensors")
    np.testing.assert_allclose(run(path, tmp_path), reference(levels), rtol=1e-5, atol=1e-5)


def test_an_illegal_edit_is_refused_with_loop_and_reason(levels: Path) -> None:
    text = level(levels, "schedule").read_text()
    loops = re.search(r"((?:%\w+, )+%\w+) = schedule\.get_loops (%\w+) : (\d+)", text)
    assert loops is not None
    block = next(
        m
        for m in re.finditer(r"((?:%\w+, )+%\w+) = schedule\.get_loops (%\w+) : (\d+)", text)
        if int(m[3]) > 5 and "compute_at" in text[: m.start()].rsplit("schedule.func", 1)[-1]
    )
    reduction = block[1].split(", ")[-1]
    line_end = text.index("\n", block.end())
    edited = f"{text[: line_end]}\n    schedule.parallel {reduction}{text[line_end:]}"
    with pytest.raises(DiagnosticError) as error:
        scheduled(edited)
    diagnostic = error.value.diagnostics[0]
    assert "refused" in diagnostic.message and "reduc" in diagnostic.message


def test_without_schedules_the_results_are_the_same(levels: Path, tmp_path: Path) -> None:
    text = level(levels, "schedule").read_text()
    emptied = re.sub(r"(schedule\.func @\w+ for @\w+ \{)\n.*?\n  \}", r"\1\n  }", text, flags=re.DOTALL)
    assert "schedule.split" not in emptied
    path = tmp_path / level(levels, "schedule").name
    path.write_text(emptied)
    (tmp_path / "weights.safetensors").symlink_to(levels / "weights.safetensors")
    np.testing.assert_allclose(run(path, tmp_path), reference(levels), rtol=1e-5, atol=1e-5)
