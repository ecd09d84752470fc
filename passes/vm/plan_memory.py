"""``vm-plan-memory``: all tensors of a host program get places in one arena.

Before::

    %a = vm.alloc(%n) : memref<?x784xf32, #tw.dims<[n]>>
    vm.call @first(%x, %a, %n) : ...
    %b = vm.alloc(%n) : memref<?x64xf32, #tw.dims<[n]>>
    vm.call @second(%a, %b, %n) : ...

After::

    %s = vm.storage <(d0) -> (d0 * 3392)>(%n)
    %a = vm.place %s at <(d0) -> (0)>(%n) sizes(%n) : memref<?x784xf32, #tw.dims<[n]>>
    vm.call @first(%x, %a, %n) : ...
    %b = vm.place %s at <(d0) -> (d0 * 3136)>(%n) sizes(%n) : memref<?x64xf32, #tw.dims<[n]>>
    vm.call @second(%a, %b, %n) : ...

A tensor is live from the first op that uses it (or a view of it) to the last; tensors whose lifetimes do not
meet may share memory (``arena.py`` decides the places). Outputs belong to the caller and are not planned.
Tensors whose size depends on a symbol that is bound later than the first allocation (a size that the program
computes) get a storage of their own each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...core.attributes import IndexMapAttr, memref_shape_exprs
from ...core.context import TilewrightContext
from ...core.passes import ModulePass
from ...core.symbolic import SymExpr, const, sym
from ...dialects.vm.ops import AllocOp, PlaceOp, StorageOp, ViewOp, free_symbols
from .arena import SymbolicInterval, place_symbolic


@dataclass(frozen=True)
class VmPlanMemoryPass(ModulePass):
    """Gives all tensors of a host program places in one arena; leaves no ``vm.alloc``."""

    name = "vm-plan-memory"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and len(function.body.blocks) == 1:
                _plan(function.body.block)


def byte_size(type: Attribute) -> SymExpr:
    """The bytes of a memref, as an expression; booleans take one byte each."""
    buffer = cast("MemRefType[Attribute]", type)
    size: SymExpr = const(element_bytes(buffer.element_type))
    for extent in memref_shape_exprs(buffer):
        size = size * extent
    return size


def element_bytes(element: Attribute) -> int:
    """Bytes of one element in memory."""
    width = getattr(element, "bitwidth", None)
    assert isinstance(width, int), f"{element} has no size"
    return max(1, width // 8)


def _plan(block: Block) -> None:
    numbers = {op: number for number, op in enumerate(block.ops)}
    allocs = [op for op in block.ops if isinstance(op, AllocOp)]
    if not allocs:
        return
    first = numbers[allocs[0]]
    early = [op for op in allocs if all(_number(size, numbers) < first for size in op.sizes)]
    _place_together(early, numbers)
    for op in allocs:
        if op not in early:
            _place_together([op], numbers)


def _number(value: SSAValue, numbers: dict[Operation, int]) -> int:
    return numbers[value.owner] if isinstance(value.owner, Operation) else -1


def _place_together(allocs: Sequence[AllocOp], numbers: dict[Operation, int]) -> None:
    """One storage for some tensors, made before the first of them."""
    if not allocs:
        return
    values: dict[str, SSAValue] = {}
    for op in allocs:
        values.update(zip(free_symbols(op.result.type), op.sizes))
    buffers = [SymbolicInterval(byte_size(op.result.type), *_lifetime(op.result, numbers)) for op in allocs]
    offsets, total = place_symbolic(buffers)
    names = sorted(values)
    args = [values[name] for name in names]
    storage = StorageOp(_over(total, names), args)
    storage.location = allocs[0].location
    Rewriter.insert_op(storage, InsertPoint.before(allocs[0]))
    for op, offset in zip(allocs, offsets):
        place = PlaceOp(storage.result, _over(offset, names), args, list(op.sizes), op.result.type)
        place.location = op.location
        place.result.name_hint = op.result.name_hint
        Rewriter.replace_op(op, place)


def _over(expr: SymExpr, names: Sequence[str]) -> IndexMapAttr:
    return IndexMapAttr(len(names), [expr.subs({name: sym(f"d{i}") for i, name in enumerate(names)})])


def _lifetime(value: SSAValue, numbers: dict[Operation, int]) -> tuple[int, int]:
    """The first and the last op that use a buffer or a view of it."""
    used: list[int] = []
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            if isinstance(use.operation, ViewOp):
                pending.append(use.operation.result)
            else:
                used.append(numbers[_ancestor(use.operation, numbers)])
    own = _number(value, numbers)
    return (min(used), max(used)) if used else (own, own)


def _ancestor(op: Operation, numbers: dict[Operation, int]) -> Operation:
    """The op of the function's block that contains ``op``."""
    while op not in numbers:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op
