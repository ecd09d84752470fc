"""Pretty syntax of the ``c`` dialect where ``assembly_format`` cannot say it.

c.func static @kernel(%x: !c.const_ptr<f32>, %y: !c.ptr<f32>, %n: i64) {
  c.for %i to %n parallel {
    %c = c.compare %i "<" %n : i64
    %v = c.load %x[%i] where %c else %zero : !c.const_ptr<f32>
    c.if %c {
      c.store %v, %y[%i] : !c.ptr<f32>
    } else {
    }
  }
}
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xdsl.dialects.builtin import FunctionType, UnitAttr, i1, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from ...text.builder import Builder, Operand
from ...text.driver import Token
from ...text.fragment import Fragment, OpSyntax
from ...text.printer import Printer
from .dialect import LoadOp, StoreOp
from .structure import ForOp, FuncOp, IfOp
from .types import Pointer

Attributes = dict[str, Attribute]
_FUNC_WORDS = ("static", "may_alias")


class FuncHead(NamedTuple):
    """What stands before a function's body."""

    words: list[Token]
    name: str
    arguments: list[tuple[Token, Attribute]]
    result: Attribute | None
    attributes: Attributes


def func_head(
    b: Builder,
    words: list[Token],
    name: str,
    arguments: list[tuple[Token, Attribute]],
    result: Attribute | None,
    attributes: Attributes,
) -> FuncHead:
    """``static @kernel(%x: !c.ptr<f32>) -> i32 attributes {...}``."""
    for word in words:
        if word not in _FUNC_WORDS:
            raise b.error(f"unknown word '{word}', expected {' or '.join(_FUNC_WORDS)}", word)
    b.enter_region(arguments)
    return FuncHead(words, name, arguments, result, attributes)


def build_func(b: Builder, head: FuncHead, body: Region) -> FuncOp:
    """A function. ``parameters`` and ``doc`` are written among the attributes."""
    results = [] if head.result is None else [head.result]
    type_ = FunctionType.from_lists([t for _, t in head.arguments], results)
    op = FuncOp(head.name, type_, body, static=False)
    for word in head.words:
        op.properties[str(word)] = UnitAttr()
    for key, value in head.attributes.items():
        (op.properties if key in ("parameters", "doc") else op.attributes)[key] = value
    return op


def print_func(p: Printer, op: FuncOp) -> None:
    """Prints what :func:`build_func` builds."""
    for word in _FUNC_WORDS:
        if word in op.properties:
            p.print_string(f" {word}")
    p.print_string(" ")
    p.print_symbol_name(op.sym_name)
    arguments = [f"{p.value_name(a)}: {p.attribute_text(a.type)}" for a in op.body.block.args]
    p.print_string(f"({', '.join(arguments)})")
    for result in op.function_type.outputs:
        p.print_string(f" -> {p.attribute_text(result)}")
    written: Attributes = {key: op.properties[key] for key in ("parameters", "doc") if key in op.properties}
    p.print_op_attributes({**written, **op.attributes}, print_keyword=True)
    p.print_string(" ")
    _print_region(p, op.body)


def _print_region(p: Printer, region: Region) -> None:
    p.print_region(region, print_entry_block_args=False, print_empty_block=False)


def for_head(b: Builder, var: Token, count: Operand, parallel: Token | None) -> tuple[SSAValue, bool]:
    """``%i to %n parallel``."""
    if parallel is not None and parallel != "parallel":
        raise b.error(f"unknown word '{parallel}', expected parallel", parallel)
    b.enter_region([(var, i64)])
    return b.resolve(count, i64), parallel is not None


def build_for(b: Builder, head: tuple[SSAValue, bool], body: Region, attributes: Attributes) -> ForOp:
    """A loop."""
    op = ForOp(head[0], body, head[1])
    op.attributes.update(attributes)
    return op


def print_for(p: Printer, op: ForOp) -> None:
    """Prints what :func:`build_for` builds."""
    parallel = "" if op.parallel is None else " parallel"
    p.print_string(f" {p.value_name(op.body.block.args[0])} to {p.value_name(op.count)}{parallel} ")
    _print_region(p, op.body)
    p.print_op_attributes(op.attributes)


def if_head(b: Builder, condition: Operand) -> SSAValue:
    """``%c``."""
    b.enter_region([])
    return b.resolve(condition, i1)


