"""Every element operation, compiled for scalars and vectors, against the reference interpreter's meaning of it.

The operations of one family share a kernel, one output each, since compiling is what takes the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math
from xdsl.dialects.builtin import IntegerAttr, IntegerType, VectorType, bf16, f16, f32, f64, i1, i8, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.core.attributes import memref_type
from tilewright.interp.arith import SCALAR_OPS, numpy_dtype
from tilewright.targets.llvm.lower_ops import ELEMENT_OPS

FLOATS = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 3.5, -2.5, 0.3, -7.25, 100.0, 1e-3, np.inf, -np.inf, np.nan, 0.5, 5.0])
INTEGERS = np.array([0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 100, -100, 127, -128, 5])

BINARY_FLOAT = ["addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf"]
DIVISIONS = ["divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui"]
BINARY_INTEGER = ["addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui", *DIVISIONS]
SHIFTS = ["shli", "shrsi", "shrui"]
ROUNDING = ["absf", "ceil", "floor", "trunc", "round", "roundeven", "sqrt", "rsqrt"]
TRIGONOMETRY = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"]
UNARY_MATH = [*ROUNDING, *TRIGONOMETRY, "cbrt", "erf", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2"]
BINARY_MATH = ["atan2", "powf", "copysign"]

NO_FLAGS = {"fastmath": arith.FastMathFlagsAttr("none")}

Case = tuple[str, Attribute, dict[str, Attribute]]
"""An operation's name, its result's element type and its properties."""


class Checker:
    """Compiles operations on arrays and compares with the interpreter."""

    def __init__(self, kernel_builder: Any, compile_kernel: Any, vectors: bool) -> None:
        self.kernel_builder = kernel_builder
        self.compile_kernel = compile_kernel
        self.lanes = 16 if vectors else 1
        self.context = Context()
        for dialect in (arith.Arith, math.Math, builtin.Builtin):
            self.context.load_dialect(dialect)

    def results(
        self, cases: Sequence[Case], types: Sequence[Attribute], arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """What the compiled operations give for arrays whose length is a multiple of 16."""
        size = len(arrays[0])
        k = self.kernel_builder([memref_type(type, [size]) for type in (*types, *(case[1] for case in cases))])
        with ImplicitBuilder(k.block):

            def body(i: SSAValue) -> None:
                inputs = zip(k.args, types, strict=False)
                values = [k.load(m, [i], k.d[0] * self.lanes, type=self._typed(t)) for m, t in inputs]
                for (name, result, properties), out in zip(cases, k.args[len(types) :], strict=True):
                    op = self._operation(name, values, self._typed(result), properties)
                    k.store(op.results[0], out, [i], k.d[0] * self.lanes)

            k.loop(size // self.lanes, body)
        found = [np.zeros(size, numpy_dtype(result)) for _, result, _ in cases]
        self.compile_kernel(k.finish(verify=False))(*arrays, *found)
        return found

    def check(self, cases: Sequence[Case], types: Sequence[Attribute], *arrays: np.ndarray) -> None:
        """Compiled and interpreted results agree for every operation."""
        padded = [np.resize(array, -(-len(array) // 16) * 16) for array in arrays]
        for (name, result, properties), found in zip(cases, self.results(cases, types, padded), strict=True):
            operands = [builtin.UnrealizedConversionCastOp.create(result_types=[type]).results[0] for type in types]
            op = self._operation(name, operands, result, properties)
            with np.errstate(all="ignore"):
                expected = np.asarray(SCALAR_OPS[name](op, *padded))
            _close(found, expected, f"{name} {properties}")

    def _typed(self, type: Attribute) -> Attribute:
        return VectorType(type, [self.lanes]) if self.lanes > 1 else type

    def _operation(
        self, name: str, operands: Sequence[SSAValue], type: Attribute, properties: dict[str, Attribute]
    ) -> Operation:
        return self.context.get_op(name).create(operands=operands, result_types=[type], properties=dict(properties))


def _close(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    assert found.dtype == expected.dtype, what
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected, what)
        return
    width = 1e-2 if found.dtype.name == "bfloat16" else {2: 2e-3, 4: 2e-6, 8: 1e-14}[found.dtype.itemsize]
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=width, atol=1e-37, err_msg=what)


def _pairs(first: np.ndarray, second: np.ndarray, type: Attribute) -> list[np.ndarray]:
    return [array.ravel().astype(numpy_dtype(type)) for array in np.meshgrid(first, second)]


@pytest.fixture(params=[False, True], ids=["scalars", "vectors"])
def checker(request: pytest.FixtureRequest, kernel_builder: Any, compile_kernel: Any) -> Checker:
    return Checker(kernel_builder, compile_kernel, request.param)


@pytest.mark.parametrize("type", [f32, f64, f16, bf16], ids=str)
def test_float_arithmetic(checker: Checker, type: Attribute) -> None:
    cases = [(f"arith.{name}", type, NO_FLAGS) for name in BINARY_FLOAT]
    checker.check(cases, [type, type], *_pairs(FLOATS, FLOATS, type))


@pytest.mark.parametrize("type", [i8, i32], ids=str)
def test_integer_arithmetic(checker: Checker, type: Attribute) -> None:
    cases: list[Case] = [(f"arith.{name}", type, {}) for name in BINARY_INTEGER]
    checker.check(cases, [type, type], *_pairs(INTEGERS, INTEGERS, type))


def test_shifts_and_powers(checker: Checker) -> None:
    cases: list[Case] = [*((f"arith.{name}", i32, {}) for name in SHIFTS), ("math.ipowi", i32, {})]
    checker.check(cases, [i32, i32], *_pairs(INTEGERS, np.array([0, 1, 5, 9, 31]), i32))
    checker.check([("math.absi", i32, {})], [i32], INTEGERS.astype(np.int32))


def test_comparisons(checker: Checker) -> None:
    integer: list[Case] = [("arith.cmpi", i1, {"predicate": IntegerAttr(number, i64)}) for number in range(10)]
    checker.check(integer, [i32, i32], *_pairs(INTEGERS, INTEGERS, i32))
    floats: list[Case] = [("arith.cmpf", i1, {"predicate": IntegerAttr(n, i64), **NO_FLAGS}) for n in range(16)]
    checker.check(floats, [f32, f32], *_pairs(FLOATS, FLOATS, f32))


def test_select(checker: Checker) -> None:
    a, b = _pairs(FLOATS, FLOATS, f32)
    checker.check([("arith.select", f32, {})], [i1, f32, f32], a > b, a, b)


@pytest.mark.parametrize("type", [f32, f64, f16, bf16], ids=str)
def test_unary_math(checker: Checker, type: Attribute) -> None:
    cases: list[Case] = [(f"math.{name}", type, {}) for name in UNARY_MATH]
    checker.check(cases, [type], FLOATS.astype(numpy_dtype(type)))


@pytest.mark.parametrize("type", [f32, f64], ids=str)
def test_binary_math(checker: Checker, type: Attribute) -> None:
    cases: list[Case] = [(f"math.{name}", type, {}) for name in BINARY_MATH]
    checker.check(cases, [type, type], *_pairs(FLOATS, FLOATS, type))


CASTS: dict[Attribute, list[tuple[str, Attribute]]] = {
    f32: [("extf", f64), ("truncf", f16), ("truncf", bf16), ("bitcast", i32)],
    f16: [("extf", f32)],
    bf16: [("extf", f32)],
    f64: [("truncf", f32), ("truncf", f16), ("truncf", bf16)],
    i8: [("sitofp", f32), ("uitofp", f64), ("extsi", i32), ("extui", i64)],
    i32: [("sitofp", f32), ("trunci", i1), ("trunci", i8)],
    i64: [("bitcast", f64)],
    i1: [("extui", i32), ("extsi", i8)],
}


@pytest.mark.parametrize("source", CASTS, ids=str)
def test_casts(checker: Checker, source: Attribute) -> None:
    values = INTEGERS if isinstance(source, IntegerType) else FLOATS
    array = values % 2 == 1 if source == i1 else values.astype(numpy_dtype(source))
    checker.check([(f"arith.{name}", result, {}) for name, result in CASTS[source]], [source], array)


def test_conversions_to_integers_saturate(checker: Checker) -> None:
    values = [np.nan, np.inf, -np.inf, 3e9, -3e9, 200.7, -1.5]
    cases: list[Case] = [("arith.fptosi", i32, {}), ("arith.fptoui", i8, {})]
    signed, unsigned = checker.results(cases, [f32], [np.resize(np.array(values, np.float32), 16)])
    np.testing.assert_array_equal(signed[:7], [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 200, -1])
    np.testing.assert_array_equal(unsigned.view(np.uint8)[:7], [0, 255, 0, 255, 0, 200, 0])


def test_unsigned_values_pass_through_unrealized_casts(checker: Checker) -> None:
    u8 = IntegerType(8, builtin.Signedness.UNSIGNED)
    array = np.array([0, 1, 127, 128, 255], np.uint8)
    checker.check([("builtin.unrealized_conversion_cast", i8, {})], [u8], array)


def test_the_interpreter_knows_what_is_lowered() -> None:
    structural = {"arith.remf", "arith.index_castui", "math.fma"} | {n for n in ELEMENT_OPS if n.startswith("vector.")}
    assert ELEMENT_OPS.keys() - structural <= SCALAR_OPS.keys()
