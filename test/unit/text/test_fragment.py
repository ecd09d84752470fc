"""Syntax from outside the package: a plugin's fragment, its errors, and what happens when it is ambiguous."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func
from xdsl.dialects.builtin import IndexType, StringAttr, f32
from xdsl.ir import Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator

from tilewright.core.attributes import TW, IndexMapAttr
from tilewright.core.diagnostics import DiagnosticError
from tilewright.text import grammar, parse_module, print_module
from tilewright.text.fragment import AttrSyntax, Fragment, OpSyntax


@irdl_attr_definition
class RangeAttr(ParametrizedAttribute):
    name = "plug.range"
    low: builtin.IntAttr
    high: builtin.IntAttr


@irdl_attr_definition
class KindType(ParametrizedAttribute, TypeAttribute):
    name = "plug.kind"
    size: builtin.IntAttr


@irdl_op_definition
class LoadOp(IRDLOperation):
    name = "plug.load"
    buffer = operand_def(builtin.MemRefType)
    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    result = result_def()


@irdl_op_definition
class LoopOp(IRDLOperation):
    name = "plug.loop"
    args = var_operand_def(IndexType)
    extent = prop_def(IndexMapAttr)
    bounds = opt_prop_def(RangeAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())


@irdl_op_definition
class DoubleOp(IRDLOperation):
    name = "plug.double"
    value = operand_def(f32)
    tag = opt_prop_def(StringAttr)
    result = result_def(f32)
    assembly_format = "$value (`tag` $tag^)? attr-dict"


def build_load(b: Any, buffer: Any, indices: Any, attributes: Any, type: Any) -> LoadOp:
    exprs, args = b.index_exprs(indices)
    op = LoadOp(
        operands=[b.resolve(buffer, type), args],
        properties={"map": IndexMapAttr(len(args), exprs)},
        result_types=[type.element_type],
    )
    op.attributes.update(attributes)
    return op


def print_load(p: Any, op: LoadOp) -> None:
    p.print_string(f" {p.value_name(op.buffer)}[{p.index_exprs(op.map.results, op.args)}]")
    p.print_op_attributes(op.attributes)
    p.print_string(" : ")
    p.print_attribute(op.buffer.type)


def loop_head(b: Any, variable: Any, extent: Any, bounds: Any) -> Any:
    exprs, args = b.index_exprs([extent])
    b.enter_region([(variable, IndexType())])
    return IndexMapAttr(len(args), exprs), args, bounds


def build_loop(b: Any, head: Any, body: Any, attributes: Any) -> LoopOp:
    extent, args, bounds = head
    op = LoopOp(operands=[args], properties={"extent": extent, "bounds": bounds}, regions=[body])
    op.attributes.update(attributes)
    return op


def print_loop(p: Any, op: LoopOp) -> None:
    p.print_string(f" {p.value_name(op.body.block.args[0])} to {p.index_exprs(op.extent.results, op.args)}")
    if op.bounds is not None:
        p.print_string(f" in {p.attribute_text(op.bounds)}")
    p.print_string(" ")
    p.print_region(op.body, print_entry_block_args=False, print_empty_block=False)
    p.print_op_attributes(op.attributes)


def build_range(b: Any, low: int, high: int) -> RangeAttr:
    if low > high:
        raise ValueError(f"empty range {low} to {high}")
    return RangeAttr(builtin.IntAttr(low), builtin.IntAttr(high))


def print_range(p: Any, attr: RangeAttr) -> None:
    p.print_string(f"<[{attr.low.data}, {attr.high.data}]>")


GOOD = Fragment(
    ops=(
        OpSyntax(LoadOp, 'operand "[" exprs_opt "]" attr_dict_opt ":" type', build_load, print_load),
        OpSyntax(LoopOp, "plug_loop_head region attr_dict_opt", build_loop, print_loop),
    ),
    attributes=(
        AttrSyntax(RangeAttr, '"<" "[" integer "," integer "]" ">"', build_range, print_range),
        AttrSyntax(
            KindType,
            '"<" integer ">"',
            lambda b, size: KindType(builtin.IntAttr(size)),
            lambda p, attr: p.print_string(f"<{attr.size.data}>"),
        ),
    ),
    rules="""
        plug_loop_head: PCT_ID "to" expr ["in" attr] -> plug_loop_head
    """,
    actions={"plug_loop_head": loop_head},
)
AMBIGUOUS = Fragment(
    ops=(OpSyntax(LoadOp, "attr_dict_opt region_opt plug_word", build_load, print_load),),
    rules="plug_word: BARE_ID",
)
PLUG = Dialect("plug", [LoadOp, LoopOp, DoubleOp], [RangeAttr, KindType])


@pytest.fixture
def syntax() -> Iterator[types.ModuleType]:
    """This module as the plugin's; its ``SYNTAX`` is set by a test."""
    module = sys.modules[LoadOp.__module__]
    _forget()
    yield module
    module.__dict__.pop("SYNTAX", None)
    _forget()


