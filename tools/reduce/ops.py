"""Strategies over single operations: without them, with other values in place of their results or operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    VectorType,
    i32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove, IsTerminator

from ...core.attributes import IndexMapAttr
from ...core.context import TilewrightContext
from ...core.indexmap import dim
from ...core.symexpr import const
from ...dialects.loop.ops import IndexOp as LoopIndexOp
from ...passes.graph.constants import dense_constant
from .functions import append_argument, is_called
from .measure import is_source, visible_before
from .reducer import Candidate, Strategy


def inner_ops(module: ModuleOp) -> Iterator[tuple[int, Operation]]:
    """Operations of bodies with their numbers, last first: users come before what they use."""
    ops = list(enumerate(module.walk()))
    for number, op in reversed(ops):
        if op.parent is None or op.parent_op() is module or op.has_trait(IsTerminator, value_if_unregistered=False):
            continue
        yield number, op


def is_live(op: Operation) -> bool:
    """Whether an earlier step of the same edit has left the op where it was."""
    return op.parent is not None


class EraseOps(Strategy):
    """Removes operations; uses of a result become an operand or another visible value of its type."""

    name = "erase-ops"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [number for number, _ in inner_ops(module)]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number in chosen:
            op = candidate.ops[number]
            if is_live(op) and _forward(op):
                Rewriter.erase_op(op, safe_erase=False)
                changed = True
        return changed


def _forward(op: Operation) -> bool:
    """Replaces all uses of the results; false (and nothing changed) if some type has no other value."""
    values: list[SSAValue | None] = []
    visible: list[SSAValue] | None = None
    for result in op.results:
        if not result.uses:
            values.append(None)
            continue
        value = next((v for v in op.operands if v.type == result.type), None)
        if value is None:
            visible = visible_before(op) if visible is None else visible
            value = next((v for v in visible if v.type == result.type), None)
        if value is None:
            return False
        values.append(value)
    for result, value in zip(op.results, values):
        if value is not None:
            result.replace_all_uses_with(value)
    return True


class Constants(Strategy):
    """Puts constants of ones (zeros for indices) in place of operations."""

    name = "constants"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [n for n, op in inner_ops(module) if op.results and not is_source(op)]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number in chosen:
            op = candidate.ops[number]
            if not is_live(op):
                continue
            made = [constant(r.type) if r.uses else None for r in op.results]
            if any(m is None and r.uses for m, r in zip(made, op.results)):
                continue
            block = op.parent
            assert block is not None
            for result, new in zip(op.results, made):
                if new is not None:
                    block.insert_op_before(new, op)
                    new.location = op.location
                    result.replace_all_uses_with(new.results[0])
            Rewriter.erase_op(op, safe_erase=False)
            changed = True
        return changed


def constant(type_: Attribute) -> Operation | None:
    """An operation that gives a value of a type: ones, zero for an index; none for types without literals."""
    if isinstance(type_, TensorType):
        if not type_.has_static_shape() or not isinstance(type_.encoding, type(TensorType(i32, []).encoding)):
            return None
        made: Operation = dense_constant(np.ones(type_.get_shape()), type_.element_type)
        return made
    if isinstance(type_, IndexType):
        return arith.ConstantOp(IntegerAttr(0, type_))
    if isinstance(type_, IntegerType):
        return arith.ConstantOp(IntegerAttr(1, type_))
    if isinstance(type_, AnyFloat):
        return arith.ConstantOp(FloatAttr(1.0, type_))
    if isinstance(type_, VectorType):
        return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, [1]))
    return None


def index_constant(near: Operation, number: int = 0) -> Operation:
    """An index in the form that the operations around ``near`` expect."""
    if any(inner.name.startswith("loop.") for inner in near.walk()):
        return LoopIndexOp([], IndexMapAttr(0, [number]))
    return arith.ConstantOp(IntegerAttr(number, IndexType()))


class FreshArguments(Strategy):
    """Puts new arguments of the function in place of operations, in functions that nothing calls."""

    name = "fresh-arguments"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [n for n, op in inner_ops(module) if op.results and _function_of(op, module) is not None]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number in chosen:
            op = candidate.ops[number]
            function = _function_of(op, candidate.module) if is_live(op) else None
            if function is None:
                continue
            for result in op.results:
                if result.uses:
                    result.replace_all_uses_with(append_argument(function, result.type))
            Rewriter.erase_op(op, safe_erase=False)
            changed = True
        return changed


def _function_of(op: Operation, module: ModuleOp) -> FuncOp | None:
    """The function whose arguments ``op`` could use, if its signature is free."""
    current = op.parent_op()
    while current is not None and not isinstance(current, FuncOp):
        if current.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            return None
        current = current.parent_op()
    return None if current is None or "tw.kernel" in current.attributes or is_called(current, module) else current


class EarlierOperands(Strategy):
    """Uses arguments in place of results of the same type."""

    name = "earlier-operands"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        ops = list(enumerate(module.walk()))
        return [(n, i) for n, op in reversed(ops) for i, v in enumerate(op.operands) if isinstance(v.owner, Operation)]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number, index in chosen:
            op = candidate.ops[number]
            old = op.operands[index]
            arguments = [v for v in visible_before(op) if not isinstance(v.owner, Operation)]
            new = next((v for v in arguments if v.type == old.type), None)
            if new is not None:
                op.operands[index] = new
                changed = True
        return changed


class DropOperands(Strategy):
    """Removes operands from lists of them; index operands also go by taking 0 in index expressions."""

    name = "drop-operands"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        ops = list(enumerate(module.walk()))
        return [(n, i) for n, op in reversed(ops) for i in reversed(range(len(op.operands)))]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        for number, index in chosen:
            op = candidate.ops[number]
            if index < len(op.operands):
                if isinstance(op.operands[index].type, IndexType):
                    _set_index_to_zero(op, index)
                remove_operand(op, index)
        return True


def _set_index_to_zero(op: Operation, index: int) -> None:
    """Drop one input, taken as 0, of the index expressions over the operands ``args`` of an op."""
    args = list(getattr(op, "args", ()))
    if not args or index < (first := op.operands[:].index(args[0])) or index >= first + len(args):
        return
    position = index - first
    for name, value in op.properties.items():
        if isinstance(value, IndexMapAttr) and value.num_inputs == len(args):
            inputs = [0 if i == position else dim(i - (i > position)) for i in range(len(args))]
            op.properties[name] = IndexMapAttr(len(args) - 1, value.apply(inputs))


class SimplerIndices(Strategy):
    """Index expressions without their constant, and 0 in place of them."""

    name = "indices"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [
            (number, name, index, zero)
            for zero in (False, True)
            for number, op in enumerate(module.walk())
            for name, value in op.properties.items()
            if isinstance(value, IndexMapAttr) and name in ("map", "bindings")
            for index, expr in enumerate(value.results)
            if (not expr.is_const() if zero else expr.constant)
        ]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        for number, name, index, zero in chosen:
            properties = candidate.ops[number].properties
            value = properties[name]
            assert isinstance(value, IndexMapAttr)
            results = list(value.results)
            results[index] = const(0) if zero else results[index] - results[index].constant
            properties[name] = IndexMapAttr(value.num_inputs, results)
        return bool(chosen)


def remove_operand(op: Operation, index: int) -> None:
    """Remove an operand, and count it off its segment."""
    operands = list(op.operands)
    del operands[index]
    for holder in (op.properties, op.attributes):
        sizes = holder.get("operandSegmentSizes")
        if isinstance(sizes, DenseArrayBase):
            counts = [int(n) for n in sizes.get_values()]
            end = 0
            for segment, count in enumerate(counts):
                end += count
                if index < end:
                    counts[segment] -= 1
                    break
            holder["operandSegmentSizes"] = DenseArrayBase.from_list(i32, counts)
    op.operands = operands
