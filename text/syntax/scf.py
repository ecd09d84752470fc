"""``scf.for``, ``scf.if``, ``scf.while``, ``scf.parallel``."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import IndexType, i1
from xdsl.dialects.scf import ForOp, IfOp, ParallelOp, ReduceOp, WhileOp, YieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.traits import IsTerminator

from ..builder import Builder, Operand
from ..driver import Token
from ..fragment import Fragment, OpSyntax
from ..printer import Printer

Assignments = list[tuple[Token, Operand]]


class Head(NamedTuple):
    """What stands before a loop's body."""

    operands: list[SSAValue]
    carried: list[SSAValue]
    types: list[Attribute]


def for_head(
    b: Builder,
    var: Token,
    low: Operand,
    high: Operand,
    step: Operand,
    carried: tuple[Assignments, list[Attribute]] | None,
    type: Attribute | None,
) -> Head:
    """``%i = %lb to %ub step %s iter_args(%a = %b) -> (f32) : i32``."""
    type = IndexType() if type is None else type
    assignments, types = ([], []) if carried is None else carried
    values = b.resolve_all([o for _, o in assignments], types)
    bounds = [b.resolve(o, type) for o in (low, high, step)]
    b.enter_region([(var, type), *((name, t) for (name, _), t in zip(assignments, types))])
    return Head(bounds, values, types)


def build_for(b: Builder, head: Head, body: Region, attributes: dict[str, Attribute]) -> ForOp:
    """A counted loop."""
    low, high, step = head.operands
    op = ForOp(low, high, step, head.carried, body)
    op.attributes.update(attributes)
    if not head.carried:
        b.ensure_terminator(op)
    return op


def print_for(p: Printer, op: ForOp) -> None:
    """Prints what :func:`build_for` builds."""
    var, *carried = op.body.block.args
    if [a.type for a in carried] != list(op.res.types):
        raise ValueError("types of carried values disagree")
    bounds = (p.value_name(v) for v in (op.lb, op.ub, op.step))
    p.print_string(" {} = {} to {} step {}".format(p.value_name(var), *bounds))
    if carried:
        pairs = (f"{p.value_name(a)} = {p.value_name(v)}" for a, v in zip(carried, op.iter_args, strict=True))
        p.print_string(f" iter_args({', '.join(pairs)}) -> ({p.types(carried)})")
    if not isinstance(var.type, IndexType):
        p.print_string(f" : {p.attribute_text(var.type)}")
    p.print_string(" ")
    _print_body(p, op.body, bool(carried))
    p.print_op_attributes(op.attributes)


def _print_body(p: Printer, region: Region, terminator: bool) -> None:
    """A region without its entry arguments, and without a terminator that says nothing."""
    last = region.block.last_op
    plain = isinstance(last, YieldOp) and not last.operands and not last.attributes
    p.print_region(
        region,
        print_entry_block_args=False,
        print_empty_block=False,
        print_block_terminators=terminator or not plain,
    )


def if_head(b: Builder, condition: Operand, types: list[Attribute] | None) -> tuple[SSAValue, list[Attribute]]:
    """``%c -> (f32)``."""
    b.enter_region()
    return b.resolve(condition, i1), [] if types is None else types


def if_else(b: Builder) -> None:
    """``else``."""
    b.enter_region()


def build_if(
    b: Builder,
    head: tuple[SSAValue, list[Attribute]],
    then: Region,
    otherwise: Region | None,
    attributes: dict[str, Attribute],
) -> IfOp:
    """A conditional; without results the yields may be left out."""
    for region in (then, otherwise):
        if region is None:
            continue
        last = region.blocks[-1].last_op
        if last is None or not last.has_trait(IsTerminator):
            region.blocks[-1].add_op(YieldOp())
    op = IfOp(*head, then, Region() if otherwise is None else otherwise)
    op.attributes.update(attributes)
    return op


def print_if(p: Printer, op: IfOp) -> None:
    """Prints what :func:`build_if` builds."""
    if op.true_region.block.args or any(b.args for b in op.false_region.blocks):
        raise ValueError("block arguments have no syntax")
    p.print_string(f" {p.value_name(op.cond)}")
    if op.output:
        p.print_string(f" -> ({p.types(op.output)})")
    p.print_string(" ")
    _print_body(p, op.true_region, bool(op.output))
    if op.false_region.blocks:
        p.print_string(" else ")
        _print_body(p, op.false_region, bool(op.output))
    p.print_op_attributes(op.attributes)


def while_head(b: Builder, assignments: Assignments, signature: tuple[list[Attribute], list[Attribute]]) -> Head:
    """``(%a = %b) : (f32) -> i32``."""
    types, results = signature
    values = b.resolve_all([o for _, o in assignments], types)
    b.enter_region([(name, t) for (name, _), t in zip(assignments, types)])
    return Head(values, [], results)


def build_while(b: Builder, head: Head, before: Region, after: Region, attributes: dict[str, Attribute]) -> WhileOp:
    """A general loop."""
    if not after.blocks:
        after.add_block(Block())
    op = WhileOp(head.operands, head.types, before, after)
    op.attributes.update(attributes)
    return op


