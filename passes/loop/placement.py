"""Putting a block at a new place with new loops over a region of its iterators: the common half of ``compute_at``,
``reverse_compute_at`` and the cache steps.

A region is one :class:`~tilewright.passes.loop.regions.Span` per iterator, ``None`` for the whole domain. Every
iterator gets one loop, in iterator order (also of extent 1; ``loop-simplify`` removes those), so that
``get_loops`` is predictable.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ...core.symbolic import SymExpr, const
from ...dialects.loop.ops import BlockOp, ForOp, LoadOp, StoreOp
from .errors import refuse
from .index import Exprs, IndexSpace
from .legality import binding_map
from .nest import blocks_in, loops_around, wrap, written_buffers
from .regions import ZERO, Span, hull, prove_le, prove_lt, span


def nest_over(space: IndexSpace, block: BlockOp, region: Sequence[Span | None]) -> Operation:
    """New loops around a detached block, whose bindings and guards are set to run over the region; returns the nest."""
    domains = space.read(block, "domains")
    loops: list[ForOp] = []
    bindings: list[SymExpr] = []
    where: list[SymExpr] = []
    for arg, domain, part in zip(block.body.block.args, domains, region):
        part = Span(ZERO, domain - 1) if part is None else part
        loop = space.new_loop(space.simplify(part.width + 1), _loop_hint(arg.name_hint))
        loops.append(loop)
        binding = space.simplify(part.low + space.var(loop.var))
        bindings.append(binding)
        if not prove_le(space, 0, binding):
            where += [const(-1), binding]
        if not prove_lt(space, binding, domain):
            where += [binding, domain]
    space.write(block, bindings=bindings, where=where)
    return wrap(loops, block)


def region_accessed(
    space: IndexSpace, buffer: SSAValue, ops: Sequence[LoadOp | StoreOp], fixed: int, shape: Exprs
) -> list[Span | None]:
    """What the ops access of a buffer while the ``fixed`` outermost loops around each stand still, per dimension;
    ``None`` stands for the whole dimension."""
    per_op = [_spans(space, op, fixed) for op in ops]
    result: list[Span | None] = []
    for dim, extent in enumerate(shape):
        spans = [s[dim] for s in per_op]
        known = [s for s in spans if s is not None]
        found = hull(space, known) if known and len(known) == len(spans) else None
        if found is not None and (
            found.width.symbols() & space.extents.keys() or prove_le(space, extent, found.width + 1)
        ):
            found = None
        result.append(found)
    return result


def _spans(space: IndexSpace, op: LoadOp | StoreOp, fixed: int) -> list[Span | None]:
    loops = loops_around(op)[fixed:]
    moving = {space.name(loop.var) for loop in loops}
    exprs = access_exprs(space, op)
    known = space.extents.keys() | set(space.symbols)
    return [span(space, e, moving) if e.symbols() <= known else None for e in exprs]


def access_exprs(space: IndexSpace, op: LoadOp | StoreOp) -> Exprs:
    """The indices of an access in terms of the loops around it (block iterators replaced by their bindings)."""
    exprs = space.read(op, "map")
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, BlockOp):
        parent = parent.parent_op()
    if parent is None:
        return exprs
    mapping = binding_map(space, parent)
    if parent.init is not None and op.parent is parent.init.block:
        names = [space.name(v) for v in parent.init.block.args]
        mapping = dict(zip(names, space.read(parent, "bindings")))
    return tuple(space.simplify(e.subs(mapping)) for e in exprs)


def plain_write_dims(space: IndexSpace, block: BlockOp) -> tuple[SSAValue, list[int | None]]:
    """The buffer that a block writes, and for each dimension the number of the iterator that alone indexes it.

    ``None`` marks a constant index. Refuses blocks that write in another way."""
    buffers = written_buffers(block)
    numbers = {space.name(v): i for i, v in enumerate(block.body.block.args)}
    places: set[Exprs] = set()
    for op in block.body.walk():
        if isinstance(op, StoreOp):
            places.add(space.read(op, "map"))
    if len(places) != 1:
        refuse(block, "does not write one place per iteration")
    dims: list[int | None] = []
    for expr in next(iter(places)):
        if expr.is_const():
            dims.append(None)
        elif expr.kind == "sym" and expr.name in numbers and numbers[expr.name] not in dims:
            dims.append(numbers[expr.name])
        else:
            refuse(block, "does not write by plain iterators (transform its layout after placing it)")
    return buffers[0], dims


def require_no_lanes(loop: ForOp) -> None:
    """Refuse a loop that is, or is inside, a vectorised one."""
    for outer in [*loops_around(loop), loop]:
        if outer.kind.data == "vectorized":
            refuse(outer, "is vectorized; place blocks before vectorizing")


def own_nest(block: BlockOp) -> Operation:
    """The outermost operation around ``block`` that holds no other block."""
    current: Operation = block
    parent = current.parent_op()
    while isinstance(parent, ForOp) and len(blocks_in(parent)) == 1:
        current, parent = parent, parent.parent_op()
    return current


def _loop_hint(hint: str | None) -> str | None:
    """Iterators are called ``%vi`` by custom, their loops ``%i``."""
    if hint is None or len(hint) < 2 or hint[0] != "v":
        return hint
    return f"i{hint[1:]}" if hint[1].isdigit() else hint[1:]
