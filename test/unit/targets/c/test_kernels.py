"""Kernels in C against the reference interpreter: each element operation on values that hurt, every kind of access.

The kernels of one test are functions of one C file, compiled with all warnings as errors and the undefined-behaviour
sanitizer, so that what C leaves undefined is found.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.interp import Interpreter
from tilewright.targets.c.emit import ModuleEmitter
from tilewright.targets.c.lower import lower_kernel
from tilewright.targets.c.lower_ops import ELEMENT_OPS
from tilewright.testing.c_model import compile_library
from tilewright.text import parse_module

SANITIZED = ("-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-static-libubsan")


def kernel(text: str) -> FuncOp:
    found = next(op for op in parse_module(text, context=make_context()).ops if isinstance(op, FuncOp))
    found.detach()  # type: ignore[no-untyped-call]
    return found


def source_of(kernels: Sequence[FuncOp]) -> str:
    """One C file whose public functions are the kernels."""
    functions = [lower_kernel(k) for k in kernels]
    for function in functions:
        del function.properties["static"]
        names = [StringAttr(f"p{number}") for number in range(len(function.body.block.args))]
        function.properties["parameters"] = ArrayAttr(names)
    emitter = ModuleEmitter(ModuleOp(list(functions)), "m")
    return emitter.header() + "".join(emitter.source("stddef.h", []))


def run(library: ctypes.CDLL, name: str, arguments: Sequence[Any]) -> None:
    """Arrays are changed in place."""
    library[f"m_kernel_{name}"](
        *(a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else ctypes.c_int64(a) for a in arguments)
    )


@dataclass
class Case:
    """One operation: operands come from arrays of their types, the result goes to one."""

    op: str
    operands: tuple[str, ...]
    result: str
    suffix: str = ""
    tolerance: float = 0.0
    values: tuple[np.ndarray, ...] = ()

    def text(self, name: str) -> str:
        count = len(self.operands)
        types = [f"memref<64x{t}>" for t in (*self.operands, self.result)]
        arguments = ", ".join(f"%m{i}: {t}" for i, t in enumerate(types))
        loads = "\n".join(f"    %x{i} = loop.load %m{i}[%i] : {types[i]}" for i in range(count))
        given = ", ".join(f"%x{i}" for i in range(count))
        signature = f"({', '.join(self.operands)}) -> {self.result}"
        return f"""
