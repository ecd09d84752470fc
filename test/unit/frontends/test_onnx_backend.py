"""ONNX's backend interface, and its test suite through the reference interpreter."""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tilewright.core.diagnostics import DiagnosticError
from tilewright.frontends.onnx import backend
from tilewright.frontends.onnx.table import rules
from tilewright.testing.onnx_models import model, value

NOT_IN_NODE_TESTS = {
    # Operators without a test of their own, with tests only of a part that is not supported, or withdrawn ones.
    "Scatter",
    "Upsample",
}


def suite() -> ModuleType:
    path = Path(__file__).parents[3] / "bench" / "onnx_suite.py"
    spec = importlib.util.spec_from_file_location("onnx_suite", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnx_suite"] = module
    spec.loader.exec_module(module)
    return module


def test_prepare_and_run() -> None:
    made = model([helper.make_node("Add", ["a", "b"], ["y"])], [value("a", [2]), value("b", [2])])
    prepared = backend.prepare(made, executor="interpreter")
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    for inputs in ([a, b], {"b": b, "a": a}):
        np.testing.assert_array_equal(prepared.run(inputs)[0], [4, 6])
    with pytest.raises(ValueError, match="inputs are missing: b"):
        prepared.run([a])


def test_shape_inputs_specialise_at_run() -> None:
    made = model([helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", [6]), value("s", [2], np.int64)])
    prepared = backend.prepare(made, executor="interpreter")
    x = np.arange(6, dtype=np.float32)
    assert prepared.run([x, np.array([2, 3])])[0].shape == (2, 3)
    assert prepared.run([x, np.array([-1, 1])])[0].shape == (6, 1)


def test_run_node_and_devices() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    (found,) = backend.run_node(node, [np.array([-1, 2], np.float32)], executor="interpreter")
    np.testing.assert_array_equal(found, [0, 2])
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA")
    with pytest.raises(ValueError, match="CUDA"):
        backend.prepare(model([node], [value("x", [2])]), "CUDA")


def test_unsupported_models_are_refused() -> None:
    made = model([helper.make_node("NonMaxSuppression", ["x", "x"], ["y"])], [value("x", [1, 2, 4])])
    assert not backend.is_compatible(made)
    with pytest.raises(DiagnosticError, match="not supported"):
        backend.prepare(made, executor="interpreter")


def test_node_suite_has_right_values_for_every_operator() -> None:
    """Two tests of each operator (of its first element types) must not be wrong, and each rule passes at least one."""
    bench = suite()
    by_operator = defaultdict(list)
    for kind, test in bench.load_tests(["node"], ""):
        if len(test.model.graph.node) == 1:
            by_operator[test.model.graph.node[0].op_type].append((kind, test))
    passed: set[str] = set()
    wrong: list[str] = []
    for operator, tests in by_operator.items():
        if ("", operator) not in rules():
            continue
        for _, test in tests[:2] if len(tests) < 6 else tests[:: max(1, len(tests) // 4)]:
            state, message = bench.run_test(test, "interpreter")
            if state == "passed":
                passed.add(operator)
            elif state != "unsupported":
                wrong.append(f"{test.name}: {state}: {message[:200]}")
    assert not wrong
    missing = {name for _, name in rules() if name in by_operator} - passed
    assert not missing - NOT_IN_NODE_TESTS


def test_the_documentation_lists_every_operator_with_a_rule() -> None:
    text = (Path(__file__).parents[3] / "docs" / "onnx.md").read_text(encoding="utf-8")
    section = text.split("## Operators")[1].split("\n## ")[0]
    tables = [line for line in section.splitlines() if line.startswith("|")]
    listed = [name.strip() for line in tables[2:] for name in line.strip("|").split("|")[1].split(",")]
    assert sorted(listed) == sorted(name for _, name in rules())


def test_compiled_node_tests_have_right_values() -> None:
    """A sample over the operators; ``bench/onnx_suite.py`` runs them all."""
    bench = suite()
    first: dict[str, Any] = {}
    for _, test in bench.load_tests(["node"], ""):
        if len(test.model.graph.node) == 1:
            first.setdefault(test.model.graph.node[0].op_type, test)
    chosen = [first[name] for _, name in sorted(rules())[::6] if name in first]
    outcomes = {test.name: bench.run_test(test, "compiled") for test in chosen}
    assert len(outcomes) > 15
    assert {name: o for name, o in outcomes.items() if o[0] not in ("passed", "unsupported")} == {}
    assert sum(state == "passed" for state, _ in outcomes.values()) > len(outcomes) * 3 // 4
