"""Random chains of ``te.compute``, for property tests of te passes and of the conversion to loops.

A program is a ``@main`` with one ``graph.kernel`` that holds te computes: elementwise ones with broadcasts,
permuted, strided, split and padded reads, reads at data-dependent places, joined tensors, windows, products, and
reductions with every combiner. Results carry random layouts where a layout fits. Integers are exact; floats are of
moderate size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ...core.attributes import IndexMapAttr, shape_exprs, tensor_type
from ...core.context import TilewrightContext, make_context
from ...core.symbolic import SymExpr, as_expr, parse_expr, sym
from ...dialects.graph.structure import KernelOp, YieldOp
from ...interp import Interpreter
from ...interp.arith import numpy_dtype
from ...passes.convert.graph_to_te.builder import ComputeBody, TeBuilder
from ...passes.convert.graph_to_te.convert import make_names_unique
from ...passes.convert.graph_to_te.elements import Elem, is_float
from ...passes.convert.graph_to_te.indexing import gather_index
from ...passes.convert.graph_to_te.reduce import index_value
from ...passes.convert.graph_to_te.shape import linear_index, split_index

Array = npt.NDArray[Any]
Exprs = tuple[SymExpr, ...]
EXTENTS = (1, 2, 3, 4, 6)
LAYOUTS = {
    2: ("d1, d0", "d0, d1 floordiv 2, d1 mod 2"),
    3: ("d0, d2, d1", "d0, d1 floordiv 2, d2, d1 mod 2", "d2 floordiv 3, d0, d1, d2 mod 3"),
    4: ("d0, d2, d3, d1", "d0, d1 floordiv 2, d2, d3, d1 mod 2"),
}


@dataclass(repr=False)
class TeProgram:
    """A module with ``@main``, and arguments to call it with."""

    module: ModuleOp
    context: TilewrightContext
    inputs: list[Array]

    def run(self) -> list[Array]:
        """The results of ``@main``, by the reference interpreter."""
        return Interpreter(self.module, self.context).call("main", self.inputs)

    def __repr__(self) -> str:
        return f"inputs {[array.shape for array in self.inputs]}\n{self.module}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis shows of a failing example."""
        printer.text(repr(self))


@dataclass
class Builder:
    """The computes so far; ``sizes`` are the extents that symbols have in this program."""

    draw: st.DrawFn
    te: TeBuilder
    values: list[SSAValue]
    sizes: dict[str, int]

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def pick(self, accept: Callable[[SSAValue], bool] = lambda _: True) -> SSAValue | None:
        found = [value for value in self.values if accept(value)]
        return None if not found else found[-1 - min(self.draw(st.integers(0, 3)), len(found) - 1)]

    def type(self, element: Attribute, shape: Sequence[SymExpr | int]) -> Attribute:
        """A tensor type, often with one of the layouts that fit."""
        exprs = [as_expr(e) for e in shape]
        fitting = [None, *(x for x in LAYOUTS.get(len(exprs), ()) if _fits(x, exprs))]
        text = self.one_of(*fitting)
        layout = None if text is None else IndexMapAttr(len(exprs), [parse_expr(e) for e in text.split(", ")])
        return tensor_type(element, exprs, layout)

    def compute(self, shape: Sequence[SymExpr | int], element: Attribute, body: Any, **reduce: Any) -> None:
        if len(shape) > 4 or self.count(shape) > 400:
            return
        if "reduce" in reduce and self.count(shape) * self.count(reduce["reduce"]) > 2000:
            return
        self.values.append(self.te.compute("c", self.type(element, shape), body, **reduce))

    def count(self, shape: Sequence[SymExpr | int]) -> int:
        return math.prod(as_expr(e).evaluate(self.sizes) for e in shape)


def _fits(layout: str, shape: Sequence[SymExpr]) -> bool:
    block = 3 if "mod 3" in layout else 2
    position = 2 if "mod 3" in layout else 1
    extent = shape[position]
    return "mod" not in layout or (extent.is_const() and extent.const_value() % block == 0)


