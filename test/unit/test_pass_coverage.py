"""Every registered pass has a property test and a lit test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.passes.table import PASSES
from tilewright.targets.table import PASSES as TARGET_PASSES

TEST = Path(__file__).resolve().parents[1]
ALL = {**PASSES, **TARGET_PASSES}


@pytest.mark.parametrize("name", ALL)
def test_a_property_test_names_the_pass(name: str) -> None:
    words = (name, ALL[name].partition(":")[2])
    pattern = re.compile("|".join(rf"\b{re.escape(w)}\b" for w in words))
    assert any(pattern.search(p.read_text()) for p in (TEST / "property").glob("*.py"))


@pytest.mark.parametrize("name", ALL)
def test_a_lit_test_runs_the_pass(name: str) -> None:
    pattern = re.compile(rf"RUN:.*\b{re.escape(name)}\b")
    files = [p for suffix in ("*.ir", "*.test") for p in TEST.rglob(suffix)]
    assert any(pattern.search(p.read_text()) for p in files)
