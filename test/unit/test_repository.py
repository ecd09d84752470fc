"""Rules about the source tree itself that no type checker knows."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_PACKAGES = {"test", "docs", "bench", "build", "dist", "out"}


def source_files(*folders: str) -> list[Path]:
    roots = [ROOT / f for f in folders] if folders else [ROOT]
    found = [path for root in roots for path in sorted(root.rglob("*.py"))]
    return [p for p in found if not any(part.startswith(".") or part == "build" for part in p.relative_to(ROOT).parts)]


def words_of_code(path: Path) -> Iterator[tuple[str, int]]:
    """Identifiers and string constants of a file with their lines; docstrings and comments are prose, not code."""
    tree = ast.parse(path.read_text())
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.add(id(node.value))
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            yield node.id, line
        elif isinstance(node, ast.Attribute):
            yield node.attr, line
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", line
        elif isinstance(node, ast.alias | ast.FunctionDef | ast.ClassDef):
            yield node.name, line
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value, line


def test_every_package_is_declared() -> None:
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = set()
    for init in ROOT.rglob("__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if any(p.startswith(".") for p in parts) or (parts and parts[0] in NOT_PACKAGES):
            continue
        found.add(".".join(("tilewright", *parts)))
    assert declared == found


@pytest.mark.parametrize("folder", ["targets", "passes/loop"])
def test_targets_and_loop_passes_name_no_graph_op(folder: str) -> None:
    """Targets and loop passes see structure only, so that a new graph op needs no change there."""
    from tilewright.dialects.graph import GRAPH

    names = {op.name for op in GRAPH.operations}
    wrong = []
    for path in source_files(folder):
        for word, line in words_of_code(path):
            if word in names or re.search(r"dialects[./]graph", word):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {word}")
    assert not wrong


def test_no_code_names_a_model() -> None:
    """Speed and correctness come from the structure of kernels, never from knowing a model."""
    from tilewright.testing.models import light_models

    words = {re.sub(r"\d+$", "", part) for name in light_models() for part in name.split("_")}
    pattern = re.compile("|".join(sorted(w for w in words if len(w) > 2)), re.IGNORECASE)
    wrong = []
    for path in source_files():
        for word, line in words_of_code(path):
            if pattern.search(word):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {word}")
    assert not wrong


def test_no_file_is_too_long() -> None:
    """A file tells one story; past 600 lines a second one has begun."""
    long = {str(p.relative_to(ROOT)): n for p in source_files() if (n := len(p.read_text().splitlines())) > 600}
    assert not long


def test_documents_name_levels_and_files_that_exist() -> None:
    from tilewright.core.target import make_target
    from tilewright.targets.llvm.host_target import LLVM_TARGET
    from tilewright.tools.stages import stages

    names = [*(stage.name for stage in stages(LLVM_TARGET, make_target())), LLVM_TARGET.level]
    levels = {f"{number:02}_{name}.ir" for number, name in enumerate(names)}
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        text = document.read_text()
        assert set(re.findall(r"\b\d\d_\w+\.ir\b", text)) <= levels, document.name
        for path in re.findall(r"`((?:core|text|dialects|interp|passes|frontends|targets|tools|test)/[\w/.]+)`", text):
            assert (ROOT / path).exists(), f"{document.name} names {path}"
