"""The loop interpreter: order, blocks and their init regions, guards, memory errors, vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.interp import Interpreter
from tilewright.interp.loop import allocate
from tilewright.text import parse_module


def run(signature: str, body: str, *args: Any, symbols: str = "[]") -> None:
    """Calls a kernel that writes into its arguments."""
    context = make_context()
    text = f"func.func @k({signature}) attributes {{symbols = {symbols}}} {{\n{body}\nfunc.return\n}}"
    module = parse_module(text, context=context)
    module.verify()
    assert Interpreter(module, context).call("k", list(args)) == []


def floats(*extents: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(extents), dtype=np.float32).reshape(extents)


ROW_SUM = """loop.for %k = 0 to 3 {
  loop.for %i = 0 to 2 {
    loop.block "s" spatial(%vi in 2 = %i) reduce(%vk in 3 = %k) init {
      %z = arith.constant 0.0 : f32
      loop.store %z, %o[%vi] : memref<2xf32>
    } {
      %a = loop.load %x[%vi, %vk] : memref<2x3xf32>
      %s = loop.load %o[%vi] : memref<2xf32>
      %t = arith.addf %s, %a : f32
      loop.store %t, %o[%vi] : memref<2xf32>
    }
  }
}"""


def test_init_runs_where_all_reduce_iterators_are_zero() -> None:
    out = np.full(2, np.nan, np.float32)
    run("%x: memref<2x3xf32>, %o: memref<2xf32>", ROW_SUM, floats(2, 3), out)
    assert out.tolist() == [3, 12]


def test_block_where_and_symbolic_extents() -> None:
    body = """loop.for %i = 0 to %n ceildiv 4 parallel {
      loop.for %j = 0 to 4 vectorized {
        loop.block "c" spatial(%v in %n = %i * 4 + %j) where(%i * 4 + %j < %n) {
          %a = loop.load %x[%v] : memref<?xf32, #tw.dims<[n]>>
          loop.store %a, %o[%n - %v - 1] : memref<?xf32, #tw.dims<[n]>>
        }
      }
    }"""
    out = np.zeros(6, np.float32)
    signature = "%x: memref<?xf32, #tw.dims<[n]>>, %o: memref<?xf32, #tw.dims<[n]>>, %n: index"
    run(signature, body, floats(6), out, 6, symbols='["n"]')
    assert out.tolist() == [5, 4, 3, 2, 1, 0]


def test_guarded_load_touches_no_memory() -> None:
    body = """%d = arith.constant 7.0 : f32
    loop.for %i = 0 to 4 {
      %a = loop.load %x[%i - 2] where (-1 < %i - 2) else %d : memref<2xf32>
      loop.store %a, %o[%i] : memref<4xf32>
    }"""
    out = np.zeros(4, np.float32)
    run("%x: memref<2xf32>, %o: memref<4xf32>", body, floats(2), out)
    assert out.tolist() == [7, 7, 0, 1]


@pytest.mark.parametrize("index", ["%i - 1", "%i + 1", "%i * 3 - 2"])
@pytest.mark.parametrize("access", ["load", "store"])
def test_access_out_of_bounds_is_an_error(access: str, index: str) -> None:
    use = {
        "load": f"%a = loop.load %x[{index}] : memref<4xf32>",
        "store": f"%a = arith.constant 0.0 : f32\nloop.store %a, %x[{index}] : memref<4xf32>",
    }[access]
    with pytest.raises(DiagnosticError, match="out of bounds"):
        run("%x: memref<4xf32>", f"loop.for %i = 0 to 4 {{\n{use}\n}}", floats(4))


def test_conditional_and_local_buffer() -> None:
    body = """loop.for %i = 0 to 4 {
      %b = loop.alloc "b" local : memref<1xf32>
      loop.if (%i < 2) {
        %a = loop.load %x[%i] : memref<4xf32>
        loop.store %a, %b[0] : memref<1xf32>
      } else {
        %c = arith.constant 5.0 : f32
        loop.store %c, %b[0] : memref<1xf32>
      }
      %r = loop.load %b[0] : memref<1xf32>
      loop.store %r, %o[%i] : memref<4xf32>
    }"""
    out = np.zeros(4, np.float32)
    run("%x: memref<4xf32>, %o: memref<4xf32>", body, floats(4), out)
    assert out.tolist() == [0, 1, 5, 5]


def test_new_memory_has_a_pattern() -> None:
    assert np.isnan(allocate((2,), np.dtype(np.float32))).all()
    assert (allocate((2,), np.dtype(np.int32)) == np.iinfo(np.int32).max).all()
    body = """%b = loop.alloc "b" global : memref<2xf32>
    loop.for %i = 0 to 2 {
      %r = loop.load %b[%i] : memref<2xf32>
      loop.store %r, %o[%i] : memref<2xf32>
    }"""
    out = np.zeros(2, np.float32)
    run("%o: memref<2xf32>", body, out)
    assert np.isnan(out).all()


def test_more_loops_than_python_nests() -> None:
    depth = 40
    open_loops = "".join(f"loop.for %i{k} = 0 to 1 {{\n" for k in range(depth))
    body = f"""{open_loops}
      %v = arith.constant 1.0 : f32
      loop.store %v, %o[%i0 + %i{depth - 1}] : memref<1xf32>
    {"}" * depth}"""
    out = np.zeros(1, np.float32)
    run("%o: memref<1xf32>", body, out)
    assert out.tolist() == [1]


def test_vectors() -> None:
    body = """%one = arith.constant 1.0 : f32
    loop.for %i = 0 to 2 {
      %a = loop.load %x[%i, 0] : memref<2x4xf32> -> vector<4xf32>
      %b = vector.broadcast %one : f32 to vector<4xf32>
      %c = arith.addf %a, %b : vector<4xf32>
      %d = vector.fma %c, %c, %b : vector<4xf32>
      loop.store %d, %o[%i, 0] : vector<4xf32>, memref<2x4xf32>
    }"""
    out = np.zeros((2, 4), np.float32)
    run("%x: memref<2x4xf32>, %o: memref<2x4xf32>", body, floats(2, 4), out)
    assert (out == (floats(2, 4) + 1) ** 2 + 1).all()


def test_vector_access_out_of_bounds_is_an_error() -> None:
    body = """loop.for %i = 0 to 2 {
      %a = loop.load %x[%i * 3] : memref<6xf32> -> vector<4xf32>
      loop.store %a, %x[0] : vector<4xf32>, memref<6xf32>
    }"""
    with pytest.raises(DiagnosticError, match="out of bounds"):
        run("%x: memref<6xf32>", body, floats(6))


def test_integers_wrap_and_halves_round() -> None:
    body = """loop.for %i = 0 to 1 {
      %a = loop.load %x[%i] : memref<1xi32>
      %b = arith.addi %a, %a : i32
      loop.store %b, %x[%i] : memref<1xi32>
      %h = loop.load %y[%i] : memref<1xf16>
      %k = arith.mulf %h, %h : f16
      loop.store %k, %y[%i] : memref<1xf16>
    }"""
    x, y = np.array([2**30 + 2**29], np.int32), np.array([1.001], np.float16)
    expected = y * y
    run("%x: memref<1xi32>, %y: memref<1xf16>", body, x, y)
    assert x[0] == -(2**30) and y[0] == expected[0]
