"""Halves: rounding is exact, and no processor needs the compiler runtime of LLVM for them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp, VectorType, bf16, f16, f32, f64
from xdsl.ir import Attribute, SSAValue

from tilewright.core.attributes import memref_type
from tilewright.targets.llvm.codegen import Machine, compile_ir
from tilewright.targets.llvm.emit import emit_module
from tilewright.targets.llvm.lower import lower_kernel

LANES = 8


def conversion(kernel_builder: Any, source: Attribute, target: Attribute, size: int) -> Any:
    """A kernel that truncates ``size`` elements, in vectors."""
    k = kernel_builder([memref_type(source, [size]), memref_type(target, [size])])
    with ImplicitBuilder(k.block):

        def body(i: SSAValue) -> None:
            x = k.load(k.args[0], [i], k.d[0] * LANES, type=VectorType(source, [LANES]))
            y = arith.TruncFOp.create(operands=[x], result_types=[VectorType(target, [LANES])])
            k.store(y.results[0], k.args[1], [i], k.d[0] * LANES)

        k.loop(size // LANES, body)
    return k.finish()


def doubles_around(halves: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All finite halves, the middles between neighbours, and doubles close to both."""
    exact = np.unique(halves[np.isfinite(halves)].astype(np.float64))
    points = np.concatenate([exact, exact[1:] / 2 + exact[:-1] / 2])
    near = [points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)]
    near += [points * (1 + 2.0**-40), points * (1 - 2.0**-40), np.array([np.inf, -np.inf, 1e300, 5e-324, 0.0])]
    return np.resize(np.concatenate(near), -(-5 * len(points) // 64) * 64 + 64)


def nearest(x: np.ndarray[Any, Any], halves: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The nearest of the halves, which are all of them, by comparing with the middles; of two the even one."""
    finite = halves[np.isfinite(halves) & ~(np.signbit(halves) & (halves == 0))]
    order = np.argsort(finite.astype(np.float64))
    values, even = finite[order].astype(np.float64), finite[order].view(np.uint16) % 2 == 0
    at = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    low, high = values[at - 1], values[at]
    middle = low / 2 + high / 2
    down = (x < middle) | ((x == middle) & even[at - 1])
    last, step = values[-1], values[-1] - values[-2]
    result: np.ndarray[Any, Any] = np.where(down, low, high)
    result[np.abs(x) >= last + step / 2] = np.inf
    return np.copysign(result, x)


@pytest.mark.parametrize(("target", "dtype"), [(f16, np.float16), (bf16, ml_dtypes.bfloat16)], ids=["f16", "bf16"])
def test_doubles_round_once(kernel_builder: Any, compile_kernel: Any, target: Attribute, dtype: Any) -> None:
    with np.errstate(invalid="ignore"):
        halves = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        x = doubles_around(halves)
        found = np.zeros(len(x), dtype)
        compile_kernel(conversion(kernel_builder, f64, target, len(x)))(x, found)
        np.testing.assert_array_equal(found.astype(np.float64), nearest(x, halves))


def test_singles_round_to_bf16_and_keep_nan(kernel_builder: Any, compile_kernel: Any) -> None:
    bits = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    x = bits[: len(bits) // LANES * LANES].view(np.float32)
    found = np.zeros(len(x), ml_dtypes.bfloat16)
    compile_kernel(conversion(kernel_builder, f32, bf16, len(x)))(x, found)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), ~numbers)
    with np.errstate(over="ignore"):
        expected = x[numbers].astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found[numbers].view(np.uint16), expected.view(np.uint16))


def undefined_symbols(kernel: Any, folder: Path) -> list[str]:
    """What the object of a kernel, compiled for a processor without `bf16` instructions, refers to."""
    image = folder / "kernel.o"
    text = emit_module(ModuleOp(list(lower_kernel(kernel))))
    image.write_bytes(compile_ir(text, Machine("x86_64-unknown-linux-gnu", "x86-64-v3")))
    return subprocess.run(["nm", "-u", image], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm to read symbols")
@pytest.mark.parametrize(("source", "target"), [(f32, bf16), (f64, bf16), (f64, f16), (f32, f16)], ids=str)
def test_conversions_need_no_compiler_runtime(
    kernel_builder: Any, tmp_path: Path, source: Attribute, target: Attribute
) -> None:
    assert undefined_symbols(conversion(kernel_builder, source, target, 16), tmp_path) == []


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm to read symbols")
def test_functions_of_bf16_need_no_compiler_runtime(kernel_builder: Any, tmp_path: Path) -> None:
    """LLVM moves exact functions such as `floor` before an extension, if it sees one."""
    k = kernel_builder([memref_type(bf16, [16]), memref_type(bf16, [16])])
    with ImplicitBuilder(k.block):

        def body(i: SSAValue) -> None:
            x = k.load(k.args[0], [i], k.d[0] * LANES, type=VectorType(bf16, [LANES]))
            for kind in (math.FloorOp, math.AbsFOp, math.RoundEvenOp, math.SqrtOp, math.ExpOp):
                x = kind(x).result
            k.store(x, k.args[1], [i], k.d[0] * LANES)

        k.loop(16 // LANES, body)
    assert undefined_symbols(k.finish(), tmp_path) == []


def test_bf16_arithmetic_rounds_every_result(kernel_builder: Any, compile_kernel: Any) -> None:
    random = np.random.default_rng(0)
    a, b = (random.normal(0, 10, 64).astype(ml_dtypes.bfloat16) for _ in range(2))
    k = kernel_builder([memref_type(bf16, [64])] * 3)
    with ImplicitBuilder(k.block):

        def body(i: SSAValue) -> None:
            x, y = (k.load(k.args[n], [i], k.d[0] * LANES, type=VectorType(bf16, [LANES])) for n in (0, 1))
            product = arith.MulfOp(x, y).result
            k.store(arith.AddfOp(product, arith.MaximumfOp(x, y).result).result, k.args[2], [i], k.d[0] * LANES)

        k.loop(64 // LANES, body)
    found = np.zeros(64, ml_dtypes.bfloat16)
    compile_kernel(k.finish())(a, b, found)
    np.testing.assert_array_equal(found, a * b + np.maximum(a, b))
