"""Functions and structured control flow: ``func`` and ``scf`` over values of any kind, ``tensor.extract``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import func, scf
from xdsl.ir import Block, Operation

from ..core.diagnostics import emit_error
from .interpreter import Frame, FrameFunction, Value


def run_scoped(frame: Frame, block: Block, args: Sequence[Value]) -> list[Value]:
    """Runs a region of control flow; symbols that its arguments or body introduce end with it."""
    outer = frame.symbols
    frame.symbols = dict(outer)
    if block.args:
        owner = block.parent_op()
        assert owner is not None
        names = [f"region argument {i}" for i in range(len(args))]
        frame.bind(owner, names, [a.type for a in block.args], args)
    results = frame.run_block(block, args)[1]
    frame.symbols = outer
    return results


def bind_results(frame: Frame, op: Operation, values: Sequence[Value]) -> Sequence[Value]:
    """Symbols that occur first in the results' types get their values."""
    names = [f"result {i}" for i in range(len(values))]
    frame.bind(op, names, [r.type for r in op.results], values)
    return values


def _call(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    callee = cast(func.CallOp, op).callee.root_reference.data
    target = frame.interpreter.find(callee)
    if not isinstance(target, func.FuncOp):
        emit_error(op, f"calls '{callee}', which is not a function of the module")
    return bind_results(frame, op, frame.interpreter.call_function(target, operands))


def _if(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    branch = cast(scf.IfOp, op)
    region = branch.true_region if bool(operands[0]) else branch.false_region
    return bind_results(frame, op, run_scoped(frame, region.block, [])) if region.blocks else []


def _for(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    loop = cast(scf.ForOp, op)
    lower, upper, step, *carried = operands
    for i in range(int(lower), int(upper), int(step)):
        carried = run_scoped(frame, loop.body.block, [i, *carried])
    return bind_results(frame, op, carried)


def _while(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    loop = cast(scf.WhileOp, op)
    carried = operands
    while True:
        condition, *values = run_scoped(frame, loop.before_region.block, carried)
        if not bool(condition):
            return bind_results(frame, op, values)
        carried = run_scoped(frame, loop.after_region.block, values)


def _switch(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    switch = cast(scf.IndexSwitchOp, op)
    cases = dict(zip(switch.cases.get_values(), switch.case_regions))
    region = cases.get(int(operands[0]), switch.default_region)
    return bind_results(frame, op, run_scoped(frame, region.block, []))


def _extract(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    return [operands[0][tuple(int(i) for i in operands[1:])]]


FRAME_OPS: dict[str, FrameFunction] = {
    "func.call": _call,
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "scf.index_switch": _switch,
    "tensor.extract": _extract,
}
"""Frame functions of ``func``, ``scf`` and ``tensor``."""
