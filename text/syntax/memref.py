"""``memref.alloc`` and ``memref.global``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IndexType, MemRefType, StringAttr, TensorType, UnitAttr
from xdsl.dialects.memref import AllocOp, GlobalOp
from xdsl.ir import Attribute

from ..builder import Builder, Operand
from ..driver import Token
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


Initial = Callable[[Builder, MemRefType], Attribute]


def elements(b: Builder, token: Token, value: Any) -> Initial:
    """``= dense<[1, 2]>``: the type is that of the buffer."""
    return lambda b, type: b.dense_attr(token, value, TensorType(type.element_type, type.shape))


def hex_elements(b: Builder, token: Token, text: Token) -> Initial:
    """``= dense<"0x...">``."""
    return lambda b, type: b.dense_hex(token, text, TensorType(type.element_type, type.shape))


def build_global(
    b: Builder,
    visibility: str | None,
    constant: bool | None,
    name: str,
    type: Attribute,
    initial: Initial | None,
    attributes: dict[str, Attribute],
) -> GlobalOp:
    """``memref.global "private" constant @a : memref<2xf32> = dense<[1.0, 2.0]> {alignment = 64 : i64}``."""
    if not isinstance(type, MemRefType):
        raise ValueError(f"must have a ranked memref type, found {type}")
    if visibility is None or initial is None:
        raise ValueError("must have a visibility and an initial value (or '= uninitialized')")
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "sym_visibility": StringAttr(visibility),
        "type": type,
        "initial_value": initial(b, type),
    }
    if constant:
        properties["constant"] = UnitAttr()
    if "alignment" in attributes:
        properties["alignment"] = attributes.pop("alignment")
    return GlobalOp.create(properties=properties, attributes=attributes)


def print_global(p: Printer, op: GlobalOp) -> None:
    """Prints what :func:`build_global` builds."""
    if not op.attributes.keys().isdisjoint(op.get_irdl_definition().properties):
        raise ValueError("an attribute bears the name of a property")
    p.print_string(f" {p.attribute_text(op.sym_visibility)}{' constant' if op.constant is not None else ''} ")
    p.print_symbol_name(op.sym_name)
    p.print_string(f" : {p.attribute_text(op.type)} = ")
    if isinstance(op.initial_value, UnitAttr):
        p.print_string("uninitialized")
    else:
        usual = f" : {p.attribute_text(TensorType(op.type.element_type, op.type.shape))}"
        p.print_string(p.attribute_text(op.initial_value).removesuffix(usual))
    p.print_op_attributes({**({} if op.alignment is None else {"alignment": op.alignment}), **op.attributes})


FRAGMENT = Fragment(
    ops=(
        OpSyntax(AllocOp, '"(" operands_opt ")" memref_symbols attr_dict_opt ":" type', build_alloc, print_alloc),
        OpSyntax(
            GlobalOp,
            'memref_visibility memref_constant symbol ":" type memref_initial attr_dict_opt',
            build_global,
            print_global,
        ),
    ),
    actions={
        "memref_uninitialized": lambda b: lambda b, type: UnitAttr(),
        "memref_attribute": lambda b, value: lambda b, type: value,
        "memref_elements": elements,
        "memref_hex": hex_elements,
    },
    rules="""
        memref_symbols: -> list_empty
            | "[" operands "]"
        memref_visibility: -> nothing
            | string
        memref_constant: -> nothing
            | "constant" -> bool_true
        memref_initial: -> nothing
            | "=" "uninitialized" -> memref_uninitialized
            | "=" DENSE "<" dense_elem ">" -> memref_elements
            | "=" DENSE "<" STRING ">" -> memref_hex
            | "=" attr -> memref_attribute
    """,
)