func.func private @{name}({arguments}) attributes {{tw.kernel, symbols = [], num_inputs = {count} : i64}} {{
  loop.for %i = 0 to 64 {{
{loads}
    %y = "{self.op}"({given}) {self.suffix} : {signature}
    loop.store %y, %m{count}[%i] : {types[count]}
  }}
  func.return
}}
"""


DTYPES = {
    **{f"i{w}": np.dtype(f"i{w // 8}") for w in (8, 16, 32, 64)},
    **{f"ui{w}": np.dtype(f"u{w // 8}") for w in (8, 16, 32, 64)},
    "i1": np.dtype(bool),
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
}
RANDOM = np.random.default_rng(7)


def integers(type: str) -> np.ndarray:
    """The ends of the range, small numbers, and any."""
    if type == "i1":
        return RANDOM.integers(0, 2, 64).astype(bool)
    info = np.iinfo(DTYPES[type])
    special = np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1], DTYPES[type])
    special = np.concatenate([special, -special[:5]])
    anything = RANDOM.integers(info.min, info.max, 64, DTYPES[type], endpoint=True)
    anything[:40] = RANDOM.choice(special, 40)
    return anything


def floats(type: str) -> np.ndarray:
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 300.0, -70000.0]
    )
    anything = (RANDOM.standard_normal(64) * 8).astype(DTYPES[type])
    anything[:40] = RANDOM.choice(special, 40).astype(DTYPES[type])
    return anything


def between(low: float, high: float, type: str) -> np.ndarray:
    return np.linspace(low, high, 64).astype(DTYPES[type])


INTEGER = ("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui")
DIVISION = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
SHIFTS = ("shli", "shrsi", "shrui")
FLOAT = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf")
MATH = {
    "acos": (-1, 1), "acosh": (1, 9), "asin": (-1, 1), "asinh": (-9, 9), "atan": (-9, 9), "atanh": (-0.9, 0.9),
    "cbrt": (-9, 9), "cos": (-9, 9), "cosh": (-5, 5), "erf": (-4, 4), "exp": (-80, 80), "exp2": (-80, 80),
    "expm1": (-3, 3), "log": (0.01, 99), "log10": (0.01, 99), "log1p": (-0.9, 9), "log2": (0.01, 99),
    "rsqrt": (0.1, 9), "sin": (-9, 9), "sinh": (-5, 5), "sqrt": (0, 99), "tan": (-1.5, 1.5), "tanh": (-9, 9),
}  # fmt: skip
EXACT_MATH = ("absf", "ceil", "floor", "trunc", "round", "roundeven")
NO_OVERFLOW = "<{overflowFlags = #arith.overflow<none>}>"
NO_FASTMATH = "<{fastmath = #arith.fastmath<none>}>"


def cases() -> list[Case]:
    found: list[Case] = []
    for t in ("i1", "i8", "i16", "i32", "i64"):
        found += [
            Case(f"arith.{op}", (t, t), t, NO_OVERFLOW if op in ("addi", "subi", "muli") else "") for op in INTEGER
        ]
        found += [Case("arith.cmpi", (t, t), "i1", f"<{{predicate = {p} : i64}}>") for p in range(10)]
        found += [Case("arith.select", ("i1", t, t), t)]
    for t in ("i8", "i16", "i32", "i64"):
        found += [Case(f"arith.{op}", (t, t), t) for op in DIVISION]
        width = int(t[1:])
        amounts = (np.arange(64) % width).astype(DTYPES[t])
        found += [
            Case(f"arith.{op}", (t, t), t, NO_OVERFLOW if op == "shli" else "", values=(integers(t), amounts))
            for op in SHIFTS
        ]
        found += [Case("math.absi", (t,), t)]
        bases = RANDOM.integers(-5, 6, 64).astype(DTYPES[t])
        found += [Case("math.ipowi", (t, t), t, values=(bases, np.abs(bases[::-1])))]
        found += [Case("builtin.unrealized_conversion_cast", (t,), f"u{t}")]
        found += [Case("builtin.unrealized_conversion_cast", (f"u{t}",), t)]
    for t in ("f32", "f64"):
        found += [Case(f"arith.{op}", (t, t), t, NO_FASTMATH) for op in FLOAT]
        found += [Case("arith.negf", (t,), t, NO_FASTMATH), Case("arith.select", ("i1", t, t), t)]
        found += [
            Case("arith.cmpf", (t, t), "i1", f"<{{predicate = {p} : i64, fastmath = #arith.fastmath<none>}}>")
            for p in range(16)
        ]
        found += [Case(f"math.{op}", (t,), t, NO_FASTMATH) for op in EXACT_MATH]
        small = 1e-6 if t == "f32" else 1e-14
        found += [
            Case(f"math.{op}", (t,), t, NO_FASTMATH, 4 * small, (between(low, high, t),))
            for op, (low, high) in MATH.items()
        ]
        two = (between(-3, 3, t), between(3, -2, t))
        found += [Case(f"math.{op}", (t, t), t, NO_FASTMATH, 4 * small, two) for op in ("atan2", "copysign")]
        found += [Case("math.powf", (t, t), t, NO_FASTMATH, 4 * small, (between(0.1, 3, t), two[1]))]
        found += [Case("math.fma", (t, t, t), t, NO_FASTMATH, small, (*two, between(5, 6, t)))]
    found += conversions()
    return found


def conversions() -> list[Case]:
    found: list[Case] = []
    widths = ("i1", "i8", "i16", "i32", "i64")
    for number, narrow in enumerate(widths):
        for wide in widths[number + 1 :]:
            found += [Case(f"arith.{op}", (narrow,), wide) for op in ("extsi", "extui")]
            found += [Case("arith.trunci", (wide,), narrow, NO_OVERFLOW)]
    for t in ("f32", "f64"):
        found += [Case(f"arith.{op}", (i,), t) for op in ("sitofp", "uitofp") for i in widths]
        for i in ("i8", "i16", "i32", "i64"):
            low, high = (-100, 100) if i == "i8" else (-30000, 30000)
            found += [Case("arith.fptosi", (t,), i, values=(between(low, high, t),))]
            found += [Case("arith.fptoui", (t,), i, values=(between(0, high * 2, t),))]
    found += [Case("arith.extf", ("f32",), "f64", NO_FASTMATH), Case("arith.truncf", ("f64",), "f32", NO_FASTMATH)]
    pairs = (("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("i64", "f64"))
    found += [Case("arith.bitcast", (a,), b) for a, b in pairs]
    return found


CASES = cases()


def inputs_of(case: Case) -> list[np.ndarray]:
    if case.values:
        return [v.copy() for v in case.values]
    found = [(floats if t[0] == "f" else integers)(t) for t in case.operands]
    if case.op.split(".")[1] in DIVISION:
        # What the interpreter leaves to NumPy: see the test of unusual divisors.
        found[1][(found[1] == 0) | (found[1] == -1)] = 3
    if case.op == "arith.ceildivsi":  # the interpreter negates the dividend, which the smallest number does not survive
        found[0][found[0] == np.iinfo(found[0].dtype).min] = 5
    if case.op == "arith.truncf":
        found[0][np.abs(found[0]) > 1e38] = 1.0
    return found


def test_every_element_operation_equals_the_interpreter(gcc: str, tmp_path: Path) -> None:
    kernels = [kernel(case.text(f"k{number}")) for number, case in enumerate(CASES)]
    source = tmp_path / "ops.c"
    source.write_text(source_of(kernels))
    library = compile_library(source, SANITIZED)
    context = make_context()
    for number, case in enumerate(CASES):
        inputs = inputs_of(case)
        expected, found = np.zeros(64, DTYPES[case.result]), np.zeros(64, DTYPES[case.result])
        with np.errstate(all="ignore"):
            Interpreter(ModuleOp([kernels[number]]), context).call(f"k{number}", [*inputs, expected])
        run(library, f"k{number}", [*inputs, found])
        message = f"{case.op} {case.operands} -> {case.result} {case.suffix}"
        if case.tolerance:
            np.testing.assert_allclose(found, expected, case.tolerance, case.tolerance, err_msg=message)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=message)


def test_cases_cover_the_table() -> None:
    covered = {case.op for case in CASES}
    elsewhere = {"arith.constant", "arith.index_cast", "arith.index_castui", "arith.remf"}
    assert set(ELEMENT_OPS) - covered == elsewhere


def test_what_c_leaves_undefined_is_defined(gcc: str, tmp_path: Path) -> None:
    least = np.iinfo(np.int32).min
    table = {
        "divsi": ([5, -5, least, 5], [0, 0, -1, -1], [0, 0, least, -5]),
        "remsi": ([5, -5, least, 5], [0, 0, -1, -1], [0, 0, 0, 0]),
        "floordivsi": ([5, -5, least, -7], [0, 0, -1, 2], [0, 0, least, -4]),
        "ceildivsi": ([5, -5, least, 7], [0, 0, -1, 2], [0, 0, least, 4]),
        "shli": ([1, 1, -1, 1], [31, 32, 40, -1], [least, 0, 0, 0]),
        "shrsi": ([-8, -8, 8, -8], [1, 32, 40, -1], [-4, -1, 0, -1]),
        "shrui": ([-8, -8, 8, -8], [31, 32, 40, -1], [1, 0, 0, 0]),
    }
    saturating = Case("arith.fptosi", ("f32",), "i8"), Case("arith.fptoui", ("f64",), "i8")
    ops = [Case(f"arith.{op}", ("i32", "i32"), "i32", NO_OVERFLOW if op == "shli" else "") for op in table]
    kernels = [kernel(case.text(f"k{number}")) for number, case in enumerate([*ops, *saturating])]
    source = tmp_path / "edges.c"
    source.write_text(source_of(kernels))
    library = compile_library(source, SANITIZED)
    for number, (op, (a, b, expected)) in enumerate(table.items()):
        found = np.zeros(64, np.int32)
        run(library, f"k{number}", [np.resize(np.array(a, np.int32), 64), np.resize(np.array(b, np.int32), 64), found])
        assert found[:4].tolist() == expected, op
    values = [1e9, -1e9, np.nan, 127.9, -128.9, np.inf, -0.5]
    for number, dtype, expected in (
        (len(ops), np.float32, [127, -128, 0, 127, -128, 127, 0]),
        (len(ops) + 1, np.float64, [255, 0, 0, 127, 0, 255, 0]),
    ):
        found = np.zeros(64, np.int8)
        run(library, f"k{number}", [np.resize(np.array(values, dtype), 64), found])
        assert found.view(np.uint8 if expected[0] == 255 else np.int8)[:7].tolist() == expected


STRUCTURE = """
func.func private @structure(%x: memref<8x?xf32, #tw.dims<[n]>>, %k: memref<6xi64>, %y: memref<?x4xf32, #tw.dims<[n]>>,
    %z: memref<6xf32>, %m: memref<6xi1>, %n: index)
    attributes {tw.kernel, symbols = ["n"], num_inputs = 2 : i64, num_outputs = 3 : i64} {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to %n parallel {
    %acc = loop.alloc "acc" local : memref<4xf32>
    loop.for %j = 0 to 4 unrolled {
      loop.store %zero, %acc[%j] : memref<4xf32>
      loop.for %r = 0 to min(%n, 5) {
        %a = loop.load %x[%j * 2 + %r mod 2, %i - %r] where (%r < %i + 1) else %one : memref<8x?xf32, #tw.dims<[n]>>
        %b = loop.load %acc[%j] : memref<4xf32>
        %c = arith.addf %a, %b : f32
        loop.store %c, %acc[%j] : memref<4xf32>
      }
    }
    loop.for %j = 0 to 4 vectorized {
      %a = loop.load %acc[3 - %j] : memref<4xf32>
      loop.store %a, %y[%i, %j] where (%j < %i, 0 < %j) : memref<?x4xf32, #tw.dims<[n]>>
    }
  }
  loop.for %i = 0 to 6 {
    %raw = loop.load %k[%i] : memref<6xi64>
    %at = arith.index_cast %raw : i64 to index
    %q = loop.index (%at - 3) floordiv 2 + 2
    loop.if (%i < 3) {
      %a = loop.load %x[%q, (%at - 3) mod %n] : memref<8x?xf32, #tw.dims<[n]>>
      loop.store %a, %z[%i] : memref<6xf32>
    } else {
      %w = arith.index_cast %q : index to i32
      %a = arith.sitofp %w : i32 to f32
      loop.store %a, %z[%i] : memref<6xf32>
    }
    %v = loop.load %z[%i] : memref<6xf32>
    %t = arith.cmpf ogt, %v, %zero : f32
    %old = loop.load %m[%i] : memref<6xi1>
    %new = arith.xori %t, %old : i1
    loop.store %new, %m[%i] : memref<6xi1>
  }
  func.return
}
"""


PARALLEL = ("-fopenmp", '-DTW_PARALLEL_LOOP=_Pragma("omp parallel for")')


@pytest.mark.parametrize("flags", [SANITIZED, PARALLEL], ids=["serial", "parallel"])
def test_accesses_guards_and_conditions_equal_the_interpreter(gcc: str, tmp_path: Path, flags: tuple[str, ...]) -> None:
    found = kernel(STRUCTURE)
    source = tmp_path / "structure.c"
    source.write_text(source_of([found]))
    assert "TW_PARALLEL_LOOP\n  for (int64_t i = 0; i < p5; ++i)" in source.read_text()
    library = compile_library(source, flags)
    context = make_context()
    for n in (1, 3, 9):
        x = RANDOM.standard_normal((8, n)).astype(np.float32)
        k = np.array([0, 1, 6, 2, 5, 7])
        results = []
        for call in ("interpreter", "c"):
            y, z = np.full((n, 4), 7, np.float32), np.zeros(6, np.float32)
            m = np.array([True, False] * 3)
            arguments = [x, k, y, z, m, n]
            if call == "c":
                run(library, "structure", arguments)
            else:
                Interpreter(ModuleOp([found.clone()]), context).call("structure", arguments)
            results.append((y, z, m))
        for expected, ours in zip(*results):
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a = loop.load %x[0] : memref<8xbf16>", "'loop.load' op has a value of type bf16, which portable C lacks"),
        ("%a = loop.load %y[0] : memref<8xf32> -> vector<4xf32>", "'loop.load' op has a value of type vector<4xf32>"),
        ('%a = loop.alloc "a" global : memref<4xf32>', "'loop.alloc' op is in main memory"),
        ('%a = loop.alloc "a" local : memref<65536xf32>', "'loop.alloc' op brings local buffers to 262144 bytes"),
        ("%a = arith.constant 1.0 : f16", "'arith.constant' op has a value of type f16"),
        ("%c = arith.constant 1 : i32\n  %a = math.ctpop %c : i32", "'math.ctpop' op has no lowering to C"),
    ],
)
def test_refusals_name_the_operation(body: str, message: str) -> None:
    other = "bf16" if "bf16" in body else "f32"
    text = f"""
func.func private @k(%x: memref<8x{other}>, %y: memref<8xf32>) attributes {{tw.kernel, symbols = []}} {{
  {body}
  func.return
}}
"""
    with pytest.raises(DiagnosticError) as caught:
        lower_kernel(kernel(text))
    found = str(caught.value)
    assert message in found or (other == "bf16" and "'func.func' op has a value of type bf16" in found)
