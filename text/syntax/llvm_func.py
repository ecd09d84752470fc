"""``llvm.func``: linkage, calling convention, visibility, arguments and result with attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, LocationAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation, Region

from ..builder import Builder
from ..driver import Token
from ..fragment import OpSyntax
from ..printer import Printer

Attributes = dict[str, Attribute]

_LINKAGES = tuple(llvm._LINKAGE_OPTIONS)
_VISIBILITIES = ("default", "hidden", "protected")
_UNNAMED = ("none", "local_unnamed_addr", "unnamed_addr")
_SAID = ("sym_name", "function_type", "linkage", "CConv", "visibility_", "unnamed_addr")


class Argument(NamedTuple):
    """An argument or a result."""

    name: Token | None
    type: Attribute
    attributes: Attributes
    location: LocationAttr | None = None


class Head(NamedTuple):
    """What stands before a function's body."""

    properties: Attributes
    attributes: Attributes
    arguments: Sequence[Argument]


def func_head(
    b: Builder,
    words: list[Token],
    name: str,
    arguments: tuple[list[Argument], bool],
    result: Argument | None,
    written: Attributes,
) -> Head:
    """``internal fastcc hidden unnamed_addr @f(%a: f32 {...}, ...) -> f32 attributes {...}``."""
    args, variadic = arguments
    if all(a.name is not None for a in args):
        b.enter_region([(a.name, a.type) for a in args])
    properties = _described(b, words)
    properties["sym_name"] = StringAttr(name)
    properties["function_type"] = llvm.LLVMFunctionType([a.type for a in args], result and result.type, variadic)
    for key, items in (("arg_attrs", args), ("res_attrs", [] if result is None else [result])):
        if any(item.attributes for item in items):
            properties[key] = ArrayAttr([DictionaryAttr(item.attributes) for item in items])
    known = llvm.FuncOp.get_irdl_definition().properties
    for key, value in written.items():
        if key in known and key not in properties:
            properties[key] = value
    return Head(properties, {k: v for k, v in written.items() if properties.get(k) is not v}, args)


def _described(b: Builder, words: list[Token]) -> Attributes:
    """The properties that the words before the name stand for."""
    left = list(words)

    def take(among: Sequence[str], default: str) -> str:
        return str(left.pop(0)) if left and left[0] in among else default

    linkage = take(_LINKAGES, "external")
    convention = take(tuple(llvm.LLVM_CALLING_CONVS), "ccc")
    visibility = _VISIBILITIES.index(take(_VISIBILITIES[1:], "default"))
    unnamed = _UNNAMED.index(take(_UNNAMED[1:], "none"))
    if left:
        raise b.error(f"unknown word '{left[0]}', expected linkage, calling convention or visibility", left[0])
    return {
        "linkage": llvm.LinkageAttr(linkage),
        "CConv": llvm.CallingConventionAttr(convention),
        "visibility_": IntegerAttr(visibility, i64),
        "unnamed_addr": IntegerAttr(unnamed, i64),
    }


def build_func(b: Builder, head: Head, body: Region | None) -> Operation:
    """A function or a declaration."""
    if body is None:
        b.cancel_region()
        body = Region()
    elif not body.blocks or list(body.blocks[0].arg_types) != [a.type for a in head.arguments]:
        raise ValueError("must name its arguments, or its entry block have arguments of their types")
    for argument, value in zip(head.arguments, body.blocks[0].args if body.blocks else ()):
        if argument.location is not None:
            value.location = argument.location
    return llvm.FuncOp.create(properties=head.properties, attributes=head.attributes, regions=[body])


