"""Strategies over functions: whole symbols, early returns, results and arguments with the calls that pass them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from ...core.context import TilewrightContext
from ...dialects.graph.structure import KernelOp
from ...dialects.te.ops import ComputeOp
from .measure import symbols_used
from .reducer import Candidate, Reducer, Strategy

CALLS = ("func.call", "graph.call", "vm.call")


def is_called(function: FuncOp, module: ModuleOp) -> bool:
    """Whether anything in the module names the function."""
    return function.sym_name.data in symbols_used(module)


def calls_of(function: FuncOp, module: Operation) -> list[Operation]:
    """The calls of a function."""
    found = []
    for op in module.walk():
        if op.name in CALLS:
            callee = op.properties.get("callee", op.properties.get("kernel"))
            if isinstance(callee, SymbolRefAttr) and callee.root_reference.data == function.sym_name.data:
                found.append(op)
    return found


def update_type(function: FuncOp, outputs: Sequence[Attribute] | None = None) -> None:
    """Make the function's type that of its body."""
    results = function.function_type.outputs.data if outputs is None else outputs
    function.properties["function_type"] = FunctionType.from_lists([a.type for a in function.body.block.args], results)


def append_argument(function: FuncOp, type_: Attribute) -> BlockArgument:
    """A new last argument."""
    block = function.body.block
    new = block.insert_arg(type_, len(block.args))
    if function.arg_attrs is not None:
        function.properties["arg_attrs"] = ArrayAttr([*function.arg_attrs.data, DictionaryAttr({})])
    update_type(function)
    return new


class TopLevel(Strategy):
    """Removes functions, recipes, schedules: everything that stands directly in the module."""

    name = "top-level"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [n for n, op in reversed(list(enumerate(module.walk()))) if op.parent_op() is module]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        for number in chosen:
            Rewriter.erase_op(candidate.ops[number], safe_erase=False)
        return bool(chosen)


class EarlyReturn(Strategy):
    """Returns the results of an operation halfway and drops what comes after; finds the place by halving."""

    name = "early-return"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [
            n
            for n, op in enumerate(module.walk())
            if isinstance(op, FuncOp) and len(op.body.blocks) == 1 and not is_called(op, module)
            and op.function_type.outputs.data
        ]

    def run(self, reducer: Reducer) -> None:
        for index in range(len(self.targets(reducer.best, reducer.context))):
            low, high = 0, self._length(reducer, index)
            while low < high:
                middle = (low + high) // 2
                targets = self.targets(reducer.best, reducer.context)
                if index < len(targets) and reducer.attempt(self, [(targets[index], middle)]):
                    high = middle
                else:
                    low = middle + 1

    def _length(self, reducer: Reducer, index: int) -> int:
        targets = self.targets(reducer.best, reducer.context)
        function = cast(FuncOp, list(reducer.best.walk())[targets[index]])
        return len(list(function.body.block.ops)) - 1

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        for number, place in chosen:
            function = cast(FuncOp, candidate.ops[number])
            ops = list(function.body.block.ops)
            if not ops[place].results or place >= len(ops) - 1:
                return False
            terminator = ops[-1]
            terminator.operands = list(ops[place].results)
            for op in reversed(ops[place + 1 : -1]):
                Rewriter.erase_op(op, safe_erase=False)
            function.properties.pop("res_attrs", None)
            update_type(function, [r.type for r in ops[place].results])
        return True


class DropResults(Strategy):
    """Removes results of functions, where no call uses them."""

    name = "drop-results"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [
            (n, i)
            for n, op in enumerate(module.walk())
            if isinstance(op, FuncOp) and len(op.body.blocks) == 1
            for i in reversed(range(len(op.function_type.outputs.data)))
        ]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number, index in chosen:
            changed = _drop_result(cast(FuncOp, candidate.ops[number]), index, candidate.module) or changed
        return changed


def _drop_result(function: FuncOp, index: int, module: ModuleOp) -> bool:
    terminator = function.body.block.last_op
    outputs = list(function.function_type.outputs.data)
    if terminator is None or len(terminator.operands) != len(outputs) or index >= len(outputs):
        return False
    calls = calls_of(function, module)
    if (is_called(function, module) and not calls) or any(call.results[index].uses for call in calls):
        return False
    for call in calls:
        _without_result(call, index)
    del outputs[index]
    terminator.operands = [v for i, v in enumerate(terminator.operands) if i != index]
    _drop_entry(function, "res_attrs", index)
    update_type(function, outputs)
    return True


