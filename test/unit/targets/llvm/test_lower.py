"""Kernels of loop IR, lowered, compiled and run: memory, control flow, index expressions, parallel loops, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    VectorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Block, Region, SSAValue

from tilewright.core.attributes import memref_type
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.symbolic import SymExpr, sym, sym_max, sym_min
from tilewright.dialects.loop import ops as loop

D = tuple(sym(f"d{number}") for number in range(8))
N, M = sym("n"), sym("m")
V16 = VectorType(f32, [16])


def _constant(value: float) -> SSAValue:
    return arith.ConstantOp(FloatAttr(value, f32)).result


def _splat(value: float) -> SSAValue:
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(V16, [value])).result


def _scale(kernel_builder: Any, kind: str, shape: list[Any], symbols: list[str]) -> Any:
    """y = x * 2 + 1 over two loops."""
    type = memref_type(f32, shape)
    k = kernel_builder([type, type], symbols)
    x, y, *sizes = k.args
    size = dict(zip(symbols, sizes, strict=True))

    def extent(e: Any) -> tuple[Any, list[SSAValue]]:
        if isinstance(e, int):
            return e, []
        return D[0], [size[str(e)]]

    with ImplicitBuilder(k.block):
        two, one = _constant(2.0), _constant(1.0)

        def inner(i: SSAValue) -> Any:
            def body(j: SSAValue) -> None:
                scaled = arith.MulfOp(k.load(x, [i, j], D[0], D[1]), two)
                k.store(arith.AddfOp(scaled, one).result, y, [i, j], D[0], D[1])

            rows, args = extent(shape[1])
            k.loop(rows, body, "serial", args)

        columns, args = extent(shape[0])
        k.loop(columns, inner, kind, args)
    return k.finish()


@pytest.mark.parametrize("kind", ["serial", "parallel", "unrolled", "vectorized"])
def test_loops_of_every_kind(kernel_builder: Any, compile_kernel: Any, kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((7, 10)).astype(np.float32)
    kernel = compile_kernel(_scale(kernel_builder, kind, [7, 10], []))
    for threads in (1, 2, 4):
        y = np.zeros_like(x)
        kernel(x, y, threads=threads)
        np.testing.assert_allclose(y, x * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("kind", ["serial", "parallel"])
@pytest.mark.parametrize("n,m", [(1, 1), (5, 7), (0, 3), (3, 0)])
def test_symbolic_sizes(kernel_builder: Any, compile_kernel: Any, kind: str, n: int, m: int) -> None:
    x = np.random.default_rng(0).standard_normal((n, m)).astype(np.float32)
    y = np.full_like(x, 7)
    compile_kernel(_scale(kernel_builder, kind, [N, M], ["n", "m"]))(x, y, n, m, threads=2)
    np.testing.assert_allclose(y, x * 2 + 1, rtol=1e-6)


EXPRESSIONS: list[SymExpr] = [
    D[0] * 3 + D[1] - 7,
    (D[0] - 5) // 3,
    (D[0] * 4 + D[1]) // 4,
    (D[0] - 9) % 4,
    (D[1] * 5 + D[0]) % 7,
    (D[0] + 3) // N,
    (D[0] - 11) // N,
    (D[0] - 11) % N,
    D[0] * N * D[1] - N,
    sym_min(D[0], N, 3) + sym_max(D[1] - 4, 0),
    -((-D[0] + 2) // 5) * 2,
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_index_expressions(kernel_builder: Any, compile_kernel: Any, expr: SymExpr) -> None:
    k = kernel_builder([memref_type(i64, [12, 9])], ["n"])
    with ImplicitBuilder(k.block):

        def rows(i: SSAValue) -> None:
            def columns(j: SSAValue) -> None:
                value = loop.IndexOp([i, j], k.map(2, expr)).result
                k.store(arith.IndexCastOp(value, i64).result, k.args[0], [i, j], D[0], D[1])

            k.loop(9, columns)

        k.loop(12, rows)
    found = np.zeros((12, 9), np.int64)
    compile_kernel(k.finish())(found, 5)
    expected = [[expr.evaluate({"d0": i, "d1": j, "n": 5}) for j in range(9)] for i in range(12)]
    np.testing.assert_array_equal(found, expected)


def test_guarded_loads_and_stores(kernel_builder: Any, compile_kernel: Any) -> None:
    """A padded window: y[i] = x[i - 2] inside, 9 outside; only even places up to 10 are stored."""
    k = kernel_builder([memref_type(f32, [8]), memref_type(f32, [12])])
    x, y = k.args
    with ImplicitBuilder(k.block):
        nine = _constant(9.0)

        def body(i: SSAValue) -> None:
            inside = [1, D[0], D[0], 10]
            value = k.load(x, [i], D[0] - 2, where=inside, default=nine)
            k.store(value, y, [i], D[0], where=[D[0] % 2, 1, D[0], 11])

        k.loop(12, body)
    x_array, y_array = np.arange(8, dtype=np.float32), np.full(12, -1, np.float32)
    compile_kernel(k.finish())(x_array, y_array)
    np.testing.assert_array_equal(y_array, [9, -1, 0, -1, 2, -1, 4, -1, 6, -1, 9, -1])


def test_conditions(kernel_builder: Any, compile_kernel: Any) -> None:
    k = kernel_builder([memref_type(f32, [6])], ["n"])
    y, n = k.args
    with ImplicitBuilder(k.block):
        one, two = _constant(1.0), _constant(2.0)

        def body(i: SSAValue) -> None:
            then, other = Block(), Block()
            loop.IfOp([i, n], k.map(2, D[0], D[1]), Region(then), Region(other))
            with ImplicitBuilder(then):
                k.store(one, y, [i], D[0])
            with ImplicitBuilder(other):
                k.store(two, y, [i], D[0])
            always = Block()
            loop.IfOp([i], k.map(1, D[0], 6), Region(always))
            with ImplicitBuilder(always):
                k.store(arith.AddfOp(k.load(y, [i], D[0]), one).result, y, [i], D[0])

        k.loop(6, body)
    found = np.zeros(6, np.float32)
    compile_kernel(k.finish())(found, 4)
    np.testing.assert_array_equal(found, [2, 2, 2, 2, 3, 3])


def _matmul(k: Any, rows: int, depth: int) -> Any:
    """c[8i + r, 16 lanes] with an accumulator tile that is unrolled; parallel over i."""
    a, b, c = k.args
    with ImplicitBuilder(k.block):
        zero = _splat(0.0)

        def block(i: SSAValue) -> None:
            tile = loop.AllocOp("tile", memref_type(f32, [8, 16]), "local").result

            def clear(r: SSAValue) -> None:
                k.store(zero, tile, [r], D[0], 0)

            def step(p: SSAValue) -> None:
                row = k.load(b, [p], D[0], 0, type=V16)

                def update(r: SSAValue) -> None:
                    value = vector.BroadcastOp(k.load(a, [i, r, p], D[0] * 8 + D[1], D[2]), V16).vector
                    total = arith.AddfOp(k.load(tile, [r], D[0], 0, type=V16), arith.MulfOp(value, row))
                    k.store(total.result, tile, [r], D[0], 0)

                k.loop(8, update, "unrolled")

            def write(r: SSAValue) -> None:
                k.store(k.load(tile, [r], D[0], 0, type=V16), c, [i, r], D[0] * 8 + D[1], 0)

            k.loop(8, clear, "unrolled")
            k.loop(depth, step)
            k.loop(8, write, "unrolled")

        k.loop(rows // 8, block, "parallel")
    return k.finish()


def test_accumulator_tile_lives_in_registers(kernel_builder: Any, compile_kernel: Any) -> None:
    types = [memref_type(f32, shape) for shape in ([32, 40], [40, 16], [32, 16])]
    kernel = compile_kernel(_matmul(kernel_builder(types), 32, 40))
    generator = np.random.default_rng(0)
    a = generator.standard_normal((32, 40)).astype(np.float32)
    b = generator.standard_normal((40, 16)).astype(np.float32)
    c = np.zeros((32, 16), np.float32)
    kernel(a, b, c, threads=2)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    body = kernel.optimised.split("define internal void @k.parallel0.body")[1].split("define")[0]
    assert "alloca" not in body
    assert body.count("@llvm.fmuladd.v16f32") + body.count("fadd contract <16 x float>") >= 8


def test_parallel_loops_capture_what_they_use(kernel_builder: Any, compile_kernel: Any) -> None:
    """Outer index, symbol, loaded scalar, constant, a buffer of the enclosing function; with a nested parallel loop."""
    k = kernel_builder([memref_type(f32, [3, N]), memref_type(f32, [3, N])], ["n"])
    x, y, n = k.args
    with ImplicitBuilder(k.block):
        ten = _constant(10.0)
        scratch = loop.AllocOp("scratch", memref_type(f32, [3]), "local").result

        def rows(i: SSAValue) -> None:
            first = k.load(x, [i], D[0], 0)
            k.store(first, scratch, [i], D[0])

            def columns(j: SSAValue) -> None:
                def again(q: SSAValue) -> None:
                    total = arith.AddfOp(k.load(x, [i, j], D[0], D[1]), arith.MulfOp(first, ten))
                    total = arith.AddfOp(total, k.load(scratch, [i, q], D[0] + D[1]))
                    k.store(total.result, y, [i, j], D[0], D[1])

                k.loop(1, again, "parallel")

            k.loop(D[0], columns, "parallel", [n])

        k.loop(3, rows)
    x_array = np.random.default_rng(0).standard_normal((3, 37)).astype(np.float32)
    y_array = np.zeros_like(x_array)
    compile_kernel(k.finish())(x_array, y_array, 37, threads=2)
    np.testing.assert_allclose(y_array, x_array + 11 * x_array[:, :1], rtol=1e-5)


def test_vector_memory_reductions_and_masks(kernel_builder: Any, compile_kernel: Any) -> None:
    k = kernel_builder([memref_type(f32, [37]), memref_type(f32, [37]), memref_type(f32, [2])])
    x, y, sums = k.args
    with ImplicitBuilder(k.block):
        zero = _splat(0.0)
        start = loop.IndexOp([], k.map(0, 32)).result
        count = loop.IndexOp([], k.map(0, 5)).result

        def body(i: SSAValue) -> None:
            value = k.load(x, [i], D[0] * 16, type=V16)
            k.store(vector.FMAOp(value, value, value).res, y, [i], D[0] * 16)

        k.loop(2, body)
        mask = vector.CreateMaskOp([count], VectorType(i1, [16])).mask_vector
        tail = vector.MaskedLoadOp(x, [start], mask, zero, V16).result
        vector.MaskedStoreOp(y, [start], mask, arith.AddfOp(tail, tail).result)
        for place, (kind, fold) in enumerate(((CombiningKindFlag.ADD, 1.5), (CombiningKindFlag.MAXIMUMF, -9.0))):
            operands = [tail, _constant(fold)]
            total = vector.ReductionOp.create(
                operands=operands, result_types=[f32], properties={"kind": CombiningKindAttr(kind)}
            )
            k.store(total.dest, sums, [], place)
    x_array = np.random.default_rng(0).standard_normal(37).astype(np.float32)
    y_array, s = np.zeros(37, np.float32), np.zeros(2, np.float32)
    compile_kernel(k.finish())(x_array, y_array, s)
    np.testing.assert_allclose(y_array[:32], x_array[:32] ** 2 + x_array[:32], rtol=1e-5)
    np.testing.assert_allclose(y_array[32:], x_array[32:] * 2, rtol=1e-6)
    np.testing.assert_allclose(s, [x_array[32:].sum() + 1.5, max(0.0, x_array[32:].max())], rtol=1e-5)


def test_gather_booleans_and_vector_indices(kernel_builder: Any, compile_kernel: Any) -> None:
    """y[i] = table[indices[i]] where the flag is set; the flags are computed and stored as bytes."""
    k = kernel_builder([memref_type(i32, [6]), memref_type(i1, [6]), memref_type(i32, [6]), memref_type(i64, [16])])
    indices, flags, y, numbers = k.args
    with ImplicitBuilder(k.block):
        limit = arith.ConstantOp.from_int_and_width(3, i32).result
        minus = arith.ConstantOp.from_int_and_width(-1, i32).result

        def body(i: SSAValue) -> None:
            number = k.load(indices, [i], D[0])
            k.store(arith.CmpiOp(number, limit, "slt").result, flags, [i], D[0])
            place = arith.IndexCastOp(number, IndexType()).result
            found = k.load(indices, [place], D[0])
            k.store(arith.SelectOp(k.load(flags, [i], D[0]), found, minus).result, y, [i], D[0])

        k.loop(6, body)
        k.store(loop.IndexOp([], k.map(0, 40), VectorType(i64, [16])).result, numbers, [], 0)
    table = np.array([5, 0, 2, 4, 1, 3], np.int32)
    flag_array, found, number_array = np.zeros(6, np.bool_), np.zeros(6, np.int32), np.zeros(16, np.int64)
    compile_kernel(k.finish())(table, flag_array, found, number_array)
    np.testing.assert_array_equal(flag_array, table < 3)
    np.testing.assert_array_equal(found, np.where(table < 3, table[table], -1))
    np.testing.assert_array_equal(number_array, np.arange(40, 56))


def test_lanes_of_scalar_operations(kernel_builder: Any, compile_kernel: Any) -> None:
    """y = x where x < 2 else 7, and x as an integer, on vectors."""
    k = kernel_builder([memref_type(f32, [16]), memref_type(f32, [16]), memref_type(i32, [16])])
    x, y, numbers = k.args
    with ImplicitBuilder(k.block):
        value = k.load(x, [], 0, type=V16)
        flags = {"fastmath": arith.FastMathFlagsAttr("none")}
        less = {"predicate": IntegerAttr(4, i64), **flags}
        mask = loop.LanesOp("arith.cmpf", [value, _splat(2.0)], DictionaryAttr(less), VectorType(i1, [16])).result
        chosen = loop.LanesOp("arith.select", [mask, value, _splat(7.0)], DictionaryAttr({}), V16).result
        k.store(chosen, y, [], 0)
        cast = loop.LanesOp("arith.fptosi", [value], DictionaryAttr({}), VectorType(i32, [16])).result
        k.store(cast, numbers, [], 0)
    array = np.linspace(-3, 4, 16, dtype=np.float32)
    found, integers = np.zeros(16, np.float32), np.zeros(16, np.int32)
    compile_kernel(k.finish())(array, found, integers)
    np.testing.assert_array_equal(found, np.where(array < 2, array, 7))
    np.testing.assert_array_equal(integers, array.astype(np.int32))


def test_buffers_may_alias_where_the_kernel_says_so(kernel_builder: Any, compile_kernel: Any) -> None:
    from xdsl.dialects.builtin import UnitAttr

    kernel = _scale(kernel_builder, "serial", [4, 4], [])
    assert "noalias" in compile_kernel(kernel.clone()).text
    kernel.attributes["tw.may_alias"] = UnitAttr()
    assert "noalias" not in compile_kernel(kernel).text


def test_text_is_deterministic(kernel_builder: Any, compile_kernel: Any) -> None:
    types = [memref_type(f32, shape) for shape in ([32, 40], [40, 16], [32, 16])]
    texts = {compile_kernel(_matmul(kernel_builder(types), 32, 40)).text for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize("kind", ["serial", "parallel"])
@pytest.mark.parametrize("size", [N, 100_000], ids=str)
def test_buffers_that_do_not_fit_the_stack(kernel_builder: Any, compile_kernel: Any, kind: str, size: Any) -> None:
    """y[i] = scratch[5] after scratch[5] = x[i], with a scratch buffer for each iteration."""
    k = kernel_builder([memref_type(f32, [40]), memref_type(f32, [40])], ["n"])
    x, y, _ = k.args
    with ImplicitBuilder(k.block):

        def body(i: SSAValue) -> None:
            scratch = loop.AllocOp("scratch", memref_type(f32, [size]), "local").result
            k.store(k.load(x, [i], D[0]), scratch, [], 5)
            k.store(k.load(scratch, [], 5), y, [i], D[0])

        k.loop(40, body, kind)
    kernel = compile_kernel(k.finish())
    x_array, y_array = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    kernel(x_array, y_array, 64, threads=2)
    np.testing.assert_array_equal(y_array, x_array)
    assert kernel.text.count("@llvm.trap()") == 2  # the call and the declaration


def test_main_memory_is_no_business_of_the_kernel(kernel_builder: Any, compile_kernel: Any) -> None:
    k = kernel_builder([memref_type(f32, [4])])
    with ImplicitBuilder(k.block):
        loop.AllocOp("b", memref_type(f32, [4]), "global")
    with pytest.raises(DiagnosticError, match="expected a workspace argument"):
        compile_kernel(k.finish())


def test_what_has_no_lowering_is_refused(kernel_builder: Any, compile_kernel: Any) -> None:
    k = kernel_builder([memref_type(f32, [4])])
    with ImplicitBuilder(k.block):
        loop.BlockOp("b", [], [], k.map(0), k.map(0), Region(Block()))
    with pytest.raises(DiagnosticError, match=r"'loop.block' op has no lowering to LLVM"):
        compile_kernel(k.finish())