def element(value: SSAValue) -> Attribute:
    """Element type of a tensor."""
    found: Attribute = value.type.element_type  # type: ignore[attr-defined]
    return found


def dims(value: SSAValue) -> Exprs:
    return shape_exprs(value.type)


Step = Callable[[Builder], None]


def elementwise(b: Builder) -> None:
    """``f(x[i], y[broadcast i])``."""
    x = b.pick()
    assert x is not None
    shape = dims(x)
    y = b.pick(lambda v: element(v) == element(x) and dims(v) == shape[len(shape) - len(dims(v)) :])
    name = b.one_of("add", "sub", "mul", "max", "min")
    unary = b.one_of("none", "relu", "tanh", "scale", "index")

    def body(e: ComputeBody, i: Exprs) -> Elem:
        value = e.read(x, i)
        if y is not None:
            value = e.binary(name, value, e.read(y, i[len(i) - len(dims(y)) :]))
        if unary == "relu":
            value = e.max(value, 0)
        elif unary == "tanh" and is_float(value.type):
            value = e.unary("tanh", value)
        elif unary == "scale":
            value = value * 2 + 1
        elif unary == "index" and i:
            value = value + e.cast(index_value(e, i[-1] * 2 + 1, i64), value.type)
        return value

    b.compute(shape, element(x), body)


def permute(b: Builder) -> None:
    x = b.pick()
    assert x is not None
    order = b.draw(st.permutations(range(len(dims(x)))))
    shape = [dims(x)[k] for k in order]
    b.compute(shape, element(x), lambda e, i: e.read(x, [i[order.index(k)] for k in range(len(order))]))


def reshape(b: Builder) -> None:
    """Flattens, or splits the last dimension."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return
    shape = dims(x)
    size = as_expr(1)
    for extent in shape:
        size = size * extent
    factor = b.one_of(1, 2, 3)
    divides = shape[-1].is_const() and shape[-1].const_value() % factor == 0
    after = [size] if not divides else [*shape[:-1], shape[-1] // factor, as_expr(factor)]
    b.compute(after, element(x), lambda e, i: e.read(x, split_index(linear_index(i, after), shape)))


def pad(b: Builder) -> None:
    """Reads with a default, shifted or strided."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return
    low, high, stride = b.draw(st.integers(-1, 2)), b.draw(st.integers(0, 2)), b.one_of(1, 2)
    shape = dims(x)
    extent = shape[-1] + (low + high + 1)
    fill = b.one_of(0, 1)

    def body(e: ComputeBody, i: Exprs) -> Elem:
        return e.read(x, [*i[:-1], i[-1] * stride - low], e.constant(fill, element(x)))

    b.compute([*shape[:-1], extent], element(x), body)


def join(b: Builder) -> None:
    """Concatenation: reads chained by their defaults."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return
    y = b.pick(lambda v: element(v) == element(x) and dims(v)[1:] == dims(x)[1:] and len(dims(v)) > 0)
    if y is None:
        return

    def body(e: ComputeBody, i: Exprs) -> Elem:
        second = e.read(y, [i[0] - dims(x)[0], *i[1:]], e.constant(0, element(x)))
        return e.read(x, i, second)

    b.compute([dims(x)[0] + dims(y)[0], *dims(x)[1:]], element(x), body)


def gather(b: Builder) -> None:
    """Rows of ``x`` at places that an integer tensor names."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    places = b.pick(lambda v: element(v) == i32)
    if x is None or places is None:
        return
    rank = len(dims(places))

    def body(e: ComputeBody, i: Exprs) -> Elem:
        at = gather_index(e, e.read(places, i[:rank]), dims(x)[0])
        return e.read(x, [at, *i[rank:]])

    b.compute([*dims(places), *dims(x)[1:]], element(x), body)


