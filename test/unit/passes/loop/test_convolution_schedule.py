"""The direct blocked convolution of the CPU rules, on nests built by hand: clean loops, exact results, in time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilewright.core.context import make_context
from tilewright.core.pass_manager import run_pipeline
from tilewright.dialects.loop.ops import AllocOp, ForOp, IfOp, LoadOp
from tilewright.passes.loop.schedule import ScheduleBuilder
from tilewright.passes.pipelines import LOWER_LOOPS
from tilewright.testing.kernels import random_inputs, run_kernel
from tilewright.testing.strategies.loop import blocked_convolution_kernel, weight_packing

CONTEXT = make_context()


def schedule(kernel: FuncOp, blocks: int, columns: int, pad: str = "none") -> ScheduleBuilder:
    """Register tile of ``columns x blocks`` vectors, accumulators in registers, epilogue on the accumulators."""
    s = ScheduleBuilder(kernel)
    acc, out = s.get_block("acc"), s.get_block("Y")
    s.transform_layout(acc, "read", 1, weight_packing(16))
    if pad == "inline":
        s.compute_inline(s.get_block("pad"))
    n, oco, oh, ow, oci = s.get_loops(out)
    group, block = s.split(oco, [None, blocks])
    tile, column = s.split(ow, [None, columns])
    s.reorder(n, group, oh, tile, column, block, oci)
    s.compute_at(acc, tile)
    _, a_block, _, a_column, a_lane, ic, kh, kw = s.get_loops(acc)[-8:]
    ic_o, ic_i = s.split(ic, [None, 16])
    s.reorder(ic_o, kh, kw, ic_i, a_column, a_block, a_lane)
    for lanes in (a_lane, oci):
        s.vectorize(lanes)
    for unrolled in (a_block, a_column, block, column):
        s.unroll(unrolled)
    s.set_scope(acc, 0, "local")
    s.parallel(s.fuse(n, group, oh))
    return s


def lower(kernel: FuncOp, s: ScheduleBuilder) -> FuncOp:
    lowered = kernel.clone()
    run_pipeline(ModuleOp([lowered, s.finish()]), LOWER_LOOPS, CONTEXT, verify_each=True)
    return lowered


def innermost_bodies(kernel: FuncOp) -> list[list[Operation]]:
    loops = [op for op in kernel.walk() if isinstance(op, ForOp)]
    return [list(x.body.block.ops) for x in loops if not any(isinstance(op, ForOp) for op in x.body.walk())]


@pytest.mark.parametrize(
    ("size", "window", "stride", "columns"), [(12, 3, 1, 5), (9, 3, 2, 2), (7, 1, 1, 7), (9, 5, 1, 5)]
)
def test_result(size: int, window: int, stride: int, columns: int) -> None:
    kernel = blocked_convolution_kernel(16, 32, size, window, stride)
    inputs = random_inputs(kernel, 1)
    lowered = lower(kernel, schedule(kernel, 2, columns))
    np.testing.assert_array_equal(run_kernel(lowered, inputs, CONTEXT)[0], run_kernel(kernel, inputs, CONTEXT)[0])


@pytest.mark.parametrize("pad", ["none", "inline"])
def test_padded_result(pad: str) -> None:
    kernel = blocked_convolution_kernel(16, 32, 6, 3, 1, pad=1)
    inputs = random_inputs(kernel, 2)
    lowered = lower(kernel, schedule(kernel, 2, 3, pad))
    np.testing.assert_array_equal(run_kernel(lowered, inputs, CONTEXT)[0], run_kernel(kernel, inputs, CONTEXT)[0])
    assert not any(isinstance(op, IfOp) or (isinstance(op, LoadOp) and op.where) for op in lowered.walk())


def test_clean_loops() -> None:
    """The inner body is a scalar load, a vector load, broadcast, multiply, add on a local accumulator; no guard."""
    kernel = blocked_convolution_kernel(32, 64, 16, 3)
    lowered = lower(kernel, schedule(kernel, 2, 14))
    assert not any(isinstance(op, IfOp) for op in lowered.walk())
    (alloc,) = [op for op in lowered.walk() if isinstance(op, AllocOp)]
    assert alloc.scope.data == "local" and alloc.result.type.get_shape() == (1, 2, 1, 14, 16)
    body = next(b for b in innermost_bodies(lowered) if any(isinstance(op, arith.MulfOp) for op in b))
    assert [op.name for op in body] == [
        "loop.load",
        "loop.load",
        "loop.load",
        "vector.broadcast",
        "arith.mulf",
        "arith.addf",
        "loop.store",
    ]
    assert [isinstance(op.results[0].type, VectorType) for op in body[:3]] == [False, True, True]


def test_time() -> None:
    """20 steps in well under 20 ms on an idle machine; the bound here only catches a change of order."""
    kernel = blocked_convolution_kernel(64, 64, 56, 3)
    schedule(kernel, 2, 14)
    start = time.process_time()
    schedule(kernel, 2, 14)
    assert time.process_time() - start < 0.1
