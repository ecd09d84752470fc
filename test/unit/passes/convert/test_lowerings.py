"""Every graph op with a lowering, on the element types it takes: te and loops give what the graph interpreter gives.

Random graph programs (``test/property/test_te.py``) cover combinations; here every op, property and corner is met once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    IntegerType,
    ModuleOp,
    Signedness,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region

from tilewright.core.attributes import IndexMapAttr, tensor_type
from tilewright.core.context import make_context
from tilewright.core.pass_manager import run_pipeline
from tilewright.core.symbolic import parse_expr, sym
from tilewright.dialects.graph import broadcasting, elementwise, indexing, linear, nn, reduce, shape, structure
from tilewright.dialects.graph.ops import GRAPH
from tilewright.interp import Interpreter
from tilewright.interp.arith import numpy_dtype
from tilewright.passes.convert.graph_to_te.table import LOWERINGS
from tilewright.testing.check_pass import assert_close

ui8 = IntegerType(8, Signedness.UNSIGNED)
NUMBERS = (f32, f64, f16, bf16, i8, i32, i64, ui8)
n = sym("n")
LEVELS = ("convert-graph-to-te", "te-inline,te-dce", "outline-kernels,convert-te-to-loop")


def check(types: Sequence[Attribute], arrays: Sequence[Any], make: Callable[..., Any]) -> None:
    """Runs ``make(*operands)`` in a kernel at every level."""
    outer, inner = Block(arg_types=types), Block(arg_types=types)
    op = make(*inner.args)
    inner.add_ops([op, structure.YieldOp(*op.results)])
    result_types = [result.type for result in op.results]
    kernel = structure.KernelOp("k", outer.args, result_types, Region(inner))
    outer.add_ops([kernel, ReturnOp(*kernel.results)])
    module = ModuleOp([FuncOp("main", (list(types), result_types), Region(outer))])
    context = make_context()
    expected = Interpreter(module, context).call("main", arrays)
    for passes in LEVELS:
        run_pipeline(module, passes, context, verify_each=True)
        for found, wanted in zip(Interpreter(module, context).call("main", arrays), expected, strict=True):
            assert_close(found, wanted, passes)


def tensor(element: Attribute, *extents: Any, layout: IndexMapAttr | None = None) -> Attribute:
    return tensor_type(element, extents, layout)


def numbers(element: Attribute, *extents: int, seed: int = 0, positive: bool = False) -> np.ndarray[Any, Any]:
    dtype, random = numpy_dtype(element), np.random.default_rng(seed + sum(extents))
    if dtype.kind == "b":
        return random.integers(0, 2, extents).astype(bool)
    if dtype.kind in "iu":
        return random.integers(1 if positive or dtype.kind == "u" else -20, 20, extents).astype(dtype)
    drawn = random.uniform(0.5, 1.5, extents) if positive else random.normal(0, 1, extents)
    return np.asarray(drawn).astype(dtype)


def check_on(element: Attribute, extents: Sequence[Sequence[int]], make: Callable[..., Any], **k: Any) -> None:
    arrays = [numbers(element, *e, seed=i, **k) for i, e in enumerate(extents)]
    check([tensor(element, *e) for e in extents], arrays, make)


@pytest.mark.parametrize("element", NUMBERS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min", "div", "mod", "pow"])
def test_binary(name: str, element: Attribute) -> None:
    cls = {c.name: c for c in broadcasting.BROADCASTING_OPS}[f"graph.{name}"]
    check_on(element, [(3, 4), (4,)], cls, positive=name in ("div", "mod", "pow"))


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("element", [f32, f64, i32], ids=str)
def test_remainder_signs(element: Attribute, truncated: bool) -> None:
    a = np.array([7, -7, 7, -7, 6, -6, 0, 1], numpy_dtype(element))
    b = np.array([3, 3, -3, -3, 3, 3, 2, 5], numpy_dtype(element))
    check([tensor(element, 8)] * 2, [a, b], lambda x, y: broadcasting.ModOp(x, y, truncated))


def test_remainder_of_infinite_values() -> None:
    a = np.array([1.5, math.inf, -2.5, math.nan, 1e20], np.float32)
    b = np.array([math.inf, 2, 0, 1, 3], np.float32)
    check([tensor(f32, 4)] * 2, [a[:4], b[:4]], lambda x, y: broadcasting.ModOp(x, y, True))


def test_integer_power_of_negative_values() -> None:
    a = np.array([0, 1, -1, -1, 3, -3, 2, 10], np.int32)
    b = np.array([0, 5, 3, 4, 7, 3, 31, 9], np.int32)
    check([tensor(i32, 8)] * 2, [a, b], broadcasting.PowOp)


@pytest.mark.parametrize("element", [i8, i32, i64, ui8], ids=str)
@pytest.mark.parametrize("name", ["and", "or", "xor", "shift_left", "shift_right"])
def test_bits(name: str, element: Attribute) -> None:
    cls = {c.name: c for c in broadcasting.BROADCASTING_OPS}[f"graph.{name}"]
    counts = np.array([0, 1, 3, 7], numpy_dtype(element))
    check([tensor(element, 3, 4), tensor(element, 4)], [numbers(element, 3, 4), counts], cls)


@pytest.mark.parametrize("cls", [broadcasting.AndOp, broadcasting.OrOp, broadcasting.XorOp])
def test_logic(cls: Any) -> None:
    check_on(i1, [(3, 4), (3, 4)], cls)


@pytest.mark.parametrize("predicate", broadcasting.PREDICATES)
@pytest.mark.parametrize("element", [f32, i32, ui8], ids=str)
def test_compare(element: Attribute, predicate: str) -> None:
    check_on(element, [(3, 4), (4,)], lambda x, y: broadcasting.CompareOp(x, y, predicate))


def test_where() -> None:
    types = [tensor(i1, 3, 4), tensor(f32, 4), tensor(f32, 3, 1)]
    arrays = [numbers(i1, 3, 4), numbers(f32, 4), numbers(f32, 3, 1)]
    check(types, arrays, broadcasting.WhereOp)


FLOAT_ONLY = [c for c in elementwise.UNARY_OPS if issubclass(c, elementwise.FloatUnaryOp)]


@pytest.mark.parametrize("cls", [*FLOAT_ONLY, elementwise.IsNanOp], ids=lambda c: c.name)
@pytest.mark.parametrize("element", [f32, f64, f16], ids=str)
def test_functions(element: Attribute, cls: Any) -> None:
    x = numbers(element, 3, 4, positive=True)
    if cls.name in ("graph.asin", "graph.acos", "graph.atanh"):
        x = x - x.dtype.type(0.55)
    if cls.name == "graph.acosh":
        x = x + x.dtype.type(1)
    check([tensor(element, 3, 4)], [x], cls)


@pytest.mark.parametrize("cls", [elementwise.AbsOp, elementwise.SignOp, elementwise.ReluOp], ids=lambda c: c.name)
@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_number_functions(element: Attribute, cls: Any) -> None:
    check_on(element, [(3, 4)], cls)


def test_negation_and_complement() -> None:
    for element in (f32, i32, i64):
        check_on(element, [(3, 4)], elementwise.NegOp)
    for element in (i1, i32, ui8):
        check_on(element, [(3, 4)], elementwise.NotOp)


@pytest.mark.parametrize("to", [f32, f64, f16, bf16, i8, i32, i64, ui8, i1], ids=str)
@pytest.mark.parametrize("element", [*NUMBERS, i1], ids=str)
def test_cast(element: Attribute, to: Attribute) -> None:
    check_on(element, [(3, 4)], lambda x: elementwise.CastOp(x, to), positive=True)


NAN = np.array([[1, math.nan, 3, 4], [math.nan, math.nan, 1, 2], [-1, -2, math.inf, 0]], np.float32)


@pytest.mark.parametrize(
    "make",
    [
        elementwise.ReluOp,
        elementwise.SignOp,
        elementwise.IsNanOp,
        lambda x: broadcasting.MaxOp(x, x),
        lambda x: reduce.ReduceMaxOp(x, [1]),
        lambda x: reduce.ReduceMinOp(x, [1]),
        lambda x: reduce.ArgMaxOp(x, 1),
        lambda x: reduce.ArgMinOp(x, 0),
        lambda x: indexing.TopKOp(x, 4, 1, False),
    ],
)
def test_nan(make: Callable[..., Any]) -> None:
    check([tensor(f32, 3, 4)], [NAN], make)


REDUCTIONS = (reduce.ReduceSumOp, reduce.ReduceMeanOp, reduce.ReduceMaxOp, reduce.ReduceMinOp, reduce.ReduceProdOp)


@pytest.mark.parametrize(
    ("cls", "element"),
    [(c, e) for c in REDUCTIONS for e in (f32, f16, i32, ui8) if c is not reduce.ReduceMeanOp or e in (f32, f16)],
)
def test_reductions(cls: Any, element: Attribute) -> None:
    types, arrays = [tensor(element, 2, n, 6)], [numbers(element, 2, 5, 6, positive=True)]
    check(types, arrays, lambda x: cls(x, [0, 2], True))
    check(types, arrays, lambda x: cls(x, [1]))
    check(types, arrays, lambda x: cls(x, []))


def test_any_and_all() -> None:
    check_on(i1, [(3, 4)], lambda x: reduce.ReduceMaxOp(x, [1]))
    check_on(i1, [(3, 4)], lambda x: reduce.ReduceMinOp(x, [0]))


def test_reductions_of_nothing() -> None:
    empty = np.zeros((0, 3), np.float32)
    for cls in (reduce.ReduceSumOp, reduce.ReduceProdOp, reduce.ReduceMaxOp, reduce.ReduceMinOp):
        check([tensor(f32, 0, 3)], [empty], lambda x, cls=cls: cls(x, [0]))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("cls", [reduce.ArgMaxOp, reduce.ArgMinOp])
def test_arg_reductions_with_ties(cls: Any, keep: bool, last: bool) -> None:
    for element in (f32, i32, ui8):
        x = np.abs(numbers(element, 2, 6, 5)).astype(np.int32) % 3
        x = x.astype(numpy_dtype(element))
        check([tensor(element, 2, n, 5)], [x], lambda x: cls(x, 1, keep, last))


@pytest.mark.parametrize("element", [f32, f16, i32], ids=str)
def test_matmul(element: Attribute) -> None:
    check([tensor(element, 2, 1, n, 6), tensor(element, 3, 6, 4)],
          [numbers(element, 2, 1, 5, 6), numbers(element, 3, 6, 4)], linear.MatmulOp)  # fmt: skip


@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolution(element: Attribute, groups: int) -> None:
    filters = (8, 4 // groups, 3, 2)
    check_on(element, [(2, 4, 7, 6), filters], lambda x, w: nn.ConvOp(x, w, [2, 1], [1, 0, 2, 1], [1, 2], groups))
    check_on(element, [(1, 4, 7), (8, 4 // groups, 3)], lambda x, w: nn.ConvOp(x, w, [1], [0, 0], [1], groups))


def test_symbolic_convolution() -> None:
    types = [tensor(f32, n, 2, 9, n + 3), tensor(f32, 4, 2, 3, 3)]
    arrays = [numbers(f32, 2, 2, 9, 5), numbers(f32, 4, 2, 3, 3)]
    check(types, arrays, lambda x, w: nn.ConvOp(x, w, [2, 2], [1, 1, 1, 1], [1, 1]))
    check(types, arrays, lambda x, w: nn.ConvOp(x, w, [2, 2], [0, 0, 0, 0], [1, 1]))


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution(groups: int) -> None:
    def make(x: Any, w: Any) -> Any:
        return nn.ConvTransposeOp(x, w, [2, 3], [1, 0, 1, 1], [2, 1], [1, 0], groups)

    check_on(f32, [(2, 4, 5, 4), (4, 3, 3, 2)], make)


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 1, 1)])
def test_pooling(pads: tuple[int, ...], ceil: bool) -> None:
    for element in (f32, f16):
        check_on(element, [(2, 3, 9, 8)], lambda x: nn.MaxPoolOp(x, [3, 2], [2, 2], pads, [1, 1], ceil))
        for counted in (False, True):
            check_on(
                element,
                [(2, 3, 9, 8)],
                lambda x, c=counted: nn.AvgPoolOp(x, [3, 3], [2, 2], pads, [1, 2], ceil, count_include_pad=c),
            )
    check_on(ui8, [(2, 3, 9, 8)], lambda x: nn.MaxPoolOp(x, [3, 2], [2, 2], pads, [2, 1], ceil))


def test_symbolic_pooling() -> None:
    types, arrays = [tensor(f32, 1, 2, n, 6)], [numbers(f32, 1, 2, 5, 6)]
    check(types, arrays, lambda x: nn.AvgPoolOp(x, [3, 3], [2, 1], [1, 1, 1, 1], [1, 1]))
    check(types, arrays, lambda x: nn.MaxPoolOp(x, [3, 3], [2, 1], [1, 1, 1, 1], [1, 1], True))


@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(axis: int, element: Attribute) -> None:
    for cls in (nn.SoftmaxOp, nn.LogSoftmaxOp):
        check([tensor(element, n, 6)], [numbers(element, 3, 6)], lambda x, cls=cls: cls(x, axis))


def test_softmax_of_large_values() -> None:
    x = np.array([[1e4, 0, -1e4], [200, 200, 100]], np.float32)
    check([tensor(f32, 2, 3)], [x], lambda x: nn.SoftmaxOp(x, 1))


@pytest.mark.parametrize("beta", [0.5, 0.75, 0.6, 1.0])
def test_lrn(beta: float) -> None:
    check_on(f32, [(2, 7, 3, 3)], lambda x: nn.LrnOp(x, 4, 1e-2, beta, 1.0))


def test_normalisations() -> None:
    check_on(f32, [(2, 7, 3, 3), (7,), (7,), (7,), (7,)], lambda *x: nn.BatchNormOp(*x, 1e-5), positive=True)
    check([tensor(f32, n, 3, 4)], [numbers(f32, 2, 3, 4)], lambda x: nn.NormalizeOp(x, [1, 2], 1e-5))
    check([tensor(f32, n, 3, 4)], [numbers(f32, 2, 3, 4)], lambda x: nn.NormalizeOp(x, [0], 1e-5))


@pytest.mark.parametrize(
    ("before", "sizes", "after"),
    [
        ((2, n, 6), (2, 5, 6), (2, n * 2, 3)),
        ((2, n, 6), (2, 5, 6), (n * 12,)),
        ((2, 3, 4, 5), (2, 3, 4, 5), (6, 1, 2, 10, 1)),
        ((1, 6, 1), (1, 6, 1), (2, 3)),
        ((6,), (6,), (1, 1, 6, 1)),
        ((1, 1), (1, 1), ()),
        ((n, 4, 2), (3, 4, 2), (n * 4, 2)),
        ((6, 4), (6, 4), (4, 6)),
    ],
)
def test_reshape(before: Any, sizes: Any, after: Any) -> None:
    check([tensor(f32, *before)], [numbers(f32, *sizes)], lambda x: shape.ReshapeOp(x, after))


def test_movement() -> None:
    x3 = [tensor(f32, 2, n, 4)], [numbers(f32, 2, 6, 4)]
    check(*x3, lambda x: shape.TransposeOp(x, [2, 0, 1]))
    check(*x3, lambda x: shape.SliceOp(x, [1, 1, 3], [1, n - 2, 2], [1, 1, -2]))
    check([tensor(f32, n, 1)], [numbers(f32, 3, 1)], lambda x: shape.BroadcastToOp(x, [2, n, 4]))
    parts = [tensor(f32, 2, 3, 4), tensor(f32, 2, n, 4), tensor(f32, 2, 1, 4)]
    arrays = [numbers(f32, 2, 3, 4), numbers(f32, 2, 6, 4), numbers(f32, 2, 1, 4)]
    check(parts, arrays, lambda *x: shape.ConcatOp(x, 1))
    check(parts[:1], arrays[:1], lambda x: shape.ConcatOp([x], 0))


@pytest.mark.parametrize("mode", shape.PAD_MODES)
def test_pad(mode: str) -> None:
    types, arrays = [tensor(f32, 3, n), tensor(f32)], [numbers(f32, 3, 6), np.float32(7)]
    check(types, arrays, lambda x, v: shape.PadOp(x, v, [2, 1], [1, 3], mode))


def test_generators() -> None:
    for element in (i64, i32, f32):
        check([tensor(f32, n)], [numbers(f32, 3)], lambda x, e=element: shape.IotaOp([2, n], 1, e))
    check([tensor(f32, n)], [numbers(f32, 3)], lambda x: shape.DimsOp([2, n, n * 2 + 1]))


BLOCKED = IndexMapAttr(4, [parse_expr(e) for e in ("d0", "d1 floordiv 4", "d2", "d3", "d1 mod 4")])
LAST = IndexMapAttr(4, [parse_expr(e) for e in ("d0", "d2", "d3", "d1")])


@pytest.mark.parametrize("layout", [BLOCKED, LAST])
def test_layouts(layout: IndexMapAttr) -> None:
    x = numbers(f32, 2, 8, 3, 3)
    check([tensor(f32, 2, 8, 3, 3)], [x], lambda x: structure.RelayoutOp(x, layout))
    check([tensor(f32, n, 8, 3, 3, layout=layout)], [x], lambda x: structure.RelayoutOp(x, None))
    check([tensor(f32, n, 8, 3, 3, layout=layout)], [x], elementwise.ReluOp)
    check([tensor(f32, 2, 8, 3, 3, layout=layout)], [x], lambda x: nn.MaxPoolOp(x, [3, 3], [1, 1], [1] * 4, [1, 1]))
    check([tensor(f32, 2, 8, 3, 3, layout=layout)], [x], lambda x: nn.LrnOp(x, 3, 1e-2, 0.75, 1.0))
    check([tensor(f32, 2, 8, 3, 3, layout=layout)], [x], lambda x: shape.ReshapeOp(x, [2, 72]))


def places(low: int, high: int, *extents: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(low, high, extents)


@pytest.mark.parametrize("index", [i64, i32], ids=str)
def test_gathers(index: Attribute) -> None:
    dtype = numpy_dtype(index)
    check([tensor(f32, 3, n, 4), tensor(index, 2, 5)],
          [numbers(f32, 3, 6, 4), places(-6, 6, 2, 5).astype(dtype)],
          lambda x, i: indexing.GatherOp(x, i, 1))  # fmt: skip
    check([tensor(f32, 3, n, 4), tensor(index, 3, 5, 2)],
          [numbers(f32, 3, 6, 4), places(-6, 6, 3, 5, 2).astype(dtype)],
          lambda x, i: indexing.GatherElementsOp(x, i, 1))  # fmt: skip
    check([tensor(f32, 3, n, 4, 2), tensor(index, 3, 5, 2)],
          [numbers(f32, 3, 6, 4, 2), places(-4, 4, 3, 5, 2).astype(dtype)],
          lambda x, i: indexing.GatherNdOp(x, i, 1))  # fmt: skip


@pytest.mark.parametrize("reduction", indexing.SCATTER_REDUCTIONS)
@pytest.mark.parametrize("index", [i64, i32], ids=str)
def test_scatters(index: Attribute, reduction: str) -> None:
    unique, dtype = reduction == "none", numpy_dtype(index)
    at = np.array([[0, 2], [-1, 1]]) if unique else places(-4, 4, 2, 3)
    check([tensor(f32, 3, n), tensor(index, *at.shape), tensor(f32, *at.shape)],
          [numbers(f32, 3, 4), at.astype(dtype), numbers(f32, *at.shape)],
          lambda x, i, u: indexing.ScatterElementsOp(x, i, u, 1, reduction))  # fmt: skip
    at = np.array([[0, 2], [-1, 1]]) if unique else places(-2, 2, 4, 2)
    check([tensor(f32, 3, 4, 2), tensor(index, *at.shape), tensor(f32, len(at), 2)],
          [numbers(f32, 3, 4, 2), at.astype(dtype), numbers(f32, len(at), 2)],
          lambda x, i, u: indexing.ScatterNdOp(x, i, u, reduction))  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumsum(exclusive: bool, reverse: bool) -> None:
    for element in (f32, i32):
        check([tensor(element, 3, n)], [numbers(element, 3, 6)],
              lambda x: indexing.CumsumOp(x, 1, exclusive, reverse))  # fmt: skip


@pytest.mark.parametrize("largest", [False, True])
def test_topk(largest: bool) -> None:
    for element in (f32, i32):
        x = np.round(numbers(element, 3, 8))
        check([tensor(element, 3, n)], [x], lambda x: indexing.TopKOp(x, 3, 1, largest))


@pytest.mark.parametrize("coordinates", shape.COORDINATES)
def test_resize(coordinates: str) -> None:
    x = [tensor(f32, 1, 3, 4)], [numbers(f32, 1, 3, 4)]
    for rounding in shape.ROUNDINGS:
        check(*x, lambda x, r=rounding: shape.ResizeOp(x, [1, 6, 3], "nearest", coordinates, r))
    check(*x, lambda x: shape.ResizeOp(x, [1, 6, 12], "nearest", coordinates, "floor"))
    check([tensor(f32, 1, 3, n)], x[1], lambda x: shape.ResizeOp(x, [1, 6, n - 1], "linear", coordinates))
    for exclude in (False, True):
        check(*x, lambda x, e=exclude: shape.ResizeOp(
            x, [1, 6, 3], "cubic", coordinates, scales=[1, 2.0, 0.8], exclude_outside=e))  # fmt: skip


def test_resize_of_integers_truncates() -> None:
    """Weights are exact here: no rounding decides between neighbours."""
    check([tensor(ui8, 3, 4)], [numbers(ui8, 3, 4)], lambda x: shape.ResizeOp(x, [6, 8], "linear", "asymmetric"))


def test_splat_constant() -> None:
    check([tensor(f32, 2)], [numbers(f32, 2)], lambda x: _splat(3.5, f32, 2, 3))
    check([tensor(f32, 2)], [numbers(f32, 2)], lambda x: _splat(True, i1, 2))


def _splat(value: Any, element: Attribute, *extents: int) -> Any:
    from tilewright.passes.graph.constants import dense_constant

    return dense_constant(np.full(extents, value, numpy_dtype(element)), element)


def test_every_op_is_lowered_or_known_not_to_be() -> None:
    """Ops without a lowering: those that stay outside of kernels, and those whose result size depends on data."""
    without = {op.name for op in GRAPH.operations} - LOWERINGS.keys()
    assert without == {
        "graph.yield", "graph.recipe", "graph.kernel", "graph.call", "graph.match_shape",
        "graph.nonzero", "graph.compress",
    }  # fmt: skip


def test_reductions_over_dimensions_that_may_be_empty() -> None:
    for size in (0, 3):
        for kind in (reduce.ReduceMaxOp, reduce.ReduceSumOp):
            check([tensor(f32, n, 3), tensor(f32, n - 2, 3)], [numbers(f32, size + 2, 3), numbers(f32, size, 3)],
                  lambda _, x: kind(x, [0]))  # fmt: skip  # noqa: B023