def print_while(p: Printer, op: WhileOp) -> None:
    """Prints what :func:`build_while` builds."""
    args = op.before_region.block.args
    if [a.type for a in args] != list(op.arguments.types):
        raise ValueError("types of arguments disagree")
    pairs = (f"{p.value_name(a)} = {p.value_name(v)}" for a, v in zip(args, op.arguments, strict=True))
    p.print_string(f" ({', '.join(pairs)}) : ")
    p.print_function_type(op.operand_types, op.result_types)
    p.print_string(" ")
    p.print_region(op.before_region, print_entry_block_args=False, print_empty_block=False)
    p.print_string(" do ")
    p.print_region(op.after_region, print_empty_block=False)
    p.print_op_attributes(op.attributes, print_keyword=True)


def parallel_head(
    b: Builder,
    names: list[Token],
    bounds: tuple[list[Operand], list[Operand], list[Operand]],
    initial: list[Operand],
    types: list[Attribute],
) -> tuple[list[list[SSAValue]], list[Attribute]]:
    """``(%i, %j) = (%a, %b) to (%c, %d) step (%e, %f) init (%x) -> f32``."""
    index = IndexType()
    if any(len(part) != len(names) for part in bounds):
        raise b.error("as many bounds and steps are expected as there are loops", names[0] if names else None)
    resolved = [[b.resolve(o, index) for o in part] for part in bounds]
    resolved.append(b.resolve_all(initial, types))
    b.enter_region([(name, index) for name in names])
    return resolved, types


def build_parallel(
    b: Builder,
    head: tuple[list[list[SSAValue]], list[Attribute]],
    body: Region,
    attributes: dict[str, Attribute],
) -> ParallelOp:
    """A parallel loop nest; without results its terminator may be left out."""
    operands, types = head
    op = ParallelOp.build(operands=operands, result_types=[types], regions=[body], attributes=attributes)
    if not types:
        b.ensure_terminator(op)
    return op


def print_parallel(p: Printer, op: ParallelOp) -> None:
    """Prints what :func:`build_parallel` builds."""
    args = op.body.block.args
    if any(not isinstance(a.type, IndexType) for a in args) or list(op.res.types) != list(op.initVals.types):
        raise ValueError("types have no syntax")
    if not len(args) == len(op.lowerBound) == len(op.upperBound) == len(op.step):
        raise ValueError("bounds have no syntax")
    names, low, high, step = (
        ", ".join(map(p.value_name, values)) for values in (args, op.lowerBound, op.upperBound, op.step)
    )
    p.print_string(f" ({names}) = ({low}) to ({high}) step ({step})")
    if op.initVals:
        p.print_string(f" init ({', '.join(map(p.value_name, op.initVals))}) -> ({p.types(op.res)})")
    last = op.body.block.last_op
    plain = isinstance(last, ReduceOp) and not last.args and not last.reductions and not last.attributes
    p.print_string(" ")
    p.print_region(op.body, print_entry_block_args=False, print_empty_block=False, print_block_terminators=not plain)
    p.print_op_attributes(op.attributes)


FRAGMENT = Fragment(
    ops=(
        OpSyntax(ForOp, "scf_for_head region attr_dict_opt", build_for, print_for),
        OpSyntax(IfOp, "scf_if_head region scf_else attr_dict_opt", build_if, print_if),
        OpSyntax(ParallelOp, "scf_parallel_head region attr_dict_opt", build_parallel, print_parallel),
        OpSyntax(WhileOp, 'scf_while_head region "do" region attr_dict_kw', build_while, print_while),
    ),
    rules="""
        scf_for_head: PCT_ID "=" operand "to" operand "step" operand scf_carried scf_type -> scf_for_head
        scf_carried: -> nothing
            | "iter_args" "(" scf_assignments ")" "->" "(" types ")" -> pair
        scf_type: -> nothing
            | ":" type
        scf_assignments: scf_assignment -> list_one
            | scf_assignments "," scf_assignment -> list_app
        scf_assignment: PCT_ID "=" operand -> pair
        scf_if_head: operand scf_if_types -> scf_if_head
        scf_if_types: -> nothing
            | "->" "(" types ")"
            | "->" nonfn_type -> list_one
        scf_else: -> nothing
            | scf_else_word region -> scf_second
        scf_else_word: "else" -> scf_if_else
        scf_parallel_head: "(" scf_names ")" "=" scf_bounds scf_init scf_if_types -> scf_parallel_head
        scf_names: -> list_empty
            | value_names
        scf_bounds: scf_values "to" scf_values "step" scf_values -> triple
        scf_values: "(" operands_opt ")"
        scf_init: -> list_empty
            | "init" scf_values
        scf_while_head: "(" scf_while_args ")" ":" fn_sig -> scf_while_head
        scf_while_args: -> list_empty
            | scf_assignments
    """,
    actions={
        "scf_for_head": for_head,
        "scf_if_head": if_head,
        "scf_parallel_head": lambda b, names, bounds, initial, types: parallel_head(
            b, names, bounds, initial, types or []
        ),
        "scf_if_else": if_else,
        "scf_second": lambda b, first, second: second,
        "scf_while_head": while_head,
    },
)
