"""The pass ``te-inline``: elementwise and index-only producers are computed where they are read.

What it decides by is work: how often a producer's elements would be computed, against how often they are now.
Halide and TVM call this inlining injective stages; here it runs before any schedule, so that only stages worth a
nest remain.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove

from ...core.attributes import layout_of, shape_exprs
from ...core.context import TilewrightContext
from ...core.passes import ModulePass
from ...core.symbolic import SymExpr, as_expr, proves_le
from ...dialects.te.ops import ComputeOp, ReadOp
from ..convert.index_scope import SymbolRanges
from ..convert.structure import OncePerBody, structural_key
from .rebuild import compute_blocks, identity_source, rebuild

MAX_OPS = 256
"""Largest body that inlining makes."""
CHEAP_OPS = 4
"""Arithmetic ops of a body that may be computed several times rather than stored."""
_CHEAP_ARITH = """
    constant addf subf mulf negf maximumf minimumf maxnumf minnumf cmpf extf truncf sitofp uitofp
    addi subi muli maxsi minsi maxui minui andi ori xori cmpi extsi extui trunci select bitcast
"""
CHEAP = frozenset(
    {"math.absf", "builtin.unrealized_conversion_cast", *(f"arith.{name}" for name in _CHEAP_ARITH.split())}
)


@dataclass(frozen=True)
class TeInlinePass(ModulePass):
    """Merges chains of computes in each kernel; equal computes become one first, unused ones disappear.

    ::

        %1 = te.compute "conv" ... reduce ...
        %2 = te.compute "add" (%1 as %a, %b as %c) ...      -->     %1 = te.compute "conv" ... reduce ...
        %3 = te.compute "relu" (%2 as %a) ...                       %3 = te.compute "relu" (%1 as %a, %b as %c) ...

    A producer without reduction is inlined into all its consumers when that computes no element more often than
    now, or when its elements are cheap and no reduction would repeat them; a copy (transpose, slice, reshape) is
    always cheap, as long as reductions that repeat it get no divisions in their indices. It stays when something
    else than a compute uses it, when a consumer reads it with a default (unless it is an identity), when it pads
    (reads with a default itself) or changes the layout for a reduction: whether that pays, a schedule decides.
    """

    name: ClassVar[str] = "te-inline"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        once = OncePerBody(lambda holder: merge_block(holder.regions[0].block))
        for block in list(compute_blocks(op)):
            holder = block.parent_op()
            if holder is not None and len(holder.regions) == 1 and holder.has_trait(IsolatedFromAbove):
                once.apply(holder)
            else:
                merge_block(block)


def merge_block(block: Block) -> None:
    """All that the pass does, for the computes of one block.

    Again until nothing changes: when of two users of a value the one swallows the other, the value has one user left.
    """
    erase_unused(block)
    merge_equal(block)
    while inline_block(block):
        erase_unused(block)


def merge_equal(block: Block) -> None:
    """Keeps the first of computes that are equal but for their names."""
    known: dict[Hashable, ComputeOp] = {}
    for op in list(block.ops):
        if not isinstance(op, ComputeOp):
            continue
        types = tuple(r.type for r in op.results_)
        key = (tuple(op.inputs), op.extents, op.reduce_extents, types, structural_key(op.body))
        first = known.setdefault(key, op)
        if first is not op:
            for old, new in zip(op.results_, first.results_):
                old.replace_all_uses_with(new)
            Rewriter.erase_op(op)


def erase_unused(block: Block) -> bool:
    """Erases computes whose results nothing uses; says whether there were any."""
    erased = False
    for op in reversed(list(block.ops)):
        if isinstance(op, ComputeOp) and not any(r.uses for r in op.results_):
            Rewriter.erase_op(op)
            erased = True
    return erased


def inline_block(block: Block) -> bool:
    """Inlines in one pass from the first compute to the last: a producer has swallowed its own producers before.

    Says whether there was anything to inline.
    """
    decided: dict[SSAValue, ComputeOp] = {}
    for op in list(block.ops):
        if not isinstance(op, ComputeOp):
            continue
        if any(value in decided for value in op.inputs):
            op = rebuild(op, decided)
        if should_inline(op):
            decided.update(dict.fromkeys(op.results_, op))
    return bool(decided)


def should_inline(producer: ComputeOp) -> bool:
    """Whether all uses of the producer's results become the computation itself."""
    if producer.reduce_extents.exprs:
        return False
    consumers: list[ComputeOp] = []
    for result in producer.results_:
        for use in result.uses:
            if not isinstance(use.operation, ComputeOp):
                return False
            if use.operation not in consumers:
                consumers.append(use.operation)
    guarded = any(isinstance(op, ReadOp) and op.default is not None for op in producer.body.block.ops)
    size = len(list(producer.body.block.ops))
    work = as_expr(0)
    repeated = False
    for consumer in consumers:
        reads = _reads_of(consumer, producer)
        if any(read.default is not None for read in reads) and identity_source(producer) is None:
            return False
        if consumer.reduce_extents.exprs and (guarded or _changes_layout(producer)):
            return False
        if len(reads) * size + len(list(consumer.body.block.ops)) > MAX_OPS:
            return False
        evaluations = _points(consumer) * len({(r.map, tuple(r.args)) for r in reads})
        work = work + evaluations
        if consumer.reduce_extents.exprs and not _at_most(evaluations, _points(producer)):
            repeated = True
    if repeated:
        return _is_affine_copy(producer)
    return _at_most(work, _points(producer)) or _is_cheap(producer)


