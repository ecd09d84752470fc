"""Vector math against NumPy in float64: the errors that the docstrings of math_*.py state, and special values."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.targets.llvm.jit import load_ir
from tilewright.targets.llvm.math import BINARY_F32, LIBM, UNARY_F32, UnknownFunction, math_function

REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1.0) / (1.0 + np.exp(-np.abs(x))),
    "pow": np.power,
}
SPECIALS = np.array(
    [
        "0",
        "-0",
        "1",
        "-1",
        "2",
        "-2",
        "0.5",
        "-0.5",
        "3",
        "-3",
        "inf",
        "-inf",
        "nan",
        "1e-45",
        "-1e-45",
        "1.1754944e-38",
        "3e38",
        "-3e38",
        "16777216",
        "16777218",
        "88.72",
        "88.73",
        "-103.97",
        "-104.5",
        "127.9",
        "128",
        "-149",
        "-151",
        "4",
        "9.1",
    ],
    np.float32,
)
DRIVER = """
define void @run(ptr noalias %o, ptr noalias %p0, ptr noalias %p1, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %q0 = getelementptr ELEMENT, ptr %p0, i64 %i
  %q1 = getelementptr ELEMENT, ptr %p1, i64 %i
  %a0 = load TYPE, ptr %q0, align 2
  %a1 = load TYPE, ptr %q1, align 2
  %r = call TYPE @SYMBOL(ARGUMENTS)
  %q = getelementptr ELEMENT, ptr %o, i64 %i
  store TYPE %r, ptr %q, align 2
  %j = add i64 %i, COUNT
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def _compiled(name: str, mangled: str, arity: int) -> Callable[..., np.ndarray]:
    """The function over arrays whose length is a multiple of the number of lanes."""
    count, element = re.fullmatch(r"(?:v(\d+))?(\w+)", mangled).groups()  # type: ignore[union-attr]
    word = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}[element]
    vector = f"<{count} x {word}>" if count else word
    function = math_function(name, mangled, arity)
    arguments = ", ".join(f"{vector} %a{index}" for index in range(arity))
    replaced = {
        "ELEMENT": word,
        "TYPE": vector,
        "SYMBOL": function.symbol,
        "ARGUMENTS": arguments,
        "COUNT": count or "1",
    }
    text = DRIVER
    for key, value in replaced.items():
        text = text.replace(key, value)
    text += "\n".join(definition for _, definition in function.definitions)
    text += "".join(f"\ndeclare {result} {symbol}({types})" for symbol, result, types in function.declarations)
    code = load_ir(text, "run")
    run = code.function("run", None, *[ctypes.c_void_p] * 3, ctypes.c_int64)

    def call(*arrays: np.ndarray) -> np.ndarray:
        assert code
        arrays = tuple(map(np.ascontiguousarray, arrays))
        out = np.empty_like(arrays[0])
        run(out.ctypes.data, arrays[0].ctypes.data, arrays[-1].ctypes.data, out.size)
        return out

    return call