def _forget() -> None:
    from tilewright.text import fragment

    fragment._fragment_of_module.cache_clear()
    grammar.is_accepted.cache_clear()


def make_context() -> Context:
    context = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, TW):
        context.load_dialect(dialect)
    context.register_dialect("plug", lambda: PLUG)
    return context


TEXT = """\
builtin.module {
  func.func @f(%m: memref<8x8xf32>, %n: index) {
    plug.loop %i to %n * 2 + 1 in #plug.range<[0, 16]> {
      plug.loop %j to 8 {
        %0 = plug.load %m[%i floordiv 2 + min(%j, 3), %i mod 8] {k} : memref<8x8xf32>
        %1 = plug.double %0 tag "x"
      } {vector}
    }
    func.return
  }
}
"""


def test_round_trip(syntax: Any) -> None:
    syntax.SYNTAX = GOOD
    module = parse_module(TEXT, context=make_context())
    assert print_module(parse_module(print_module(module), context=make_context())) == print_module(module)
    generic = print_module(module, generic=True)
    assert '"plug.load"' in generic
    again = parse_module(generic, context=make_context())
    assert again.is_structurally_equivalent(module)
    text = print_module(again)
    assert "plug.loop %i to %n * 2 + 1 in #plug.range<[0, 16]> {" in text
    assert 'plug.double %0 tag "x"' in text
    load = next(op for op in module.walk() if isinstance(op, LoadOp))
    assert [a.name_hint for a in load.args] == ["i", "j"] and load.map.num_inputs == 2


def test_errors_of_a_fragment(syntax: Any) -> None:
    syntax.SYNTAX = GOOD

    def error_of(text: str) -> str:
        with pytest.raises(DiagnosticError) as caught:
            parse_module(text, context=make_context())
        return caught.value.diagnostics[0].message

    assert error_of("plug.loop %i until 8 {}") == "expected 'to' in 'plug.loop', found 'until'"
    assert error_of("module attributes {a = #plug.range<[3, 2]>} {}") == "'plug.range': empty range 3 to 2"
    assert "did you mean 'plug.load'" in error_of("%0 = plug.loadd %a[] : memref<f32>")
    assert error_of("func.func @f(%t: i32) {\n%0 = plug.load %t[] : i32\n}").startswith("'plug.load' op ")


def test_attribute_of_a_fragment_inside_one_that_xdsl_parses(syntax: Any) -> None:
    syntax.SYNTAX = GOOD
    context = make_context()
    from xdsl.dialects import llvm

    context.load_dialect(llvm.LLVM)
    text = "module attributes {a = !llvm.struct<(!plug.kind<4>, i32)>} {}"
    assert "!plug.kind<4>" in print_module(parse_module(text, context=context))


def test_ambiguous_fragment_is_refused(syntax: Any) -> None:
    syntax.SYNTAX = AMBIGUOUS
    assert grammar.fragment_problem(AMBIGUOUS) is not None
    assert grammar.fragment_problem(GOOD) is None
    context = make_context()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = parse_module("func.func @f(%a: f32) {\n  %0 = plug.double %a\n  func.return\n}", context=context)
    assert any("syntax of plug.load is refused" in str(w.message) for w in caught)
    assert "plug.double %a" in print_module(module)


def test_malformed_fragment_is_refused(syntax: Any) -> None:
    syntax.SYNTAX = Fragment(ops=(OpSyntax(LoadOp, "no_such_rule", build_load, print_load),))
    with pytest.warns(UserWarning, match="syntax of plug.load is refused"):
        module = parse_module("func.func private @f()", context=make_context())
        parse_module('"plug.double"(%a) : (f32) -> f32\n%a = "plug.double"(%a) : (f32) -> f32', context=make_context())
    assert module is not None


def test_without_a_fragment_the_generic_form_is_used() -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_module("plug.load %a[]", context=make_context())
    assert "has no pretty form" in caught.value.diagnostics[0].message