def _without_result(call: Operation, index: int) -> None:
    kept = [r for i, r in enumerate(call.results) if i != index]
    new = type(call).create(
        operands=call.operands,
        result_types=[r.type for r in kept],
        properties=call.properties,
        attributes=call.attributes,
    )
    new.location = call.location
    block = call.parent
    assert block is not None
    block.insert_op_before(new, call)
    for old, result in zip(kept, new.results):
        old.replace_all_uses_with(result)
    Rewriter.erase_op(call, safe_erase=False)


def _drop_entry(function: FuncOp, name: str, index: int) -> None:
    entries = function.properties.get(name)
    if isinstance(entries, ArrayAttr):
        kept = [e for i, e in enumerate(entries.data) if i != index]
        function.properties[name] = ArrayAttr(kept)


class DropArguments(Strategy):
    """Removes unused arguments of functions, kernels and computes, with the operands that are passed to them."""

    name = "drop-arguments"

    def targets(self, module: ModuleOp, context: TilewrightContext) -> Sequence[Any]:
        return [
            (n, i)
            for n, op in enumerate(module.walk())
            if isinstance(op, FuncOp | KernelOp | ComputeOp) and len(op.regions[0].blocks) == 1
            for i in reversed(range(len(op.regions[0].block.args)))
            if not op.regions[0].block.args[i].uses
        ]

    def apply(self, candidate: Candidate, chosen: Sequence[Any]) -> bool:
        changed = False
        for number, index in chosen:
            op = candidate.ops[number]
            block = op.regions[0].block
            if isinstance(op, FuncOp):
                changed = _drop_argument(op, index, candidate.module) or changed
            elif index < len(op.operands):
                block.erase_arg(block.args[index])
                op.operands = [v for i, v in enumerate(op.operands) if i != index]
                changed = True
        return changed


def _drop_argument(function: FuncOp, index: int, module: ModuleOp) -> bool:
    """Removes an input of a function, and the operand of each call; outputs of kernels stay."""
    inputs = function.attributes.get("num_inputs")
    if isinstance(inputs, IntegerAttr):
        if index >= inputs.value.data:
            return False
        _renumber_kernel(function, index, inputs)
    for call in calls_of(function, module):
        call.operands = [v for i, v in enumerate(call.operands) if i != index]
    block = function.body.block
    block.erase_arg(block.args[index])
    _drop_entry(function, "arg_attrs", index)
    update_type(function)
    return True


def _renumber_kernel(function: FuncOp, index: int, inputs: IntegerAttr[Any]) -> None:
    """The attributes of a kernel that count or number its inputs."""

    def shifted(number: IntegerAttr[Any]) -> IntegerAttr[Any]:
        return IntegerAttr(number.value.data - (number.value.data > index), number.type)

    function.attributes["num_inputs"] = IntegerAttr(inputs.value.data - 1, inputs.type)
    constants = function.attributes.get("constant_args")
    if isinstance(constants, ArrayAttr):
        numbers = [cast("IntegerAttr[Any]", n) for n in constants.data]
        kept = [shifted(n) for n in numbers if n.value.data != index]
        function.attributes["constant_args"] = ArrayAttr(kept)
    packed = function.attributes.get("packed")
    if isinstance(packed, ArrayAttr):
        pairs = [cast("ArrayAttr[Attribute]", pair).data for pair in packed.data]
        numbered = [(cast("IntegerAttr[Any]", number), layout) for number, layout in pairs]
        function.attributes["packed"] = ArrayAttr(
            [ArrayAttr([shifted(n), layout]) for n, layout in numbered if n.value.data != index]
        )


def terminator_of(block: Block) -> Operation | None:
    """The terminator of a block, if it has one."""
    last = block.last_op
    return last if last is not None and last.has_trait(IsTerminator, value_if_unregistered=False) else None


def result_of(value: SSAValue) -> Operation | None:
    """The op that defines a value; none for block arguments."""
    return value.op if isinstance(value, OpResult) else None
