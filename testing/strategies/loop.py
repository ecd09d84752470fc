"""Kernels of the loop dialect, built by hand or drawn at random.

:class:`KernelBuilder` makes the plain nests that ``convert-te-to-loop`` would make: one perfect nest and one block per
stage. Tests of schedules and loop passes use it where text would be long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...core.attributes import IndexMapAttr, memref_type
from ...core.symbolic import ExprLike, SymExpr, as_expr, const, sym
from ...dialects.loop.ops import AllocOp, BlockOp, ForOp, LoadOp, StoreOp
from ...passes.loop.index import IndexSpace
from ...passes.loop.nest import wrap


class Body:
    """Writes the operations of one block; ``iters`` are its iterators as expressions."""

    def __init__(self, space: IndexSpace, block: Block) -> None:
        self.space = space
        self.block = block
        self.iters = [space.var(a) for a in block.args]

    def add(self, op: Operation) -> SSAValue:
        """Append an op and return its result."""
        self.block.add_op(op)
        return op.results[0]

    def constant(self, value: float) -> SSAValue:
        """An f32 constant."""
        return self.add(arith.ConstantOp(FloatAttr(value, f32)))

    def load(self, buffer: SSAValue, index: Sequence[ExprLike], where: Sequence[ExprLike] = ()) -> SSAValue:
        """An element; 0 where the guard does not hold."""
        default = self.constant(0.0) if where else None
        args, maps = self.space.pack([as_expr(e) for e in index], [as_expr(e) for e in where])
        return self.add(LoadOp(buffer, args, maps[0], maps[1] if where else None, default))

    def store(self, value: SSAValue, buffer: SSAValue, index: Sequence[ExprLike]) -> None:
        """Store an element."""
        args, (map_,) = self.space.pack([as_expr(e) for e in index])
        self.block.add_op(StoreOp(value, buffer, args, map_))


class KernelBuilder:
    """A kernel function with memref arguments and stages of computation."""

    def __init__(
        self,
        args: Sequence[tuple[str, Sequence[ExprLike]]],
        outputs: int = 1,
        symbols: Sequence[str] = (),
        constant_args: Sequence[int] = (),
        name: str = "kernel",
    ) -> None:
        types: list[Attribute] = [memref_type(f32, shape) for _, shape in args]
        types += [IndexType()] * len(symbols)
        block = Block(arg_types=types)
        for arg, hint in zip(block.args, [*(n for n, _ in args), *symbols]):
            arg.name_hint = hint
        self.kernel = FuncOp(name, FunctionType.from_lists(types, []), Region(block), "private")
        self.kernel.attributes["tw.kernel"] = UnitAttr()
        self.kernel.attributes["symbols"] = ArrayAttr([StringAttr(s) for s in symbols])
        self.kernel.attributes["num_inputs"] = IntegerAttr(len(args) - outputs, i64)
        self.kernel.attributes["num_outputs"] = IntegerAttr(outputs, i64)
        if constant_args:
            self.kernel.attributes["constant_args"] = ArrayAttr([IntegerAttr(a, i64) for a in constant_args])
        self.block = block
        self.buffers: dict[str, SSAValue] = {n: arg for (n, _), arg in zip(args, block.args)}
        self.space = IndexSpace(self.kernel)

    def alloc(self, name: str, shape: Sequence[ExprLike], scope: str = "global") -> SSAValue:
        """An intermediate buffer."""
        type_: MemRefType[Attribute] = memref_type(f32, shape)
        op = AllocOp(name, type_, scope)
        op.result.name_hint = name
        self.block.add_op(op)
        self.buffers[name] = op.result
        return op.result

    def stage(
        self,
        name: str,
        spatial: Sequence[tuple[str, ExprLike]],
        body: Callable[[Body], None],
        reduce: Sequence[tuple[str, ExprLike]] = (),
        init: Callable[[Body], None] | None = None,
    ) -> BlockOp:
        """A plain nest with one block; ``body`` and ``init`` fill in its regions."""
        iters = [*spatial, *reduce]
        kinds = ["spatial"] * len(spatial) + ["reduce"] * len(reduce)
        loops = [self.space.new_loop(extent, hint) for hint, extent in iters]
        domains = [as_expr(extent) for _, extent in iters]
        args, maps = self.space.pack([self.space.var(x.var) for x in loops], domains)
        regions = [Region(Block(arg_types=[IndexType()] * len(iters))) for _ in range(1 if init is None else 2)]
        block = BlockOp(name, kinds, args, maps[0], maps[1], regions[0], None if init is None else regions[1])
        for region, fill in zip(regions, (body, init)):
            for arg, (hint, _) in zip(region.block.args, iters):
                arg.name_hint = f"v{hint}"
            assert fill is not None
            fill(Body(self.space, region.block))
        self.block.add_op(wrap(loops, block))
        return block

    def finish(self) -> FuncOp:
        """The kernel, closed by its return."""
        from xdsl.dialects.func import ReturnOp

        self.block.add_op(ReturnOp())
        return self.kernel


def matmul_kernel(m: ExprLike, n: ExprLike, k: ExprLike, symbols: Sequence[str] = ()) -> FuncOp:
    """``C = A B`` with a constant ``B``, then ``D = max(C, 0)``."""
    b = KernelBuilder([("A", [m, k]), ("B", [k, n]), ("D", [m, n])], 1, symbols, constant_args=[1])
    c = b.alloc("C", [m, n])

    def update(w: Body) -> None:
        i, j, r = w.iters
        product = arith.MulfOp(w.load(b.buffers["A"], [i, r]), w.load(b.buffers["B"], [r, j]))
        value = w.add(arith.AddfOp(w.load(c, [i, j]), w.add(product)))
        w.store(value, c, [i, j])

    def init(w: Body) -> None:
        w.store(w.constant(0.0), c, w.iters[:2])

    def relu(w: Body) -> None:
        value = w.add(arith.MaximumfOp(w.load(c, w.iters), w.constant(0.0)))
        w.store(value, b.buffers["D"], w.iters)

    b.stage("C", [("i", m), ("j", n)], update, [("k", k)], init)
    b.stage("D", [("i", m), ("j", n)], relu)
    return b.finish()


def blocked_convolution_kernel(
    channels: int, filters: int, size: int, window: int, stride: int = 1, block: int = 16, pad: int = 0
) -> FuncOp:
    """A window reduction over channel-blocked data with constant weights, then bias and ``max(x, 0)``.

    ``X: [1, channels / block, size, size, block]``, ``W: [filters, channels, window, window]``; the iteration
    space is the physical one of the output. With ``pad``, the data goes through a stage ``pad``.
    """
    out = (size + 2 * pad - window) // stride + 1
    x_shape = [1, channels // block, size, size, block]
    o_shape = [1, filters // block, out, out, block]
    w_shape = [filters, channels, window, window]
    b = KernelBuilder([("X", x_shape), ("W", w_shape), ("bias", [filters]), ("Y", o_shape)], constant_args=[1, 2])
    data: SSAValue = b.buffers["X"]
    if pad:
        data = _pad_stage(b, x_shape, pad)
    acc = b.alloc("acc", o_shape)

    def update(w: Body) -> None:
        n, oco, oh, ow, oci, ic, kh, kw = w.iters
        x = w.load(data, [n, ic // block, oh * stride + kh, ow * stride + kw, ic % block])
        weight = w.load(b.buffers["W"], [oco * block + oci, ic, kh, kw])
        value = w.add(arith.AddfOp(w.load(acc, w.iters[:5]), w.add(arith.MulfOp(x, weight))))
        w.store(value, acc, w.iters[:5])

    def epilogue(w: Body) -> None:
        bias = w.load(b.buffers["bias"], [w.iters[1] * block + w.iters[4]])
        value = w.add(arith.AddfOp(w.load(acc, w.iters), bias))
        w.store(w.add(arith.MaximumfOp(value, w.constant(0.0))), b.buffers["Y"], w.iters)

    spatial: list[tuple[str, ExprLike]] = list(zip(["n", "oco", "oh", "ow", "oci"], o_shape))
    reduce: list[tuple[str, ExprLike]] = [("ic", channels), ("kh", window), ("kw", window)]
    b.stage("acc", spatial, update, reduce, lambda w: w.store(w.constant(0.0), acc, w.iters[:5]))
    b.stage("Y", spatial, epilogue)
    return b.finish()


def _pad_stage(b: KernelBuilder, x_shape: Sequence[int], pad: int) -> SSAValue:
    padded = [x_shape[0], x_shape[1], x_shape[2] + 2 * pad, x_shape[3] + 2 * pad, x_shape[4]]
    buffer = b.alloc("padded", padded)

    def body(w: Body) -> None:
        n, c, y, x, ci = w.iters
        where: list[SymExpr] = [const(-1), y - pad, y - pad, const(x_shape[2])]
        where += [const(-1), x - pad, x - pad, const(x_shape[3])]
        w.store(w.load(b.buffers["X"], [n, c, y - pad, x - pad, ci], where), buffer, w.iters)

    b.stage("pad", list(zip(["n", "c", "y", "x", "ci"], padded)), body)
    return buffer


def weight_packing(block: int = 16) -> IndexMapAttr:
    """``[oc, ic, kh, kw]`` to ``[oc / b][ic / b][kh][kw][b of ic][b of oc]``."""
    o, i, h, w = (sym(f"d{n}") for n in range(4))
    return IndexMapAttr(4, [o // block, i // block, h, w, i % block, o % block])


__all__ = [
    "Body",
    "ForOp",
    "KernelBuilder",
    "blocked_convolution_kernel",
    "matmul_kernel",
    "weight_packing",
]
