"""``builtin.module`` and ``builtin.unrealized_conversion_cast``."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Block, Region

from ..builder import Builder, Operand
from ..fragment import Fragment, OpSyntax
from ..printer import Printer


def build_module(b: Builder, name: str | None, attributes: dict[str, Attribute], body: Region) -> ModuleOp:
    """``module @name attributes {...} {...}``."""
    if not body.blocks:
        body.add_block(Block())
    op = ModuleOp(body, sym_name=None if name is None else StringAttr(name))
    op.attributes.update(attributes)
    return op


def print_module(p: Printer, op: ModuleOp) -> None:
    """Prints what :func:`build_module` builds."""
    if op.sym_name is not None:
        p.print_string(" ")
        p.print_symbol_name(op.sym_name)
    p.print_op_attributes(op.attributes, print_keyword=True)
    p.print_string(" ")
    p.print_region(op.body, print_empty_block=False)


def build_cast(
    b: Builder,
    inputs: tuple[list[Operand], list[Attribute]] | None,
    outputs: list[Attribute],
    attributes: dict[str, Any],
) -> UnrealizedConversionCastOp:
    """``builtin.unrealized_conversion_cast %a : f32 to i32``."""
    values = b.resolve_all(*inputs) if inputs is not None else []
    return UnrealizedConversionCastOp(operands=[values], result_types=[outputs], attributes=attributes)


def print_cast(p: Printer, op: UnrealizedConversionCastOp) -> None:
    """Prints what :func:`build_cast` builds."""
    if op.inputs:
        p.print_string(" ")
        p.print_values(op.inputs)
        p.print_string(f" : {p.types(op.inputs)}")
    p.print_string(f" to {p.types(op.outputs)}")
    p.print_op_attributes(op.attributes)


FRAGMENT = Fragment(
    ops=(
        OpSyntax(ModuleOp, "symbol_opt attr_dict_kw region", build_module, print_module, ("module",)),
        OpSyntax(UnrealizedConversionCastOp, 'builtin_inputs "to" types attr_dict_opt', build_cast, print_cast),
    ),
    rules="""
        builtin_inputs: -> nothing
            | operands ":" types -> pair
    """,
)
