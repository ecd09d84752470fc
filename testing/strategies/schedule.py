"""Random kernels and random schedules for them, legal and illegal steps alike.

A step is a kind and three numbers, resolved against the kernel as it is at that moment (block number, loop
number, factor), so that a list of steps shrinks well and stays meaningful.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ...core.attributes import IndexMapAttr, memref_shape_exprs
from ...core.symbolic import SymExpr, bounds, const, sym
from ...dialects.loop.ops import BlockOp, ForOp
from ...passes.loop.nest import is_argument, loops_around
from ...passes.loop.schedule import Schedule
from .loop import Body, KernelBuilder

Step = tuple[str, int, int, int]


# Kernels.


@dataclass
class _Buffer:
    value: SSAValue
    shape: list[int]


class Sample:
    """A drawn kernel; it shows as text. (No dataclass: Hypothesis would print the fields.)"""

    def __init__(self, kernel: FuncOp) -> None:
        self.kernel = kernel

    def __repr__(self) -> str:
        from ...text import print_module

        return print_module(ModuleOp([self.kernel.clone()]))


@st.composite
def kernels(draw: st.DrawFn, max_stages: int = 3) -> Sample:
    """Random kernels; see :func:`_kernels`."""
    return Sample(draw(_kernels(max_stages)))


@st.composite
def _kernels(draw: st.DrawFn, max_stages: int) -> FuncOp:
    """A kernel of one to ``max_stages`` stages over small buffers: elementwise, windows, contractions, padding.

    All values stay small integers where inputs are, so that results are exact in any order of summation.
    """
    rank = draw(st.integers(1, 3))
    shapes = [draw(st.lists(st.integers(1, 6), min_size=1, max_size=rank)) for _ in range(2)]
    count = min(draw(st.sampled_from([2, 3, 1])), max_stages)
    stages: list[list[int]] = []
    for _ in range(count):
        drawn = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8]), min_size=1, max_size=rank))
        repeat: bool = draw(st.booleans())
        stages.append(stages[-1] if stages and repeat else drawn)
    args = [("A", shapes[0]), ("W", shapes[1]), ("out", stages[-1])]
    b = KernelBuilder(args, 1, constant_args=[1])
    buffers = [_Buffer(b.buffers["A"], shapes[0]), _Buffer(b.buffers["W"], shapes[1])]
    for number, shape in enumerate(stages[:-1]):
        b.alloc(f"B{number}", shape)
    for number, shape in enumerate(stages):
        last = number == count - 1
        target = _Buffer(b.buffers["out" if last else f"B{number}"], shape)
        draw(_stages(b, f"s{number}", buffers, target))
        buffers.append(target)
    return b.finish()


@st.composite
def _stages(draw: st.DrawFn, b: KernelBuilder, name: str, buffers: list[_Buffer], target: _Buffer) -> None:
    """Add one stage that writes ``target`` and reads its predecessor and one more buffer."""
    spatial = [(f"{'ijk'[d]}", extent) for d, extent in enumerate(target.shape)]
    combine = draw(st.sampled_from([None, None, "add", "max"]))
    reduce = [("r", draw(st.integers(1, 5)))] if combine else []
    if combine and draw(st.booleans()):
        reduce.append(("q", draw(st.integers(1, 3))))
    extents = [e for _, e in (*spatial, *reduce)]
    sources = [buffers[-1], draw(st.sampled_from(draw(st.sampled_from([buffers, buffers[:2]]))))]
    reads = [[draw(_indices(extents, size)) for size in source.shape] for source in sources]
    if sources[0].shape == target.shape and draw(st.booleans()):
        reads[0] = [_iterator(d) for d in range(len(target.shape))]
    multiply = draw(st.booleans())

    def value(w: Body) -> SSAValue:
        loads = [_guarded_load(w, extents, s, [f(w.iters) for f in index]) for s, index in zip(sources, reads)]
        op = arith.MulfOp if multiply and sources[1].value is not buffers[-1].value else arith.AddfOp
        return w.add(op(loads[0], loads[1]))

    def body(w: Body) -> None:
        index = w.iters[: len(spatial)]
        result = value(w)
        if combine is not None:
            accumulator = w.load(target.value, index)
            result = w.add((arith.AddfOp if combine == "add" else arith.MaximumfOp)(accumulator, result))
        else:
            result = w.add(arith.MaximumfOp(result, w.constant(-1.0)))
        w.store(result, target.value, index)

    def init(w: Body) -> None:
        w.store(w.constant(0.0 if combine == "add" else -9.0), target.value, w.iters[: len(spatial)])

    b.stage(name, spatial, body, reduce, init if combine else None)


@st.composite
def _indices(draw: st.DrawFn, extents: Sequence[int], size: int) -> Callable[[Sequence[SymExpr]], SymExpr]:
    """An index expression for a dimension of ``size``: iterators with strides, offsets, quotients; often in bounds."""
    first = draw(st.integers(0, len(extents) - 1))
    second = draw(st.integers(0, len(extents) - 1))
    form = draw(st.sampled_from(["plain", "plain", "plain", "window", "shift", "quotient", "rest", "constant"]))
    stride, offset = draw(st.integers(1, 2)), draw(st.integers(-2, 2))

    def expr(iters: Sequence[SymExpr]) -> SymExpr:
        if form == "constant":
            return const(offset % size)
        if form == "window":
            return iters[first] * stride + iters[second] + offset
        if form == "shift":
            return iters[first] * stride + offset
        if form == "quotient":
            return iters[first] // 2 + offset
        if form == "rest":
            return iters[first] % 3
        return iters[first]

    return expr


def _iterator(number: int) -> Callable[[Sequence[SymExpr]], SymExpr]:
    return lambda iters: iters[number]


def _guarded_load(w: Body, extents: Sequence[int], source: _Buffer, index: Sequence[SymExpr]) -> SSAValue:
    """A load, with a guard where the index may leave the buffer."""
    ranges = {e.name: (0, extent - 1) for e, extent in zip(w.iters, extents)}
    where: list[SymExpr | int] = []
    for expr, size in zip(index, source.shape):
        low, high = bounds(expr, ranges)
        assert low is not None and high is not None
        if low < 0:
            where += [-1, expr]
        if high >= size:
            where += [expr, size]
    return w.load(source.value, index, where)


# Schedules.

STEP_KINDS = (
    "split",
    "split3",
    "fuse",
    "reorder",
    "tile",
    "vectorize",
    "parallel",
    "unroll",
    "compute_at",
    "reverse_compute_at",
    "compute_inline",
    "reverse_compute_inline",
    "cache_read",
    "cache_write",
    "set_scope",
    "decompose_reduction",
    "transform_layout",
    "annotate",
)


def steps(max_size: int = 9) -> st.SearchStrategy[list[Step]]:
    """Lists of random steps."""
    number = st.integers(0, 11)
    often = [
        "compute_at",
        "compute_at",
        "reverse_compute_at",
        "reverse_compute_inline",
        "split",
        "reorder",
        "vectorize",
        "fuse",
    ]
    weighted = [*STEP_KINDS, *often]
    return st.lists(st.tuples(st.sampled_from(weighted), number, number, number), min_size=4, max_size=max_size)


def apply_step(s: Schedule, step: Step) -> None:
    """Apply one step to the kernel as it is; raises ``ScheduleError`` where it is refused."""
    kind, a, b, c = step
    suitable = _SUITABLE.get(kind)
    blocks = [x for x in s.blocks() if suitable is None or a % 4 == 3 or suitable(s, x)] or s.blocks()
    block = blocks[a % len(blocks)]
    _STEP_FUNCTIONS[kind](s, block, b, c)


def _loop(block: BlockOp, number: int) -> ForOp:
    loops = loops_around(block)
    return loops[number % len(loops)]


def _others(s: Schedule, block: BlockOp, number: int) -> ForOp:
    """A loop around another block."""
    others = [x for x in s.blocks() if x is not block] or [block]
    other = others[number % len(others)]
    return _loop(other, number // len(others))


def _fuse(s: Schedule, block: BlockOp, b: int, c: int) -> None:
    loops = loops_around(block)
    start = b % len(loops)
    s.fuse(*loops[start : start + 2 + c % 2])


def _reorder(s: Schedule, block: BlockOp, b: int, c: int) -> None:
    loops = loops_around(block)
    first, second = loops[b % len(loops)], loops[c % len(loops)]
    s.reorder(second, first)


def _tile(s: Schedule, block: BlockOp, b: int, c: int) -> None:
    loops = loops_around(block)
    start = b % len(loops)
    chosen = loops[start : start + 2]
    s.tile(chosen, [1 + c % 4] * len(chosen))


def _transform_layout(s: Schedule, block: BlockOp, b: int, c: int) -> None:
    access = "write" if b % 2 else "read"
    buffers = s.written_buffers(block) if b % 2 else s.read_buffers(block)
    number = b % max(len(buffers), 1)
    rank = len(memref_shape_exprs(buffers[number].type)) if buffers else 1
    dims = [sym(f"d{i}") for i in range(rank)]
    block_size = 2 + c // 2 % 3
    chosen = dims[b % rank]
    forms = [
        [*reversed(dims)],
        [*(d for d in dims if d is not chosen), chosen // block_size, chosen % block_size],
        [sum(dims[1:], dims[0])],
    ]
    s.transform_layout(block, access, number, IndexMapAttr(rank, forms[c % 3]))


def _writes_alloc(s: Schedule, block: BlockOp) -> bool:
    return not any(is_argument(b) for b in s.written_buffers(block))


def _is_pointwise(block: BlockOp) -> bool:
    return "reduce" not in block.iter_kinds


_SUITABLE: dict[str, Callable[[Schedule, BlockOp], bool]] = {
    "compute_at": _writes_alloc,
    "reverse_compute_at": lambda s, block: bool(s.producers(block)),
    "compute_inline": lambda s, block: _writes_alloc(s, block) and _is_pointwise(block),
    "reverse_compute_inline": lambda s, block: bool(s.producers(block)) and _is_pointwise(block),
    "set_scope": _writes_alloc,
    "decompose_reduction": lambda s, block: block.init is not None,
}
"""Which blocks a step is mostly tried on; every fourth time it is any block."""

_STEP_FUNCTIONS: dict[str, Callable[[Schedule, BlockOp, int, int], object]] = {
    "split": lambda s, block, b, c: s.split(_loop(block, b), [None, 1 + c % 5]),
    "split3": lambda s, block, b, c: s.split(_loop(block, b), [2, None, 1 + c % 3] if c % 2 else [2, 2, 1 + c % 4]),
    "fuse": _fuse,
    "reorder": _reorder,
    "tile": _tile,
    "vectorize": lambda s, block, b, c: s.vectorize(_loop(block, b)),
    "parallel": lambda s, block, b, c: s.parallel(_loop(block, b)),
    "unroll": lambda s, block, b, c: s.unroll(_loop(block, b)),
    "compute_at": lambda s, block, b, c: s.compute_at(block, _others(s, block, b)),
    "reverse_compute_at": lambda s, block, b, c: s.reverse_compute_at(block, _others(s, block, b)),
    "compute_inline": lambda s, block, b, c: s.compute_inline(block),
    "reverse_compute_inline": lambda s, block, b, c: s.reverse_compute_inline(block),
    "cache_read": lambda s, block, b, c: s.cache_read(block, b % 3, "local" if c % 2 else "global"),
    "cache_write": lambda s, block, b, c: s.cache_write(block, b % 2, "local" if c % 2 else "global"),
    "set_scope": lambda s, block, b, c: s.set_scope(block, b // 11, "local"),
    "decompose_reduction": lambda s, block, b, c: s.decompose_reduction(
        block, (s.reduction_loops(block) or [_loop(block, b)])[0] if c % 3 else _loop(block, b)
    ),
    "transform_layout": _transform_layout,
    "annotate": lambda s, block, b, c: s.annotate(block if c % 2 else _loop(block, b), "note", StringAttr("x")),
}
