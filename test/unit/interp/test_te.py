"""The te interpreter: index grids, strided and gathered reads, guards, chunks of reductions, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.interp import Interpreter, te
from tilewright.text import parse_module


def run(text: str, *arrays: Any) -> np.ndarray[Any, Any]:
    context = make_context()
    module = parse_module(text, context=context)
    module.verify()
    (result,) = Interpreter(module, context).call("main", [np.asarray(a) for a in arrays])
    return np.asarray(result)


def program(types: str, compute: str, result: str) -> str:
    arguments = ", ".join(f"%{chr(ord('x') + k)}: {t}" for k, t in enumerate(types.split("; ")))
    return f"func.func @main({arguments}) -> {result} {{\n%r = {compute}\nfunc.return %r : {result}\n}}"


SUM = """te.compute (%x as %a, %y as %b) [%i, %j] in [4, 5] reduce [%k] in [6] -> tensor<4x5xf32> {
  %v = te.read %a[%i, %k] : f32
  %w = te.read %b[%k, %j] : f32
  %p = arith.mulf %v, %w : f32
  te.yield sum %p : f32
}"""


def test_contraction_and_chunks_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(0, 1, (4, 6)).astype(np.float32), random.normal(0, 1, (6, 5)).astype(np.float32)
    text = program("tensor<4x6xf32>; tensor<6x5xf32>", SUM, "tensor<4x5xf32>")
    by_einsum = run(text, a, b)
    monkeypatch.setattr(te, "contraction_reads", lambda op: None)
    at_once = run(text, a, b)
    monkeypatch.setattr(te, "CHUNK", 40)
    in_chunks = run(text, a, b)
    for found in (by_einsum, at_once, in_chunks):
        np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("combiner", "expected"),
    [("sum", [6, 6]), ("prod", [0, 15]), ("max", [3, 5]), ("min", [0, -1])],
)
def test_combiners(combiner: str, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(te, "CHUNK", 3)
    x = np.array([[1, 2, 3, 0], [5, 3, -1, -1]], np.int32)
    compute = f"""te.compute (%x as %a) [%i] in [2] reduce [%k] in [4] -> tensor<2xi32> {{
      %v = te.read %a[%i, %k] : i32
      te.yield {combiner} %v : i32
    }}"""
    found = run(program("tensor<2x4xi32>", compute, "tensor<2xi32>"), x)
    assert found.tolist() == expected and found.dtype == np.int32


def test_argmax_takes_the_first_of_equal_values_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(te, "CHUNK", 2)
    text = """func.func @main(%x: tensor<5xf32>) -> tensor<i64> {
      %v, %r = te.compute (%x as %a) [] in [] reduce [%k] in [5] -> tensor<f32>, tensor<i64> {
        %e = te.read %a[%k] : f32
        %i = arith.index_cast %k : index to i64
        te.yield argmax %e, %i : f32, i64
      }
      func.return %r : tensor<i64>
    }"""
    assert run(text, np.array([1, 7, 3, 7, 7], np.float32)) == 1
    assert run(text, np.array([1, 7, np.nan, 7, np.nan], np.float32)) == 2


def test_guarded_read_outside_of_the_tensor() -> None:
    compute = """te.compute (%x as %a) [%i] in [6] -> tensor<6xf32> {
      %d = arith.constant 9.0 : f32
      %v = te.read %a[%i * 2 - 2] else %d : f32
      te.yield %v : f32
    }"""
    found = run(program("tensor<4xf32>", compute, "tensor<6xf32>"), np.arange(4, dtype=np.float32))
    assert found.tolist() == [9, 0, 2, 9, 9, 9]


@pytest.mark.parametrize("index", ["%i - 1", "%i + 1", "%i * 2", "%i floordiv 2 * 5"])
def test_read_outside_is_an_error(index: str) -> None:
    compute = f"""te.compute (%x as %a) [%i] in [4] -> tensor<4xf32> {{
      %v = te.read %a[{index}] : f32
      te.yield %v : f32
    }}"""
    with pytest.raises(DiagnosticError, match="outside of"):
        run(program("tensor<4xf32>", compute, "tensor<4xf32>"), np.zeros(4, np.float32))


def test_data_dependent_read_and_index_values() -> None:
    compute = """te.compute (%x as %a, %y as %b) [%i] in [3] -> tensor<3xf32> {
      %p = te.read %b[%i] : i64
      %at = arith.index_cast %p : i64 to index
      %v = te.read %a[%at, %i mod 2] : f32
      %k = te.index %i * 10
      %c = arith.index_cast %k : index to i64
      %f = arith.sitofp %c : i64 to f32
      %s = arith.addf %v, %f : f32
      te.yield %s : f32
    }"""
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    found = run(program("tensor<4x2xf32>; tensor<3xi64>", compute, "tensor<3xf32>"), x, np.array([3, 0, 2]))
    assert found.tolist() == [6 + 0, 1 + 10, 4 + 20]


def test_symbols_come_from_shapes() -> None:
    enc = "#tw.enc<dims = [n]>"
    compute = f"""te.compute (%x as %a) [%i, %j] in [2, n] -> tensor<2x?xf32, {enc}> {{
      %v = te.read %a[%j * 2 + %i] : f32
      te.yield %v : f32
    }}"""
    text = f"""func.func @main(%w: tensor<?xf32, {enc}>, %x: tensor<?xf32, #tw.enc<dims = [n * 2]>>)
        -> tensor<2x?xf32, {enc}> {{
      %r = {compute}
      func.return %r : tensor<2x?xf32, {enc}>
    }}"""
    found = run(text, np.zeros(3, np.float32), np.arange(6, dtype=np.float32))
    assert found.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_reduction_over_nothing_gives_the_identity() -> None:
    compute = """te.compute (%x as %a) [%i] in [2] reduce [%k] in [0] -> tensor<2xf32> {
      %v = te.read %a[%i, %k] : f32
      te.yield max %v : f32
    }"""
    found = run(program("tensor<2x0xf32>", compute, "tensor<2xf32>"), np.zeros((2, 0), np.float32))
    assert found.tolist() == [-np.inf, -np.inf]
