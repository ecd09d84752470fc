"""Random programs of the graph dialect, with their weights and inputs, for property tests of passes and targets.

A program is drawn operation by operation: each step picks an operation and operands among the values so far; what the
dialect refuses (``VerifyException``) is not added. Besides plain operations there are steps that leave work for
passes: copies of operations, arithmetic on constants, movement that undoes itself, zeros and ones. Values are of
moderate size.

``smooth`` programs have no operation whose result jumps (comparison, rounding, arg max): after them, results of
passes that change rounding stay close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import (
    DenseResourceAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import shape_exprs, tensor_type
from ...core.context import TilewrightContext, make_context
from ...core.symbolic import ExprLike, SymExpr, sym
from ...dialects.graph import broadcasting, elementwise, linear, nn, reduce, shape
from ...dialects.graph.base import GraphOp, tensor_of
from ...dialects.graph.structure import ConstantOp, MatchShapeOp
from ...interp import Interpreter
from ...interp.arith import numpy_dtype
from ...passes.graph.constants import dense_constant

Array = npt.NDArray[Any]

EXTENTS = (1, 2, 3, 4, 8)
ELEMENTS = (f32, i32, f64, i64, i8, IntegerType(8, Signedness.UNSIGNED))
CHANNELS = (1, 2, 3, 4, 8, 16)
SMOOTH_UNARY = ("relu", "neg", "abs", "tanh", "sigmoid", "erf")
JUMPING_UNARY = ("sign", "floor", "ceil", "round")
BINARY = ("add", "sub", "mul", "max", "min")


@dataclass(repr=False)
class GraphProgram:
    """A module with ``@main``, the context that holds its weights, and arguments to call it with."""

    module: ModuleOp
    context: TilewrightContext
    inputs: list[Array]

    def run(self) -> list[Array]:
        """The results of ``@main``, by the reference interpreter."""
        with np.errstate(all="ignore"):
            return Interpreter(self.module, self.context).call("main", self.inputs)

    def __repr__(self) -> str:
        return f"inputs {[array.shape for array in self.inputs]}\n{self.module}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis shows of a failing example."""
        printer.text(repr(self))


@dataclass
class Builder:
    """The program so far; ``values`` are all tensors that an operation may use."""

    draw: st.DrawFn
    random: np.random.Generator
    context: TilewrightContext = field(default_factory=make_context)
    block: Block = field(default_factory=Block)
    values: list[SSAValue] = field(default_factory=list)

    def add(self, make: Callable[..., Operation], *args: Any) -> SSAValue | None:
        """Appends the operation ``make(*args)`` and gives its result; None where the dialect refuses it."""
        try:
            op = make(*args)
            op.verify_()
        except VerifyException:
            return None
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def pick(self, accept: Callable[[SSAValue], bool] = lambda _: True) -> SSAValue | None:
        """One of the values that are accepted; newer ones are likelier."""
        found = [value for value in self.values if accept(value)]
        return None if not found else found[-1 - min(self.draw(st.integers(0, 5)), len(found) - 1)]

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def numbers(self, extents: Sequence[int], element: Attribute = f32, positive: bool = False) -> Array:
        """An array of moderate numbers."""
        if isinstance(element, IntegerType):
            unsigned = element.signedness.data is Signedness.UNSIGNED
            low = 1 if positive else 0 if unsigned else -4
            return self.random.integers(low, 5, extents).astype(numpy_dtype(element))
        array = self.random.uniform(0.5, 1.5, extents) if positive else self.random.normal(0, 0.5, extents)
        return np.asarray(array).astype(numpy_dtype(element))

    def constant(self, extents: Sequence[int], element: Attribute = f32, positive: bool = False) -> SSAValue:
        """A constant of the table of weights, or one written out."""
        array = self.numbers(extents, element, positive)
        if self.one_of(True, False):
            op = dense_constant(array, element)
        else:
            type = tensor_type(element, extents)
            op = ConstantOp(DenseResourceAttr.from_params(self.context.resources.add(array, "w"), type))
        self.block.add_op(op)
        return op.result

    def splat(self, number: float, like: SSAValue) -> SSAValue:
        element = tensor_of(like).element_type
        op = dense_constant(np.asarray(number, numpy_dtype(element)), element)
        self.block.add_op(op)
        return op.result