def else_word(b: Builder) -> None:
    """``else``."""
    b.enter_region([])


def build_if(b: Builder, condition: SSAValue, body: Region, orelse: Region | None, attributes: Attributes) -> IfOp:
    """A condition."""
    for region in (body, orelse):
        if region is not None and not region.blocks:
            region.add_block(Block())
    op = IfOp(condition, body, orelse)
    op.attributes.update(attributes)
    return op


def print_if(p: Printer, op: IfOp) -> None:
    """Prints what :func:`build_if` builds."""
    p.print_string(f" {p.value_name(op.condition)} ")
    _print_region(p, op.body)
    if op.orelse is not None:
        p.print_string(" else ")
        _print_region(p, op.orelse)
    p.print_op_attributes(op.attributes)


def build_load(
    b: Builder,
    pointer: Operand,
    index: Operand,
    guard: tuple[Operand, Operand] | None,
    attributes: Attributes,
    type_: Attribute,
) -> LoadOp:
    """``%p[%i] where %c else %zero : !c.ptr<f32>``."""
    if not isinstance(type_, Pointer):
        raise ValueError(f"loads through a pointer, found {type_}")
    condition = default = None
    if guard is not None:
        condition, default = b.resolve(guard[0], i1), b.resolve(guard[1], type_.element)
    op = LoadOp(b.resolve(pointer, type_), b.resolve(index, i64), condition, default)
    op.attributes.update(attributes)
    return op


def print_load(p: Printer, op: LoadOp) -> None:
    """Prints what :func:`build_load` builds."""
    p.print_string(f" {p.value_name(op.pointer)}[{p.value_name(op.index)}]")
    if op.guard:
        p.print_string(f" where {p.value_name(op.guard[0])} else {p.value_name(op.guard[1])}")
    p.print_op_attributes(op.attributes)
    p.print_string(f" : {p.attribute_text(op.pointer.type)}")


def build_store(
    b: Builder, value: Operand, pointer: Operand, index: Operand, attributes: Attributes, type_: Attribute
) -> StoreOp:
    """``%v, %p[%i] : !c.ptr<f32>``."""
    if not isinstance(type_, Pointer):
        raise ValueError(f"stores through a pointer, found {type_}")
    op = StoreOp(b.resolve(value, type_.element), b.resolve(pointer, type_), b.resolve(index, i64))
    op.attributes.update(attributes)
    return op


def print_store(p: Printer, op: StoreOp) -> None:
    """Prints what :func:`build_store` builds."""
    p.print_string(f" {p.value_name(op.value)}, {p.value_name(op.pointer)}[{p.value_name(op.index)}]")
    p.print_op_attributes(op.attributes)
    p.print_string(f" : {p.attribute_text(op.pointer.type)}")


_ACTIONS: dict[str, Any] = {
    "c_func_head": func_head,
    "c_for_head": for_head,
    "c_if_head": if_head,
    "c_else_word": else_word,
    "c_else": lambda b, word, region: region,
}

FRAGMENT = Fragment(
    ops=(
        OpSyntax(FuncOp, "c_func_head region", build_func, print_func),
        OpSyntax(ForOp, "c_for_head region attr_dict_opt", build_for, print_for),
        OpSyntax(IfOp, "c_if_head region c_else attr_dict_opt", build_if, print_if),
        OpSyntax(LoadOp, 'operand "[" operand "]" c_guard attr_dict_opt ":" type', build_load, print_load),
        OpSyntax(StoreOp, 'operand "," operand "[" operand "]" attr_dict_opt ":" type', build_store, print_store),
    ),
    rules="""
        c_func_head: c_words symbol "(" typed_args_opt ")" c_result attr_dict_kw -> c_func_head
        c_words: -> list_empty
            | c_words name -> list_app
        c_result: -> nothing
            | "->" type
        c_for_head: PCT_ID "to" operand c_word -> c_for_head
        c_word: -> nothing
            | name
        c_if_head: operand -> c_if_head
        c_else: -> nothing
            | c_else_word region -> c_else
        c_else_word: "else" -> c_else_word
        c_guard: -> nothing
            | "where" operand "else" operand -> pair
    """,
    actions=_ACTIONS,
)
"""Syntax of the ``c`` dialect."""
