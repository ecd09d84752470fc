"""``memref.alloc``."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute

from ..builder import Builder, Operand
from ..fragment import Fragment, OpSyntax
from ..printer import Printer


def build_alloc(
    b: Builder, sizes: list[Operand], symbols: list[Operand], attributes: dict[str, Attribute], type: Attribute
) -> AllocOp:
    """``memref.alloc(%n)[%s] {alignment = 64 : i64} : memref<?xf32, ...>``."""
    index = IndexType()
    alignment = attributes.pop("alignment", None)
    op = AllocOp([b.resolve(o, index) for o in sizes], [b.resolve(o, index) for o in symbols], type, alignment)
    op.attributes.update(attributes)
    return op


def print_alloc(p: Printer, op: AllocOp) -> None:
    """Prints what :func:`build_alloc` builds."""
    if "alignment" in op.attributes:
        raise ValueError("an attribute bears the name of a property")
    p.print_string("(")
    p.print_values(op.dynamic_sizes)
    p.print_string(")")
    if op.symbol_operands:
        p.print_string("[")
        p.print_values(op.symbol_operands)
        p.print_string("]")
    alignment = {} if op.alignment is None else {"alignment": op.alignment}
    p.print_op_attributes({**alignment, **op.attributes})
    p.print_string(" : ")
    p.print_attribute(op.memref.type)


FRAGMENT = Fragment(
    ops=(OpSyntax(AllocOp, '"(" operands_opt ")" memref_symbols attr_dict_opt ":" type', build_alloc, print_alloc),),
    rules="""
        memref_symbols: -> list_empty
            | "[" operands "]"
    """,
)
