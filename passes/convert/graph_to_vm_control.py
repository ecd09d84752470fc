"""Control flow of a host program: ``scf.if`` and ``scf.while`` over tensors become the same over memory.

    %r = scf.if %c -> (tensor<4xf32>) { ... scf.yield %a } else { ... scf.yield %b }
    -->
    %r = vm.alloc() : memref<4xf32>
    scf.if %c { ... vm.copy %a to %r() } else { ... vm.copy %b to %r() }

A loop's carried tensors have one buffer each, which the initial values are copied to, and the values of every step.
All memory is allocated outside of the regions, so that it is planned like any other. A result whose size depends on
the branch taken, or changes from step to step, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Block, Operation, Region, SSAValue

from ...core.diagnostics import emit_error
from ...dialects.vm.ops import LoadOp, ViewOp
from .graph_to_vm import HostConversion, buffer_type

Convert = Callable[[HostConversion, Any], None]


def _extract(to: HostConversion, op: ExtractOp) -> None:
    """A scalar read from memory, where the program is when it needs it."""
    if op.indices:
        emit_error(op, "reads an element of a tensor with dimensions, expected a tensor of rank 0")
    load = LoadOp(to.buffer(op.tensor))
    to.emit(load, op)
    to.buffers[op.result] = load.result


def _if(to: HostConversion, op: scf.IfOp) -> None:
    results = [_result(to, result, op) for result in op.results]
    branches = [_branch(to, region, results, op) for region in (op.true_region, op.false_region)]
    to.emit(scf.IfOp(to.buffers[op.cond], [], branches[0], branches[1]), op)


def _branch(to: HostConversion, region: Region, results: Sequence[SSAValue], op: Operation) -> Region:
    """A branch that ends in copies of what it yields to the results."""
    block = Block()
    if region.blocks:
        block.add_ops(to.convert_region(region.block))
        block.add_ops(_copies(to, _yielded(region.block), results, op))
    block.add_op(scf.YieldOp())
    return Region(block)


def _while(to: HostConversion, op: scf.WhileOp) -> None:
    """One buffer per carried value; the condition's values are the loop's results and what the body sees."""
    before, after = op.before_region.block, op.after_region.block
    carried = [_result(to, arg, op) for arg in before.args]
    for ours in _copies(to, op.arguments, carried, op):
        to.emit(ours, op)
    test = Block(ops=to.convert_region(before))
    condition = before.last_op
    assert isinstance(condition, scf.ConditionOp)
    passed = [to.buffer(value) for value in condition.args]
    test.add_op(scf.ConditionOp(to.buffers[condition.condition]))
    for values in (after.args, op.results):
        to.buffers.update(zip(values, passed))
    body = Block(ops=to.convert_region(after))
    body.add_ops(_copies(to, _yielded(after), carried, op))
    body.add_op(scf.YieldOp())
    to.emit(scf.WhileOp([], [], Region(test), Region(body)), op)


def _result(to: HostConversion, value: SSAValue, op: Operation) -> SSAValue:
    """The memory of a tensor that control flow gives."""
    if not isinstance(value.type, TensorType):
        emit_error(op, f"carries a value of type {value.type}, expected tensors")
    to.buffers[value] = to.allocate(buffer_type(value.type), op)
    return to.buffers[value]


def _yielded(block: Block) -> Sequence[SSAValue]:
    assert block.last_op is not None
    return tuple(block.last_op.operands)


def _copies(
    to: HostConversion, values: Sequence[SSAValue], targets: Sequence[SSAValue], op: Operation
) -> list[Operation]:
    """Copies as if all were made at once: a source that is another's target goes through memory of its own."""
    outer, to.body = to.body, []
    sources = [to.buffer(value) for value in values]
    for index, (source, target) in enumerate(zip(sources, targets)):
        if _memory(source) in targets and _memory(source) is not target:
            sources[index] = to.allocate(source.type, op)
            to.copy(source, sources[index], op)
    for source, target in zip(sources, targets):
        if _memory(source) is not target:
            to.copy(source, target, op)
    copies, to.body = to.body, outer
    return copies


def _memory(buffer: SSAValue) -> SSAValue:
    """The buffer that a chain of views shows."""
    while isinstance(buffer.owner, ViewOp):
        buffer = buffer.owner.source
    return buffer


CONTROL: dict[type[Operation], Convert] = {scf.IfOp: _if, scf.WhileOp: _while, ExtractOp: _extract}
"""What each op of control flow becomes."""
