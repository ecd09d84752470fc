"""Every element operation, compiled for scalars and vectors, against the reference interpreter's meaning of it."""

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


def _operation(name: str) -> type[Operation]:
    context = Context()
    for dialect in (arith.Arith, math.Math, builtin.Builtin):
        context.load_dialect(dialect)
    return context.get_op(name)


def _run(
    builders: tuple[Any, Any],
    name: str,
    arrays: Sequence[np.ndarray],
    types: Sequence[Attribute],
    result: Attribute,
    vectors: bool,
    properties: dict[str, Attribute] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What the compiled operation gives for the arrays, and what the interpreter gives."""
    kernel_builder, compile_kernel = builders
    arrays = [np.resize(array, -(-len(array) // 16) * 16) for array in arrays]
    size = len(arrays[0])
    lanes = 16 if vectors else 1
    k = kernel_builder([memref_type(type, [size]) for type in (*types, result)])

    def typed(type: Attribute) -> Attribute:
        return VectorType(type, [lanes]) if vectors else type

    ops: list[Operation] = []
    with ImplicitBuilder(k.block):

        def body(i: SSAValue) -> None:
            values = [k.load(m, [i], k.d[0] * lanes, type=typed(t)) for m, t in zip(k.args, types, strict=False)]
            op = _operation(name).create(operands=values, result_types=[typed(result)], properties=properties or {})
            ops.append(op)
            k.store(op.results[0], k.args[-1], [i], k.d[0] * lanes)

        k.loop(size // lanes, body)
    found = np.zeros(size, numpy_dtype(result))
    compile_kernel(k.finish(verify=False))(*arrays, found)
    scalar = _operation(name).create(operands=ops[0].operands, result_types=[result], properties=properties or {})
    with np.errstate(all="ignore"):
        expected = np.asarray(SCALAR_OPS[name](scalar, *arrays))
    scalar.erase()
    return found, expected


@pytest.fixture(params=[False, True], ids=["scalars", "vectors"])
def vectors(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def builders(kernel_builder: Any, compile_kernel: Any) -> tuple[Any, Any]:
    return kernel_builder, compile_kernel


def _pairs(values: np.ndarray) -> list[np.ndarray]:
    a, b = np.meshgrid(values, values)
    return [a.ravel(), b.ravel()]


def _close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected)
    else:
        width = {2: 2e-3, 4: 2e-6, 8: 1e-14}[found.dtype.itemsize]
        width = 1e-2 if found.dtype.name == "bfloat16" else width
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=width, atol=1e-37)


@pytest.mark.parametrize("name", BINARY_FLOAT)
@pytest.mark.parametrize("type", [f32, f64, f16], ids=str)
def test_float_arithmetic(builders: tuple[Any, Any], name: str, type: Attribute, vectors: bool) -> None:
    arrays = [a.astype(numpy_dtype(type)) for a in _pairs(FLOATS)]
    flags = {"fastmath": arith.FastMathFlagsAttr("none")}
    _close(*_run(builders, f"arith.{name}", arrays, [type, type], type, vectors, flags))


@pytest.mark.parametrize("name", BINARY_INTEGER)
@pytest.mark.parametrize("type", [i8, i32], ids=str)
def test_integer_arithmetic(builders: tuple[Any, Any], name: str, type: Attribute, vectors: bool) -> None:
    arrays = [a.astype(numpy_dtype(type)) for a in _pairs(INTEGERS)]
    _close(*_run(builders, f"arith.{name}", arrays, [type, type], type, vectors))


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts(builders: tuple[Any, Any], name: str, vectors: bool) -> None:
    values, amounts = np.meshgrid(INTEGERS, np.array([0, 1, 5, 31]))
    arrays = [values.ravel().astype(np.int32), amounts.ravel().astype(np.int32)]
    _close(*_run(builders, f"arith.{name}", arrays, [i32, i32], i32, vectors))


@pytest.mark.parametrize("predicate", range(10))
def test_integer_comparisons(builders: tuple[Any, Any], predicate: int, vectors: bool) -> None:
    arrays = [a.astype(np.int32) for a in _pairs(INTEGERS)]
    properties = {"predicate": IntegerAttr(predicate, i64)}
    _close(*_run(builders, "arith.cmpi", arrays, [i32, i32], i1, vectors, properties))


@pytest.mark.parametrize("predicate", range(16))
def test_float_comparisons(builders: tuple[Any, Any], predicate: int, vectors: bool) -> None:
    arrays = [a.astype(np.float32) for a in _pairs(FLOATS)]
    properties = {"predicate": IntegerAttr(predicate, i64), "fastmath": arith.FastMathFlagsAttr("none")}
    _close(*_run(builders, "arith.cmpf", arrays, [f32, f32], i1, vectors, properties))


def test_select(builders: tuple[Any, Any], vectors: bool) -> None:
    a, b = (x.astype(np.float32) for x in _pairs(FLOATS))
    _close(*_run(builders, "arith.select", [a > b, a, b], [i1, f32, f32], f32, vectors))


@pytest.mark.parametrize("name", UNARY_MATH)
@pytest.mark.parametrize("type", [f32, f64, f16], ids=str)
def test_unary_math(builders: tuple[Any, Any], name: str, type: Attribute, vectors: bool) -> None:
    _close(*_run(builders, f"math.{name}", [FLOATS.astype(numpy_dtype(type))], [type], type, vectors))


@pytest.mark.parametrize("name", BINARY_MATH)
@pytest.mark.parametrize("type", [f32, f64], ids=str)
def test_binary_math(builders: tuple[Any, Any], name: str, type: Attribute, vectors: bool) -> None:
    arrays = [a.astype(numpy_dtype(type)) for a in _pairs(FLOATS)]
    _close(*_run(builders, f"math.{name}", arrays, [type, type], type, vectors))


def test_integer_functions(builders: tuple[Any, Any], vectors: bool) -> None:
    _close(*_run(builders, "math.absi", [INTEGERS.astype(np.int32)], [i32], i32, vectors))
    base, power = (a.ravel().astype(np.int32) for a in np.meshgrid(INTEGERS, np.array([0, 1, 2, 5, 9])))
    _close(*_run(builders, "math.ipowi", [base, power], [i32, i32], i32, vectors))


CASTS = [
    ("extf", f32, f64),
    ("extf", f16, f32),
    ("extf", bf16, f32),
    ("truncf", f64, f32),
    ("truncf", f32, f16),
    ("truncf", f32, bf16),
    ("sitofp", i32, f32),
    ("sitofp", i8, f64),
    ("uitofp", i8, f32),
    ("fptosi", f32, i32),
    ("fptosi", f64, i64),
    ("fptosi", f32, i8),
    ("extsi", i8, i32),
    ("extui", i8, i64),
    ("extui", i1, i32),
    ("extsi", i1, i8),
    ("trunci", i64, i8),
    ("trunci", i32, i1),
    ("bitcast", f32, i32),
    ("bitcast", i64, f64),
]


@pytest.mark.parametrize("name,source,result", CASTS, ids=str)
def test_casts(builders: tuple[Any, Any], name: str, source: Attribute, result: Attribute, vectors: bool) -> None:
    values = INTEGERS if isinstance(source, IntegerType) else FLOATS
    if name == "fptosi":
        values = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        array = (values % 2 == 1) if source == i1 else values.astype(numpy_dtype(source))
    _close(*_run(builders, f"arith.{name}", [array], [source], result, vectors))


def test_conversions_to_integers_saturate(builders: tuple[Any, Any], vectors: bool) -> None:
    array = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 200.0], np.float32)
    found, _ = _run(builders, "arith.fptosi", [array], [f32], i32, vectors)
    np.testing.assert_array_equal(found[:6], [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 200])
    found, _ = _run(builders, "arith.fptoui", [array], [f32], i8, vectors)
    np.testing.assert_array_equal(found.view(np.uint8)[:6], [0, 255, 0, 255, 0, 200])


def test_unsigned_values_pass_through_unrealized_casts(builders: tuple[Any, Any], vectors: bool) -> None:
    u8 = IntegerType(8, builtin.Signedness.UNSIGNED)
    array = np.array([0, 1, 127, 128, 255], np.uint8)
    _close(*_run(builders, "builtin.unrealized_conversion_cast", [array], [u8], i8, vectors))


def test_the_interpreter_knows_what_is_lowered() -> None:
    structural = {"arith.remf", "arith.index_castui", "math.fma"} | {n for n in ELEMENT_OPS if n.startswith("vector.")}
    assert ELEMENT_OPS.keys() - structural <= SCALAR_OPS.keys()