def _reads_of(consumer: ComputeOp, producer: ComputeOp) -> list[ReadOp]:
    arguments = {
        arg for arg, value in zip(consumer.input_args, consumer.inputs) if value.owner is producer
    }
    return [op for op in consumer.body.block.ops if isinstance(op, ReadOp) and op.tensor in arguments]


def _changes_layout(op: ComputeOp) -> bool:
    """Whether a reduction that reads the inputs instead would lose the layout chosen for it."""
    layouts = {layout_of(value.type) for value in op.inputs if len(shape_exprs(value.type)) > 1}
    return bool(layouts) and layouts != {layout_of(op.results_[0].type)}


def _points(op: ComputeOp) -> SymExpr:
    return _product((*op.extents.exprs, *op.reduce_extents.exprs))


def _product(extents: Sequence[SymExpr]) -> SymExpr:
    count = as_expr(1)
    for extent in extents:
        count = count * extent
    return count


def _at_most(a: SymExpr, b: SymExpr) -> bool:
    return proves_le(a, b, SymbolRanges())


def _is_copy(op: ComputeOp) -> bool:
    """A body of one unguarded read, or of constants."""
    body = [inner for inner in op.body.block.ops if inner is not op.yield_op]
    reads = [inner for inner in body if isinstance(inner, ReadOp)]
    rest = [inner for inner in body if not isinstance(inner, ReadOp) and inner.name != "arith.constant"]
    return not rest and len(reads) <= 1 and all(r.default is None for r in reads)


def _is_affine_copy(op: ComputeOp) -> bool:
    """A copy whose index expressions have no division in them."""
    if not _is_copy(op):
        return False
    maps = [inner.map for inner in op.body.block.ops if isinstance(inner, ReadOp)]
    return all(_is_affine(e) for map_ in maps for e in map_.results)


def _is_affine(expr: SymExpr) -> bool:
    return all(term.kind in ("sym", "mul") for term in expr.as_linear()[0])


def _is_cheap(op: ComputeOp) -> bool:
    """A copy, or a few quick ops on elements read without a guard."""
    if _is_copy(op):
        return True
    count = 0
    for inner in op.body.block.ops:
        if isinstance(inner, ReadOp):
            if inner.default is not None:
                return False
        elif inner is not op.yield_op:
            if inner.name not in CHEAP:
                return False
            count += inner.name != "arith.constant"
    return count <= CHEAP_OPS