def _reference(name: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        function = REFERENCES.get(name) or getattr(np, name)
        return np.asarray(function(*(array.astype(np.float64) for array in arrays)))


def _ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The error in units of the last place of the exact result; infinite where a special value is wrong."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        unit = np.where(np.isfinite(unit), unit, np.spacing(np.finfo(found.dtype).max))
        error = np.abs(found.astype(np.float64) - exact) / unit
    same = (np.isnan(found) & np.isnan(exact)) | ((found == rounded) & ~np.isfinite(rounded))
    error = np.where(same, 0.0, error)
    return np.where(np.isnan(error), math.inf, error)


def _stated_error(function: Callable[..., object]) -> float:
    match = re.search(r"error <= ([\d.]+) ulp", function.__doc__ or "")
    assert match, f"{function.__name__} states no error"
    return float(match[1])


def _floats(seed: int, size: int) -> np.ndarray:
    """Half from all bit patterns, half near the values that occur."""
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 2**32, size // 2, dtype=np.uint32).view(np.float32)
    usual = (generator.standard_normal(size // 2) * 10.0 ** generator.uniform(-3, 2, size // 2)).astype(np.float32)
    return np.concatenate([patterns, usual])


def _padded(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, np.repeat(values[-1:], -len(values) % 16)])


@pytest.mark.parametrize("name", sorted(UNARY_F32))
@pytest.mark.parametrize("type", ["v16f32", "f32"])
def test_stated_error_holds(name: str, type: str) -> None:
    x = np.concatenate([_floats(1, 1 << (17 if name == "erf" else 19)), _padded(SPECIALS)])
    error = _ulps(_compiled(name, type, 1)(x), _reference(name, x))
    worst = int(np.argmax(error))
    assert error[worst] <= _stated_error(UNARY_F32[name]), f"{error[worst]} ulp at {x[worst]!r}"


def test_pow_error_and_special_cases() -> None:
    generator = np.random.default_rng(2)
    n = 1 << 18
    x = np.concatenate([_floats(3, n), generator.uniform(-3, 3, n).astype(np.float32)])
    y = np.concatenate([_floats(4, n), generator.integers(-40, 40, n).astype(np.float32)])
    pairs = np.stack(np.meshgrid(SPECIALS, SPECIALS)).reshape(2, -1)
    x, y = np.concatenate([x, _padded(pairs[0])]), np.concatenate([y, _padded(pairs[1])])
    found, exact = _compiled("pow", "v16f32", 2)(x, y), _reference("pow", x, y)
    error = _ulps(found, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= _stated_error(BINARY_F32["pow"]), f"{error[worst]} ulp at {x[worst]!r}, {y[worst]!r}"
    zero = (found == 0) & (exact == 0)
    assert (np.signbit(found) == np.signbit(exact))[zero].all()


@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "expm1", "log1p"])
def test_odd_functions_keep_the_sign_of_zero(name: str) -> None:
    zeros = np.array([0.0, -0.0] * 8, np.float32)
    found = _compiled(name, "v16f32", 1)(zeros)
    assert (found == 0).all() and (np.signbit(found) == np.signbit(zeros)).all()


@pytest.mark.parametrize("type", ["v4f32", "v8f32", "v3f32"])
def test_other_vector_lengths(type: str) -> None:
    x = np.linspace(-5, 5, 240, dtype=np.float32)
    for name in ("exp", "sin"):
        assert _ulps(_compiled(name, type, 1)(x), _reference(name, x)).max() < 2


@pytest.mark.parametrize("type,dtype", [("v8f64", np.float64), ("f64", np.float64), ("v16f16", np.float16)])
@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "log"])
def test_other_element_types(name: str, type: str, dtype: type) -> None:
    x = np.linspace(0.01, 6, 160).astype(dtype)
    assert _ulps(_compiled(name, type, 1)(x), _reference(name, x)).max() <= (0.6 if dtype is np.float16 else 2)


def test_libm_functions_lane_by_lane() -> None:
    x = np.linspace(0.1, 0.9, 32).astype(np.float32)
    for name, reference in (("acos", np.arccos), ("sinh", np.sinh), ("atan", np.arctan), ("cbrt", np.cbrt)):
        assert name in LIBM[1]
        np.testing.assert_allclose(_compiled(name, "v8f32", 1)(x), reference(x), rtol=1e-6)
    y = x[::-1].copy()
    np.testing.assert_allclose(_compiled("atan2", "v4f32", 2)(x, y), np.arctan2(x, y), rtol=1e-6)


@pytest.mark.parametrize("call", [("frobnicate", "f32", 1), ("exp", "f32", 2), ("exp", "i32", 1), ("pow", "f64", 1)])
def test_unknown_functions_are_refused(call: tuple[str, str, int]) -> None:
    with pytest.raises(UnknownFunction):
        math_function(*call)