def print_func(p: Printer, op: llvm.FuncOp) -> None:
    """Prints what :func:`build_func` builds."""
    function, entry = op.function_type, op.body.blocks.first
    if entry is not None and tuple(entry.arg_types) != function.inputs.data:
        raise ValueError("entry block disagrees with the function's type")
    arguments = _dictionaries(op.arg_attrs, len(function.inputs))
    is_void = isinstance(function.output, llvm.LLVMVoidType)
    result = _dictionaries(op.res_attrs, 0 if is_void else 1)
    p.print_string("".join(f" {word}" for word in _words(op)) + " ")
    p.print_symbol_name(op.sym_name)
    p.print_string("(")
    for i, type_ in enumerate(function.inputs):
        p.print_string((", " if i else "") + (f"{p.value_name(entry.args[i])}: " if entry else ""))
        p.print_attribute(type_)
        p.print_op_attributes(arguments[i] if arguments else {})
        if entry is not None:
            p.print_location(entry.args[i].location)
    p.print_string((", ..." if function.inputs.data else "...") if function.is_variadic else "")
    p.print_string(")")
    if result is not None and result[:1] and result[0]:
        p.print_string(f" -> ({p.attribute_text(function.output)}")
        p.print_op_attributes(result[0])
        p.print_string(")")
    elif not is_void:
        p.print_string(f" -> {p.attribute_text(function.output)}")
    said = {*_SAID, *(["arg_attrs"] if arguments else []), *(["res_attrs"] if result else [])}
    left = {name: value for name, value in op.properties.items() if name not in said}
    if any(name in llvm.FuncOp.get_irdl_definition().properties for name in op.attributes):
        raise ValueError("an attribute bears the name of a property")
    p.print_op_attributes({**left, **op.attributes}, print_keyword=True)
    if entry is not None:
        p.print_string(" ")
        p.print_region(op.body, print_entry_block_args=False, print_empty_block=False)


def _words(op: llvm.FuncOp) -> list[str]:
    """Words before the name, for the properties that have not their usual value."""
    linkage, convention = op.linkage.linkage.data, op.CConv.convention.data
    visibility, unnamed = op.visibility_, op.unnamed_addr
    if unnamed is None or visibility.type != i64 or unnamed.type != i64 or " " in convention:
        raise ValueError("properties have no syntax")
    words = ["" if linkage == "external" else linkage, "" if convention == "ccc" else convention]
    for value, names in ((visibility.value.data, _VISIBILITIES), (unnamed.value.data, _UNNAMED)):
        if not 0 <= value < len(names):
            raise ValueError("properties have no syntax")
        words.append(names[value] if value else "")
    return [word for word in words if word]


def _dictionaries(attrs: Any, count: int) -> list[Attributes] | None:
    """The dictionary of each argument or result; None where the property is absent or says what no syntax can."""
    if attrs is None or len(attrs) != count or not any(a.data for a in attrs):
        return None
    return [dict(a.data) for a in attrs]


RULES = """
    llvm_func_head: llvm_words symbol "(" llvm_args ")" llvm_result attr_dict_kw -> llvm_func_head
    llvm_words: -> list_empty
        | llvm_word_list
    llvm_word_list: BARE_ID -> list_one
        | llvm_word_list BARE_ID -> list_app
    llvm_args: -> llvm_no_args
        | "..." -> llvm_only_variadic
        | llvm_arg_list -> llvm_fixed
        | llvm_arg_list "," "..." -> llvm_variadic
    llvm_arg_list: llvm_arg -> list_one
        | llvm_arg_list "," llvm_arg -> list_app
    llvm_arg: PCT_ID ":" type attr_dict_opt llvm_loc -> llvm_named
        | type attr_dict_opt llvm_loc -> llvm_unnamed
    llvm_loc: -> nothing
        | loc
    llvm_result: -> nothing
        | "->" nonfn_type -> llvm_plain_result
        | "->" "(" type attr_dict_opt ")" -> llvm_result
"""
ACTIONS: dict[str, Any] = {
    "llvm_func_head": func_head,
    "llvm_no_args": lambda b: ([], False),
    "llvm_only_variadic": lambda b: ([], True),
    "llvm_fixed": lambda b, args: (args, False),
    "llvm_variadic": lambda b, args: (args, True),
    "llvm_named": lambda b, name, type, attributes, location: Argument(name, type, attributes, location),
    "llvm_unnamed": lambda b, type, attributes, location: Argument(None, type, attributes),
    "llvm_plain_result": lambda b, type: Argument(None, type, {}),
    "llvm_result": lambda b, type, attributes: Argument(None, type, attributes),
}
SYNTAX = OpSyntax(llvm.FuncOp, "llvm_func_head region_opt", build_func, print_func)
