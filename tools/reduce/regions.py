"""Strategies over operations with regions: the body in place of the operation, or an operation without its body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ...core.attributes import IndexMapAttr
from ...core.context import TilewrightContext
from .functions import terminator_of
from .measure import visible_before
from .ops import constant, index_constant, inner_ops, is_live
from .reducer import Candidate, Strategy


class Hoist(Strategy):
    """Puts the body of a region in place of the operation, run once: loops, branches, blocks, kernels.

    Region arguments become the operand at their place, what a ``loop.block`` binds, the first or the last iteration
    of a loop, or a constant.
    """

    name = "hoist"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [
            (n, i, last)
            for last in (False, True)
            for n, op in inner_ops(module)
            for i, region in reversed(list(enumerate(op.regions)))
            if len(region.blocks) == 1 and (not last or _last_iteration(op) is not None)
        ]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number, index, last in chosen:
            op = candidate.ops[number]
            if is_live(op) and index < len(op.regions):
                changed = _hoist(op, op.regions[index].block, last) or changed
        return changed


def _last_iteration(op: Operation) -> int | None:
    """The number of the last iteration of a loop of constant extent, if that is not the first."""
    extent = op.properties.get("extent")
    if not isinstance(extent, IndexMapAttr) or len(extent.results) != 1 or not extent.results[0].is_const():
        return None
    last = extent.results[0].const_value() - 1
    return last if last > 0 else None


def _hoist(op: Operation, body: Block, last: bool) -> bool:
    parent = op.parent
    assert parent is not None
    terminator = terminator_of(body)
    yielded = [] if terminator is None else list(terminator.operands)
    results = _results(op, yielded)
    arguments = [_argument(op, i, a, last) for i, a in enumerate(body.args)] if results is not None else [None]
    if results is None or any(a is None for a in arguments):
        return False
    for arg, value in zip(body.args, arguments):
        assert value is not None
        arg.replace_all_uses_with(value)
    if terminator is not None:
        yielded = list(terminator.operands)
        results = _results(op, yielded)
        assert results is not None
        Rewriter.erase_op(terminator, safe_erase=False)
    for inner in list(body.ops):
        body.detach_op(inner)
        parent.insert_op_before(inner, op)
    for result, value in zip(op.results, results):
        if value is not None:
            result.replace_all_uses_with(value)
    Rewriter.erase_op(op, safe_erase=False)
    return True


def _results(op: Operation, yielded: list[SSAValue]) -> list[SSAValue | None] | None:
    """What stands for the results: what the body yields at the same place or elsewhere, or an operand."""
    found: list[SSAValue | None] = []
    for index, result in enumerate(op.results):
        values = [*yielded[index : index + 1], *yielded, *op.operands]
        value = next((v for v in values if v.type == result.type), None)
        if value is None and result.uses:
            return None
        found.append(value)
    return found


def _argument(op: Operation, index: int, arg: SSAValue, last: bool) -> SSAValue | None:
    """What stands for a region argument outside of the region."""
    if not arg.uses:
        return arg
    bindings = op.properties.get("bindings")
    if isinstance(bindings, IndexMapAttr) and index < len(bindings.results):
        bound = bindings.results[index]
        if bound.kind == "sym" and bound.name[0] == "d" and bound.name[1:].isdigit():
            return op.operands[int(bound.name[1:])]
    elif index < len(op.operands) and op.operands[index].type == arg.type and not isinstance(arg.type, IndexType):
        return op.operands[index]
    parent = op.parent
    made = index_constant(op, _last_iteration(op) or 0 if last else 0) if isinstance(arg.type, IndexType) else None
    if made is None:
        value = next((v for v in visible_before(op) if v.type == arg.type), None)
        if value is not None:
            return value
        made = constant(arg.type)
    if made is None or parent is None:
        return None
    parent.insert_op_before(made, op)
    return made.results[0]


class EmptyRegions(Strategy):
    """Drops the body of regions that may be empty or absent: optional ones, and those of declarations."""

    name = "empty-regions"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        ops = list(enumerate(module.walk()))
        return [(n, i) for n, op in reversed(ops) if op is not module for i, r in enumerate(op.regions) if r.blocks]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number, index in chosen:
            op = candidate.ops[number]
            if index >= len(op.regions) or not op.regions[index].blocks:
                continue
            region = op.regions[index]
            if len(op.regions) > 1 and "regionSegmentSizes" not in op.properties | op.attributes:
                op.detach_region(region)
            else:
                for block in list(region.blocks):
                    region.erase_block(block, safe_erase=False)
            changed = True
        return changed
