"""Branches and loops over tensors, compiled to native code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.verifier import verify
from tilewright.interp import Interpreter
from tilewright.runtime import Model
from tilewright.text import parse_module

V = "tensor<?xf32, #tw.enc<dims = [n]>>"
# if (f) r = relu(x) else r = x; then k Fibonacci-like steps on (p, q) = (r, x), which swap places as they go.
TEXT = f"""
func.func @main(%f: tensor<i1> {{tw.name = "f"}}, %x: {V} {{tw.name = "x"}}, %k: tensor<i64> {{tw.name = "k"}})
    -> ({V} {{tw.name = "p"}}, {V} {{tw.name = "q"}}) {{
  %c = tensor.extract %f[] : tensor<i1>
  %r = scf.if %c -> ({V}) {{
    %a = graph.relu %x : ({V}) -> {V}
    scf.yield %a : {V}
  }} else {{
    scf.yield %x : {V}
  }}
  %zero = graph.constant dense<0> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %i, %p, %q = scf.while (%i0 = %zero, %p0 = %r, %q0 = %x) : (tensor<i64>, {V}, {V}) -> (tensor<i64>, {V}, {V}) {{
    %less = graph.compare %i0, %k {{predicate = "lt"}} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %go = tensor.extract %less[] : tensor<i1>
    scf.condition(%go) %i0, %p0, %q0 : tensor<i64>, {V}, {V}
  }} do {{
  ^bb0(%i1: tensor<i64>, %p1: {V}, %q1: {V}):
    %i2 = graph.add %i1, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %s = graph.add %p1, %q1 : ({V}, {V}) -> {V}
    scf.yield %i2, %s, %p1 : tensor<i64>, {V}, {V}
  }}
  func.return %p, %q : {V}, {V}
}}
"""


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("control")
    (folder / "main.ir").write_text(TEXT)
    tilewright.compile(folder / "main.ir", output=folder / "model.twm", dump_ir=folder / "levels")
    return folder / "levels"


@pytest.fixture(scope="module")
def model(levels: Path) -> Model:
    return tilewright.load(levels.parent / "model.twm")


def expected(flag: bool, x: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    p, q = (np.maximum(x, 0) if flag else x), x
    for _ in range(steps):
        p, q = p + q, p
    return p, q


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 6])
@pytest.mark.parametrize("n", [1, 37])
def test_native_code(model: Model, flag: bool, steps: int, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    for found, wanted in zip(model(np.array(flag), x, np.array(steps)), expected(flag, x, steps)):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_interpreter_agrees_on_every_level(levels: Path) -> None:
    x = np.random.default_rng(0).standard_normal(5).astype(np.float32)
    for name in ("00_import", "02_fused", "08_host"):
        context = make_context()
        module = parse_module((levels / f"{name}.ir").read_text(), context=context)
        verify(module)
        found = Interpreter(module, context).call("main", [np.array(True), x, np.array(3)])
        for ours, theirs in zip(found, expected(True, x, 3)):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, err_msg=name)


def test_a_size_that_depends_on_the_branch_is_refused(tmp_path: Path) -> None:
    other = "tensor<?xf32, #tw.enc<dims = [m]>>"
    text = f"""
    func.func @main(%f: tensor<i1>, %x: {V}, %y: tensor<3xf32>) -> {other} {{
      %c = tensor.extract %f[] : tensor<i1>
      %r = scf.if %c -> ({other}) {{
        %a = graph.match_shape %x : ({V}) -> {other}
        scf.yield %a : {other}
      }} else {{
        %b = graph.match_shape %y : (tensor<3xf32>) -> {other}
        scf.yield %b : {other}
      }}
      func.return %r : {other}
    }}
    """
    (tmp_path / "m.ir").write_text(text)
    with pytest.raises(DiagnosticError, match=r"uses the symbol 'm', which no input and no graph.match_shape binds"):
        tilewright.compile(tmp_path / "m.ir")
