"""Random kernels under random schedules, compiled to native code, do what the interpreter does with the same loops.

Inputs are small integers, so that sums are exact in any order and results must be equal. A write next to a buffer is an
error. That schedules and loop passes keep a kernel's meaning is tested in `test_schedule.py`.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from tilewright.core.attributes import memref_shape_exprs
from tilewright.core.context import make_context
from tilewright.core.pass_manager import run_pipeline
from tilewright.core.symbolic import sym
from tilewright.interp.arith import numpy_dtype
from tilewright.interp.loop import allocate
from tilewright.interp.packing import pack
from tilewright.passes.loop.index import kernel_symbols
from tilewright.passes.loop.schedule import Schedule, ScheduleError
from tilewright.passes.pipelines import LOWER_LOOPS
from tilewright.targets.llvm.native_kernel import Array, NativeKernel
from tilewright.testing.kernels import packing_maps, random_inputs, run_kernel
from tilewright.testing.strategies.loop import blocked_convolution_kernel, matmul_kernel
from tilewright.testing.strategies.schedule import Sample, Step, apply_step, kernels, steps

COVERS = ("convert-loop-to-llvm",)
CONTEXT = make_context()
SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def _run_native(kernel: FuncOp, inputs: list[Array], threads: int, symbols: dict[str, int]) -> list[Array]:
    """The outputs of a kernel that has been through the loop passes."""
    names = kernel_symbols(kernel)
    buffers = kernel.body.block.args[: len(kernel.body.block.args) - len(names)]
    maps = packing_maps(kernel)
    values: list[Array] = []
    for number, argument in enumerate(buffers):
        shape = [extent.evaluate(symbols) for extent in memref_shape_exprs(argument.type)]
        if number >= len(inputs):
            values.append(allocate(shape, numpy_dtype(argument.type)))
        elif number in maps:
            values.append(np.ascontiguousarray(pack(inputs[number], maps[number], shape)))
        else:
            values.append(inputs[number].copy())
    NativeKernel(kernel)(*values, *(symbols[name] for name in names), threads=threads)
    count = kernel.attributes["num_outputs"]
    assert isinstance(count, IntegerAttr)
    return values[len(inputs) : len(inputs) + count.value.data]


def _check(kernel: FuncOp, program: list[Step], seed: int, threads: int, symbols: dict[str, int] | None = None) -> None:
    symbols = symbols or {}
    scheduled = kernel.clone()
    schedule = Schedule(scheduled)
    for step in program:
        try:
            apply_step(schedule, step)
        except ScheduleError:
            continue
    module = ModuleOp([scheduled])
    run_pipeline(module, list(LOWER_LOOPS), CONTEXT)
    lowered = module.body.block.first_op
    assert isinstance(lowered, FuncOp)
    inputs = random_inputs(kernel, seed, symbols)
    expected = run_kernel(lowered, inputs, CONTEXT, symbols)
    for found, wanted in zip(_run_native(lowered, inputs, threads, symbols), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@SETTINGS
@given(kernels(), steps(12), st.integers(0, 3), st.integers(1, 3))
def test_random_kernels_and_schedules(sample: Sample, program: list[Step], seed: int, threads: int) -> None:
    _check(sample.kernel, program, seed, threads)


@SETTINGS
@given(steps(4), st.integers(1, 2), st.tuples(*[st.integers(1, 7)] * 2))
def test_products_of_symbolic_size(program: list[Step], threads: int, sizes: tuple[int, int]) -> None:
    kernel = matmul_kernel(sym("m"), 8, sym("k"), ["k", "m"])
    _check(kernel, program, 1, threads, {"m": sizes[0], "k": sizes[1]})


@settings(SETTINGS, max_examples=10)
@given(steps(16), st.integers(1, 2))
def test_blocked_convolutions(program: list[Step], threads: int) -> None:
    _check(blocked_convolution_kernel(4, 8, 4, 3, block=4, pad=1), program, 2, threads)
