"""``func.func``: named arguments with attributes, results with attributes, declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, LocationAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Region

from ..builder import Builder
from ..driver import Token
from ..fragment import Fragment, OpSyntax
from ..printer import Printer

_VISIBILITIES = ("public", "private", "nested")


class Argument(NamedTuple):
    """An argument or result of a function."""

    name: Token | None
    type: Attribute
    attributes: dict[str, Attribute]
    location: LocationAttr | None = None


class Head(NamedTuple):
    """What stands before a function's body."""

    visibility: str | None
    name: str
    arguments: list[Argument]
    results: list[Argument]
    attributes: dict[str, Attribute]


def named_argument(
    b: Builder, name: Token, type: Attribute, attributes: dict[str, Attribute], location: LocationAttr | None
) -> Argument:
    """``%a: f32 {...} loc(...)``."""
    return Argument(name, type, attributes, location)


def unnamed_argument(
    b: Builder, type: Attribute, attributes: dict[str, Attribute], location: LocationAttr | None
) -> Argument:
    """``f32 {...}``; there is no value that a location could belong to."""
    return Argument(None, type, attributes)


def single_result(b: Builder, type: Attribute) -> list[Argument]:
    """``-> f32``."""
    return [Argument(None, type, {})]


def func_head(
    b: Builder,
    visibility: Token | None,
    name: str,
    arguments: list[Argument],
    results: list[Argument],
    attributes: dict[str, Attribute],
) -> Head:
    """The header: names the arguments of the body's entry block."""
    if visibility is not None and visibility not in _VISIBILITIES:
        raise b.error(f"unknown visibility '{visibility}', expected one of {', '.join(_VISIBILITIES)}", visibility)
    if all(a.name is not None for a in arguments):
        b.enter_region([(a.name, a.type) for a in arguments])
    return Head(visibility, name, arguments, results, attributes)


def build_func(b: Builder, head: Head, body: Region | None) -> FuncOp:
    """A function with a body, or a declaration."""
    if body is None:
        b.cancel_region()
        body = Region()
    elif not body.blocks or list(body.blocks[0].arg_types) != [a.type for a in head.arguments]:
        raise ValueError("must name its arguments, or its entry block have arguments of their types")
    op = FuncOp(
        head.name,
        ([a.type for a in head.arguments], [r.type for r in head.results]),
        body,
        None if head.visibility is None else StringAttr(str(head.visibility)),
        arg_attrs=_attributes(head.arguments),
        res_attrs=_attributes(head.results),
    )
    op.attributes.update(head.attributes)
    if body.blocks:
        for arg, argument in zip(body.blocks[0].args, head.arguments):
            if argument.location is not None:
                arg.location = argument.location
    return op


def _attributes(items: Sequence[Argument]) -> ArrayAttr[DictionaryAttr] | None:
    if not any(a.attributes for a in items):
        return None
    return ArrayAttr([DictionaryAttr(a.attributes) for a in items])


def print_func(p: Printer, op: FuncOp) -> None:
    """Prints what :func:`build_func` builds."""
    types, body = op.function_type, op.body
    arg_attrs = _dictionaries(op.arg_attrs, len(types.inputs))
    res_attrs = _dictionaries(op.res_attrs, len(types.outputs))
    entry = body.blocks.first
    if entry is not None and tuple(entry.arg_types) != types.inputs.data:
        raise ValueError("entry block disagrees with the function's type")
    if op.sym_visibility is not None:
        if op.sym_visibility.data not in _VISIBILITIES:
            raise ValueError("visibility has no syntax")
        p.print_string(f" {op.sym_visibility.data}")
    p.print_string(" ")
    p.print_symbol_name(op.sym_name)
    p.print_string("(")
    for i, (type_, attributes) in enumerate(zip(types.inputs, arg_attrs)):
        p.print_string(", " if i else "")
        if entry is not None:
            p.print_string(f"{p.value_name(entry.args[i])}: ")
        p.print_attribute(type_)
        p.print_op_attributes(attributes)
        if entry is not None:
            p.print_location(entry.args[i].location)
    p.print_string(")")
    _print_results(p, types.outputs.data, res_attrs)
    p.print_op_attributes(op.attributes, print_keyword=True)
    if entry is not None:
        p.print_string(" ")
        p.print_region(body, print_entry_block_args=False, print_empty_block=False)


def _dictionaries(attrs: Any, count: int) -> list[dict[str, Attribute]]:
    if attrs is None:
        return [{}] * count
    if len(attrs) != count or not any(a.data for a in attrs):
        raise ValueError("attributes of arguments or results have no syntax")
    return [dict(a.data) for a in attrs]


def _print_results(p: Printer, types: Sequence[Attribute], attributes: Sequence[dict[str, Attribute]]) -> None:
    from xdsl.dialects.builtin import FunctionType

    if not types:
        return
    p.print_string(" -> ")
    if len(types) == 1 and not attributes[0] and not isinstance(types[0], FunctionType):
        p.print_attribute(types[0])
        return
    p.print_string("(")
    for i, (type_, dictionary) in enumerate(zip(types, attributes)):
        p.print_string(", " if i else "")
        p.print_attribute(type_)
        p.print_op_attributes(dictionary)
    p.print_string(")")


FRAGMENT = Fragment(
    ops=(OpSyntax(FuncOp, "func_head region_opt", build_func, print_func),),
    rules="""
        func_head: func_visibility symbol "(" func_args ")" func_results attr_dict_kw -> func_head
        func_visibility: -> nothing
            | BARE_ID
        func_args: -> list_empty
            | func_named
            | func_unnamed
        func_named: func_named_arg -> list_one
            | func_named "," func_named_arg -> list_app
        func_named_arg: PCT_ID ":" type attr_dict_opt func_loc -> func_named_arg
        func_loc: -> nothing
            | loc
        func_unnamed: func_unnamed_arg -> list_one
            | func_unnamed "," func_unnamed_arg -> list_app
        func_unnamed_arg: type attr_dict_opt func_loc -> func_unnamed_arg
        func_results: -> list_empty
            | "->" nonfn_type -> func_single_result
            | "->" "(" ")" -> list_empty
            | "->" "(" func_unnamed ")"
    """,
    actions={
        "func_head": func_head,
        "func_named_arg": named_argument,
        "func_unnamed_arg": unnamed_argument,
        "func_single_result": single_result,
    },
)