def reduction(b: Builder) -> None:
    """Over some dimensions, with any combiner of one value."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return
    shape = dims(x)
    axes = sorted(b.draw(st.sets(st.sampled_from(range(len(shape))), min_size=1)))
    combine = b.one_of("sum", "max", "min", "prod")
    squared = b.one_of(True, False)

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        outer, inner = iter(i), iter(r)
        value = e.read(x, [next(inner) if k in axes else next(outer) for k in range(len(shape))])
        return value * value if squared else value

    kept = [extent for k, extent in enumerate(shape) if k not in axes]
    b.compute(kept, element(x), body, reduce=[shape[k] for k in axes], combine=combine)


def extreme(b: Builder) -> None:
    """argmax and argmin along the last dimension; uses the index."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return
    shape, name = dims(x), b.one_of("argmax", "argmin")
    types = [tensor_type(element(x), shape[:-1]), tensor_type(i64, shape[:-1])]

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> tuple[Elem, Elem]:
        return e.read(x, [*i, r[0]]), index_value(e, r[0], i64)

    value, index = b.te.compute_many(name, types, body, [shape[-1]], name)
    b.values.append(value)
    b.compute(shape[:-1], i32, lambda e, i: e.cast(e.read(index, i), i32))


def window(b: Builder) -> None:
    """Overlapping windows along the last dimension, padded in a compute of its own or in the reduction's reads."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return
    shape, kernel, stride = dims(x), b.one_of(2, 3), b.one_of(1, 2)
    combine = b.one_of("sum", "max")

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        return e.read(x, [*i[:-1], i[-1] * stride + r[0] - 1], e.constant(0, element(x)))

    extent = (shape[-1] - 1) // stride + 1
    b.compute([*shape[:-1], extent], element(x), body, reduce=[kernel], combine=combine)


def product(b: Builder) -> None:
    """Matrix product of two values of rank 2."""
    x = b.pick(lambda v: len(dims(v)) == 2)
    if x is None:
        return
    y = b.pick(lambda v: len(dims(v)) == 2 and dims(v)[0] == dims(x)[1] and element(v) == element(x))
    if y is None:
        return

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        return e.read(x, [i[0], r[0]]) * e.read(y, [r[0], i[1]])

    b.compute([dims(x)[0], dims(y)[1]], element(x), body, reduce=[dims(x)[1]], combine="sum")


STEPS: tuple[Step, ...] = (
    elementwise, elementwise, permute, reshape, pad, join, gather, reduction, extreme, window, product,
)  # fmt: skip


@st.composite
def te_programs(draw: st.DrawFn, steps: Sequence[Step] = STEPS, max_steps: int = 6) -> TeProgram:
    """A kernel of up to ``max_steps`` steps on one to three arguments, one of them often with a symbolic dimension."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    inputs: list[Array] = []
    types: list[Attribute] = []
    for number in range(draw(st.integers(1, 3))):
        extents = draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=3))
        kind = draw(st.sampled_from((f32, f32, i32)))
        symbolic = number == 0 and draw(st.booleans())
        types.append(tensor_type(kind, [sym("n"), *extents[1:]] if symbolic else extents))
        drawn = random.normal(0, 1, extents) if kind == f32 else random.integers(-3, 4, extents)
        inputs.append(np.asarray(drawn).astype(numpy_dtype(kind)))
    body = Block(arg_types=types)
    end = YieldOp()
    body.add_op(end)
    b = Builder(draw, TeBuilder(end), list(body.args), {"n": inputs[0].shape[0]})
    elementwise(b)
    for _ in range(draw(st.integers(1, max_steps))):
        b.one_of(*steps)(b)
    result = next(v for v in reversed(b.values) if v not in body.args)
    end.operands = [result]
    make_names_unique(body.ops)
    outer = Block(arg_types=types)
    kernel = KernelOp("kernel", outer.args, [result.type], Region(body))
    outer.add_ops([kernel, ReturnOp(*kernel.results)])
    module = ModuleOp([FuncOp("main", (types, [result.type]), Region(outer))])
    module.verify()
    return TeProgram(module, make_context(), inputs)