def dims(value: SSAValue) -> tuple[SymExpr, ...]:
    return shape_exprs(value.type)


def sizes(value: SSAValue, start: int = 0) -> list[int] | None:
    """The extents from dimension ``start`` on; None where one is symbolic."""
    shape = dims(value)[start:]
    return [extent.const_value() for extent in shape] if all(e.is_const() for e in shape) else None


def is_float(value: SSAValue) -> bool:
    return tensor_of(value).element_type == f32


def is_image(value: SSAValue) -> bool:
    """N x C x H x W of floats, all but N constant."""
    return is_float(value) and len(dims(value)) == 4 and sizes(value, 1) is not None


Step = Callable[[Builder], object]


def unary(b: Builder, names: Sequence[str] = SMOOTH_UNARY) -> object:
    name = b.one_of(*names)
    classes = {cls.name: cls for cls in elementwise.UNARY_OPS}
    x = b.pick()
    return x and b.add(classes[f"graph.{name}"], x)


def jumping_unary(b: Builder) -> object:
    return unary(b, JUMPING_UNARY)


def binary(b: Builder) -> object:
    """Two values, or a value and a constant of a shape that broadcasts to it."""
    classes = {cls.name: cls for cls in broadcasting.BROADCASTING_OPS}
    cls = classes[f"graph.{b.one_of(*BINARY)}"]
    x = b.pick()
    if x is None:
        return None
    element = tensor_of(x).element_type
    y = b.pick(lambda v: tensor_of(v).element_type == element) if b.one_of(True, False) else None
    if y is None:
        keep = [e.is_const() and b.one_of(True, False) for e in dims(x)]
        y = b.constant([e.const_value() if k else 1 for e, k in zip(dims(x), keep)], element)
    pair = (x, y) if b.one_of(True, False) else (y, x)
    return b.add(cls, *pair)


def compare(b: Builder) -> object:
    """where(x < y, x, y) and the like."""
    x = b.pick()
    y = x and b.pick(lambda v: v.type == x.type)
    if x is None or y is None:
        return None
    test = broadcasting.CompareOp(x, y, b.one_of(*broadcasting.PREDICATES))
    ops: list[Operation] = [test]
    if b.one_of(True, False):
        ops.append(elementwise.NotOp(test.result))
    b.block.add_ops(ops)
    return b.add(broadcasting.WhereOp, ops[-1].results[0], x, y)


