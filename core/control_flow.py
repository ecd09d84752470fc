"""Types along control flow edges that xDSL's verifiers leave unchecked: branch arguments and yields of cf and scf.

Ops are recognised by name, so that checking a module loads no dialect. Each check returns the message, or ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Attribute, Block, Operation, SSAValue

Message = str | None


def check_edges(op: Operation) -> Message:
    """What is wrong with the values that ``op`` hands along its successor or region edges."""
    check = _CHECKS.get(op.name)
    return None if check is None else check(op)


def _branch(op: Any) -> Message:
    return _check_block(op.successors[0], op.arguments)


def _conditional_branch(op: Any) -> Message:
    return _check_block(op.then_block, op.then_arguments) or _check_block(op.else_block, op.else_arguments)


def _switch(op: Any) -> Message:
    message = _check_block(op.default_block, op.default_operands)
    for block, operands in zip(op.case_blocks, op.case_operand):
        message = message or _check_block(block, operands)
    return message


def _check_block(block: Block, values: Sequence[SSAValue]) -> Message:
    return _compare("successor argument", [v.type for v in values], [a.type for a in block.args])


def _if(op: Any) -> Message:
    if op.results and not op.false_region.blocks:
        return "has results, but no else region"
    for region in (op.true_region, op.false_region):
        message = _check_yields(region, [r.type for r in op.results])
        if message:
            return message
    return None


def _yields_results(op: Operation) -> Message:
    for region in op.regions:
        message = _check_yields(region, [r.type for r in op.results])
        if message:
            return message
    return None


def _while(op: Any) -> Message:
    before, after = op.before_region.blocks.first, op.after_region.blocks.first
    if before is None or after is None:
        return "needs a before and an after region"
    initial = [a.type for a in op.arguments]
    message = _compare("before region argument", [a.type for a in before.args], initial)
    condition = before.last_op
    if message is None and (condition is None or condition.name != "scf.condition"):
        message = "before region must end in 'scf.condition'"
    if message or condition is None:
        return message
    passed = [v.type for v in condition.operands[1:]]
    return (
        _compare("result", [r.type for r in op.results], passed)
        or _compare("after region argument", [a.type for a in after.args], passed)
        or _check_yields(op.after_region, initial)
    )


def _check_yields(region: Any, expected: list[Attribute]) -> Message:
    for block in region.blocks:
        last = block.last_op
        if last is not None and last.name == "scf.yield":
            message = _compare("yielded value", [v.type for v in last.operands], expected)
            if message:
                return message
    return None


def _compare(what: str, found: list[Attribute], expected: list[Attribute]) -> Message:
    if len(found) != len(expected):
        return f"has {len(found)} {what}s, expected {len(expected)}"
    for index, (left, right) in enumerate(zip(found, expected)):
        if left != right:
            return f"{what} #{index} has type {left}, expected {right}"
    return None


_CHECKS: dict[str, Callable[[Any], Message]] = {
    "cf.br": _branch,
    "cf.cond_br": _conditional_branch,
    "cf.switch": _switch,
    "scf.if": _if,
    "scf.while": _while,
    "scf.index_switch": _yields_results,
    "scf.execute_region": _yields_results,
    "scf.for": _yields_results,
}
