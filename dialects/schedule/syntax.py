"""Pretty syntax of those schedule operations that ``assembly_format`` cannot express.

schedule.func @conv_0_schedule for @conv_0 {
  %b = schedule.get_block "C"
  %i, %j = schedule.get_loops %b : 2
  %o, %l = schedule.split %j by [?, 8]
  %io, %ii = schedule.tile %i by [4]
  schedule.annotate %io "key" = 4 : i64
}
"""

from __future__ import annotations

from xdsl.ir import Attribute, Block, Region, SSAValue

from ...text.builder import Builder, Operand
from ...text.driver import Token
from ...text.fragment import Fragment, OpSyntax
from ...text.printer import Printer
from .ops import AnnotateOp, BlockType, GetLoopsOp, LoopType, ScheduleFuncOp, SplitOp, TileOp

Attributes = dict[str, Attribute]


def func_head(b: Builder, name: str, kernel: str) -> tuple[str, str]:
    """``@k_schedule for @k``."""
    b.enter_region([])
    return name, kernel


def build_func(b: Builder, head: tuple[str, str], body: Region, attributes: Attributes) -> ScheduleFuncOp:
    """A schedule."""
    if not body.blocks:
        body.add_block(Block())
    op = ScheduleFuncOp(head[0], head[1], body)
    op.attributes.update(attributes)
    return op


def print_func(p: Printer, op: ScheduleFuncOp) -> None:
    """Prints what :func:`build_func` builds."""
    p.print_string(" ")
    p.print_symbol_name(op.sym_name.data)
    p.print_string(" for ")
    p.print_symbol_name(op.kernel.root_reference.data)
    p.print_string(" ")
    p.print_region(op.body, print_entry_block_args=False, print_empty_block=False)
    p.print_op_attributes(op.attributes)


def build_get_loops(b: Builder, block: Operand, attributes: Attributes, count: Token) -> GetLoopsOp:
    """``%b : 2``."""
    op = GetLoopsOp(b.resolve(block, BlockType()), int(str(count)))
    op.attributes.update(attributes)
    return op


def print_get_loops(p: Printer, op: GetLoopsOp) -> None:
    """Prints what :func:`build_get_loops` builds."""
    p.print_string(f" {p.value_name(op.block)}")
    p.print_op_attributes(op.attributes)
    p.print_string(f" : {len(op.loops)}")


def build_split(b: Builder, loop: Operand, factors: list[int | None], attributes: Attributes) -> SplitOp:
    """``%l by [?, 8]``."""
    op = SplitOp(b.resolve(loop, LoopType()), factors)
    op.attributes.update(attributes)
    return op


def print_split(p: Printer, op: SplitOp) -> None:
    """Prints what :func:`build_split` builds."""
    values = op.factors.get_values()
    if len(values) != len(op.loops):
        raise ValueError("one factor for each result")
    p.print_string(f" {p.value_name(op.loop)} by [{', '.join('?' if v == -1 else str(v) for v in values)}]")
    p.print_op_attributes(op.attributes)


def build_tile(b: Builder, loops: list[Operand], factors: list[int], attributes: Attributes) -> TileOp:
    """``%i, %j by [8, 16]``."""
    values: list[SSAValue] = [b.resolve(loop, LoopType()) for loop in loops]
    op = TileOp(values, factors)
    op.attributes.update(attributes)
    return op


def print_tile(p: Printer, op: TileOp) -> None:
    """Prints what :func:`build_tile` builds."""
    values = op.factors.get_values()
    if 2 * len(values) != len(op.tiles):
        raise ValueError("two results for each factor")
    p.print_string(f" {', '.join(map(p.value_name, op.loops))} by [{', '.join(map(str, values))}]")
    p.print_op_attributes(op.attributes)


def build_annotate(b: Builder, target: Operand, key: str, value: Attribute, attributes: Attributes) -> AnnotateOp:
    """``%l "key" = value``."""
    op = AnnotateOp(b.defined(target), key, value)
    op.attributes.update(attributes)
    return op


def print_annotate(p: Printer, op: AnnotateOp) -> None:
    """Prints what :func:`build_annotate` builds."""
    p.print_string(f' {p.value_name(op.target)} "{op.key.data}" = ')
    p.print_attribute(op.value)
    p.print_op_attributes(op.attributes)


FRAGMENT = Fragment(
    ops=(
        OpSyntax(ScheduleFuncOp, "schedule_func_head region attr_dict_opt", build_func, print_func),
        OpSyntax(GetLoopsOp, 'operand attr_dict_opt ":" INT', build_get_loops, print_get_loops),
        OpSyntax(SplitOp, 'operand "by" schedule_factors attr_dict_opt', build_split, print_split),
        OpSyntax(AnnotateOp, 'operand string "=" attr attr_dict_opt', build_annotate, print_annotate),
        OpSyntax(TileOp, 'operands "by" int_list attr_dict_opt', build_tile, print_tile),
    ),
    rules="""
        schedule_func_head: symbol "for" symbol -> schedule_func_head
        schedule_factors: "[" schedule_factor_list "]"
        schedule_factor_list: schedule_factor -> list_one
            | schedule_factor_list "," schedule_factor -> list_app
        schedule_factor: integer
            | "?" -> nothing
    """,
    actions={"schedule_func_head": func_head},
)
"""Syntax of the schedule dialect."""