def convolution(b: Builder) -> object:
    """Dense, grouped or depthwise, strided, padded; often with a scale, a shift or a batch normalisation after it."""
    x = b.pick(is_image)
    if x is None:
        return None
    channels = dims(x)[1].const_value()
    groups = b.one_of(1, 1, 1, 2, channels)
    per_group = b.one_of(1, 2, 8)
    outputs = channels if groups == channels else groups * per_group
    kernel, pad, stride = b.one_of(1, 3), b.one_of(0, 1), b.one_of(1, 2)
    if channels % groups:
        return None
    w = b.constant([outputs, channels // groups, kernel, kernel])
    y = b.add(nn.ConvOp, x, w, [stride] * 2, [pad] * 4, [1, 1], groups)
    if y is not None and b.one_of(True, False):
        after_product(b, y, [outputs, 1, 1])
    return y


def after_product(b: Builder, y: SSAValue, channel: list[int]) -> None:
    for _ in range(b.one_of(1, 2)):
        match b.one_of("norm", "scale", "shift"):
            case "norm" if len(channel) == 3:
                batch_norm(b, y)
            case "scale":
                factor = b.constant(channel, positive=True)
                b.add(broadcasting.MulOp, b.values[-1], factor)
            case _:
                shift = b.constant(channel)
                b.add(broadcasting.AddOp, b.values[-1], shift)


def batch_norm(b: Builder, x: SSAValue | None = None) -> object:
    image = x or b.pick(is_image)
    if image is None:
        return None
    count = [dims(image)[1].const_value()]
    parameters = [b.constant(count, positive=positive) for positive in (False, False, False, True)]
    return b.add(nn.BatchNormOp, image, *parameters, 1e-5)


def pool(b: Builder) -> object:
    x = b.pick(is_image)
    cls = b.one_of(nn.MaxPoolOp, nn.AvgPoolOp)
    stride = b.one_of(1, 2)
    return x and b.add(cls, x, [2, 2], [stride] * 2, [0] * 4, [1, 1])


def normalise(b: Builder) -> object:
    x = b.pick(lambda v: is_float(v) and len(dims(v)) > 1)
    if x is None:
        return None
    if b.one_of(True, False):
        return b.add(nn.SoftmaxOp, x, len(dims(x)) - 1)
    return b.add(nn.LrnOp, x, 3, 0.1, 0.75, 1.0)


def matmul(b: Builder) -> object:
    x = b.pick(lambda v: is_float(v) and len(dims(v)) > 1 and dims(v)[-1].is_const())
    if x is None:
        return None
    columns = b.one_of(*EXTENTS)
    w = b.constant([dims(x)[-1].const_value(), columns])
    y = b.add(linear.MatmulOp, x, w)
    if y is not None and b.one_of(True, False):
        after_product(b, y, [columns])
    return y


def reduction(b: Builder, classes: Sequence[Any] = (reduce.ReduceSumOp, reduce.ReduceMaxOp)) -> object:
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return None
    axes = sorted(b.draw(st.sets(st.integers(0, len(dims(x)) - 1), max_size=2)))
    if is_image(x) and b.one_of(True, False):
        axes = [2, 3]
    cls = b.one_of(*classes, reduce.ReduceMeanOp) if is_float(x) else b.one_of(*classes)
    return b.add(cls, x, axes, b.one_of(True, False))


def reshape(b: Builder) -> object:
    """Merges two neighbouring dimensions, splits one, adds a 1; often twice."""
    for _ in range(b.one_of(1, 2)):
        x = b.pick(lambda v: len(dims(v)) > 0)
        if x is None:
            return None
        shape_, at = list(dims(x)), b.draw(st.integers(0, len(dims(x)) - 1))
        new: list[ExprLike]
        if len(shape_) > 1 and b.one_of(True, False):
            at = min(at, len(shape_) - 2)
            new = [*shape_[:at], shape_[at] * shape_[at + 1], *shape_[at + 2 :]]
        elif shape_[at] == 8:
            new = [*shape_[:at], 2, 4, *shape_[at + 1 :]]
        else:
            new = [*shape_[:at], 1, *shape_[at:]]
        b.add(shape.ReshapeOp, x, new)
    return None


def transpose(b: Builder) -> object:
    for _ in range(b.one_of(1, 2)):
        x = b.pick(lambda v: 1 < len(dims(v)) < 5)
        if x is not None:
            permutation = b.draw(st.permutations(range(len(dims(x)))))
            b.add(shape.TransposeOp, x, permutation)
    return None


def slices(b: Builder) -> object:
    """A part of one dimension, forwards or backwards; often of a concatenation or of another slice."""
    for _ in range(b.one_of(1, 2)):
        x = b.pick(lambda v: any(e.is_const() for e in dims(v)))
        if x is None:
            return None
        at = b.one_of(*[i for i, e in enumerate(dims(x)) if e.is_const()])
        extent = dims(x)[at].const_value()
        step = b.one_of(1, 1, 2, -1)
        size = b.draw(st.integers(1, max(1, extent // abs(step))))
        low = b.draw(st.integers(0, extent - 1 - (size - 1) * abs(step))) if extent else 0
        start = low if step > 0 else low + size - 1
        starts = [start if i == at else 0 for i in range(len(dims(x)))]
        extents = [size if i == at else e for i, e in enumerate(dims(x))]
        steps = [step if i == at else 1 for i in range(len(dims(x)))]
        b.add(shape.SliceOp, x, starts, extents, steps)
    return None


def concat(b: Builder) -> object:
    """Values that agree in all dimensions but one."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return None
    axis = b.draw(st.integers(0, len(dims(x)) - 1))

    def fits(v: SSAValue) -> bool:
        same = tensor_of(v).element_type == tensor_of(x).element_type and len(dims(v)) == len(dims(x))
        return same and all(a == c for i, (a, c) in enumerate(zip(dims(v), dims(x))) if i != axis)

    parts = [b.pick(fits) or x for _ in range(b.one_of(1, 1, 2))]
    return b.add(shape.ConcatOp, [x, *parts], axis)


def broadcast(b: Builder) -> object:
    x = b.pick()
    if x is None or len(dims(x)) > 4:
        return None
    shape_ = [b.one_of(2, 3), *(b.one_of(1, 4) if e == 1 else e for e in dims(x))]
    return b.add(shape.BroadcastToOp, x, shape_)


def pad(b: Builder) -> object:
    """Zeros around spatial dimensions, before a convolution as likely as not."""
    x = b.pick(lambda v: len(dims(v)) > 1)
    if x is None:
        return None
    rank = len(dims(x))
    low = [0] * (rank - 1) + [b.one_of(0, 1)]
    high = [0] * (rank - 1) + [b.one_of(0, 1)]
    zero = b.splat(b.one_of(0, 0, 1), x)
    y = b.add(shape.PadOp, x, zero, low, high)
    if y is not None and is_image(y):
        w = b.constant([2, dims(y)[1].const_value(), 1, 1])
        b.add(nn.ConvOp, y, w, [1, 1], [0] * 4, [1, 1])
    return None


def cast(b: Builder) -> object:
    """There and back, through a type that holds all values or one that does not."""
    x = b.pick()
    if x is None:
        return None
    through = b.one_of(f64, f32) if is_float(x) else b.one_of(i64, f64, f32)
    middle = elementwise.CastOp(x, through)
    b.block.add_op(middle)
    return b.add(elementwise.CastOp, middle.result, tensor_of(x).element_type)


def neutral(b: Builder) -> object:
    """x * 1, x - 0, 0 + x, x / 4, x ** 2: arithmetic with a plain number."""
    x = b.pick()
    if x is None:
        return None
    cls, numbers = b.one_of(
        (broadcasting.MulOp, (1, 0)), (broadcasting.SubOp, (0, 2)), (broadcasting.AddOp, (0, 3)),
        (broadcasting.DivOp, (1, 4, 3)), (broadcasting.PowOp, (1, 2)),
    )  # fmt: skip
    number = b.splat(b.one_of(*numbers), x)
    if cls in (broadcasting.MulOp, broadcasting.AddOp) and b.one_of(True, False):
        return b.add(cls, number, x)
    return b.add(cls, x, number)


def repeat(b: Builder) -> object:
    """The same operation again, on the same operands or on its own result."""
    made = [v.owner for v in b.values if isinstance(v.owner, GraphOp) and not isinstance(v.owner, MatchShapeOp)]
    if not made:
        return None
    op = b.one_of(*made[-4:])
    again = op.clone()
    if len(op.operands) == 1 and op.operands[0].type == op.results[0].type and b.one_of(True, False):
        again.operands = [op.results[0]]
    return b.add(lambda: again)


def on_constants(b: Builder) -> object:
    """A value combined with the result of operations on constants, small or large."""
    x = b.pick(lambda v: sizes(v) is not None)
    if x is None:
        return None
    extents, element = sizes(x) or [], tensor_of(x).element_type
    left, right = b.constant(extents, element), b.constant([1] * len(extents), element)
    folded = b.one_of(broadcasting.AddOp, broadcasting.MulOp)(left, right)
    turned = elementwise.NegOp(folded.result)
    b.block.add_ops([folded, turned])
    return b.add(broadcasting.AddOp, x, turned.result)


def claim(b: Builder) -> object:
    """A dimension of known size under a new name."""
    x = b.pick(lambda v: len(dims(v)) > 0)
    if x is None:
        return None
    name = sym(f"m{sum(1 for _ in b.block.ops)}")
    return b.add(MatchShapeOp, x, [name, *dims(x)[1:]])


def conditional(b: Builder) -> object:
    """A branch: each side does a little to a value of the enclosing block."""
    x = b.pick()
    if x is None:
        return None
    flag = dense_constant(np.asarray(b.one_of(True, False)), i1)
    condition = tensor.ExtractOp(flag.result, [], i1)
    b.block.add_ops([flag, condition])
    then, otherwise = Region(_branch(b, x)), Region(_branch(b, x))
    return b.add(lambda: scf.IfOp(condition.result, [x.type], then, otherwise))


def _branch(b: Builder, x: SSAValue) -> Block:
    outer, values = b.block, b.values
    b.block, b.values = Block(), [x]
    for _ in range(b.one_of(0, 1, 2)):
        b.one_of(unary, binary, neutral, on_constants)(b)
    result = next(value for value in reversed(b.values) if value.type == x.type)
    b.block.add_op(scf.YieldOp(result))
    branch, b.block, b.values = b.block, outer, values
    return branch


SMOOTH_STEPS: tuple[Step, ...] = (
    unary, binary, convolution, batch_norm, pool, normalise, matmul, reduction, reshape, transpose, slices, concat,
    broadcast, pad, cast, neutral, repeat, on_constants, claim, conditional,
)  # fmt: skip
ALL_STEPS: tuple[Step, ...] = (*SMOOTH_STEPS, jumping_unary, compare)


@st.composite
def graph_programs(
    draw: st.DrawFn,
    steps: Sequence[Step] = ALL_STEPS,
    max_steps: int = 8,
    mixed: bool = True,
    images: bool = False,
) -> GraphProgram:
    """A program of up to ``max_steps`` steps on one to three arguments, the first one often with a symbolic dimension.

    ``mixed``: arguments have several element types, not only f32; ``images``: all arguments are N x C x H x W.
    """
    b = Builder(draw, np.random.default_rng(draw(st.integers(0, 1 << 16))))
    inputs = [_argument(b, number, mixed, images) for number in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(min(4, max_steps), max_steps))):
        b.one_of(*steps)(b)
    results = b.values[-1:]
    results += [v for v in draw(st.lists(st.sampled_from(b.values), max_size=2)) if v not in results]
    b.block.add_op(ReturnOp(*results))
    types = [arg.type for arg in b.block.args], [value.type for value in results]
    module = ModuleOp([FuncOp("main", types, Region(b.block))])
    module.verify()
    return GraphProgram(module, b.context, inputs)


def smooth_graph_programs(max_steps: int = 8) -> st.SearchStrategy[GraphProgram]:
    """Programs of floats whose results depend continuously on every intermediate value."""
    return graph_programs(steps=SMOOTH_STEPS, max_steps=max_steps, mixed=False)


def _argument(b: Builder, number: int, mixed: bool, images: bool) -> Array:
    """An argument of ``@main``: an image, or a tensor of rank 1 to 3."""
    extents: list[int]
    if images:
        extents, element = [b.one_of(1, 2), b.one_of(*CHANNELS[1:]), b.one_of(4, 5), b.one_of(1, 4)], f32
    elif b.one_of(True, False):
        extents, element = [b.one_of(1, 2), b.one_of(*CHANNELS), b.one_of(1, 4, 5), b.one_of(1, 4)], f32
    else:
        extents = [b.one_of(*EXTENTS) for _ in range(b.one_of(1, 2, 3))]
        element = b.one_of(*ELEMENTS) if mixed else f32
    type = tensor_type(element, extents)
    if number == 0 and b.one_of(True, False):
        type = tensor_type(element, [sym("n"), *extents[1:]])
    b.values.append(b.block.insert_arg(type, number))
    return b.numbers(extents, element)
