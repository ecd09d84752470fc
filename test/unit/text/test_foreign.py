"""Operations that parse themselves, the xDSL way, within our text."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr
from xdsl.ir import Dialect, Operation, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, region_def, var_result_def
from xdsl.parser import Parser

from tilewright.core.diagnostics import DiagnosticError
from tilewright.text import parse_module, print_module


@irdl_op_definition
class RepeatOp(IRDLOperation):
    """``own.repeat %i = %count "label" { ... }``: an imperative parse method with a region and a forward reference."""

    name = "own.repeat"
    count = operand_def(IndexType())
    label = prop_def(StringAttr)
    results_ = var_result_def()
    body = region_def()

    @classmethod
    def parse(cls, parser: Parser) -> RepeatOp:
        argument = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        count = parser.parse_operand(IndexType())
        label = StringAttr(parser.parse_str_literal())
        body: Region = parser.parse_region([argument])
        return cls.create(operands=[count], properties={"label": label}, regions=[body])


def context() -> Context:
    """All of xDSL's dialects, and the one above."""
    made = Context()
    for name, factory in get_all_dialects().items():
        made.register_dialect(name, factory)
    made.load_registered_dialect("builtin")
    made.load_dialect(Dialect("own", [RepeatOp]))
    return made


def parsed(text: str) -> Operation:
    """The first operation of a text."""
    op = parse_module(text, filename="t.ir", context=context()).body.block.first_op
    assert op is not None
    return op


def test_values_and_regions_are_shared_with_the_grammar() -> None:
    op = parsed(
        """
        func.func @f(%n: index) {
          own.repeat %i = %later "outer" { // a } in a comment
            %x = arith.addi %i, %n : index
            own.repeat %j = %x "inner" {
              %y = arith.addi %j, %x : index
            }
          }
          %later = arith.constant 3 : index
          func.return
        }
        """
    )
    outer, constant, _ = op.regions[0].block.ops
    assert isinstance(outer, RepeatOp) and outer.count is constant.results[0]
    add, inner = outer.body.block.ops
    assert add.operands[0] is outer.body.block.args[0]
    assert isinstance(inner, RepeatOp) and inner.count is add.results[0] and inner.label.data == "inner"
    assert print_module(parsed(print_module(op))) == print_module(op)


def test_names_of_a_region_end_with_it() -> None:
    text = 'func.func @f(%n: index) { own.repeat %i = %n "a" {} own.repeat %j = %i "b" {} func.return }'
    with pytest.raises(DiagnosticError, match="use of undefined value %i"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ('own.repeat %i = "a" {}', "expected an operand", 17),
        ('own.repeat %i = %n "a" { arith.nothing }', "unknown operation 'arith.nothing'", 26),
        ('own.repeat %i = %n "a" 7', "expected region", 24),
    ],
)
def test_errors_point_into_the_text(text: str, message: str, column: int) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parsed(f"func.func @f(%n: index) {{\n{text}\nfunc.return }}")
    (found,) = caught.value.diagnostics
    assert message in found.message.lower()
    assert f":2:{column}: " in str(caught.value)


def test_dialect_of_the_operation_around_may_be_left_out() -> None:
    op = parsed("irdl.dialect @cmath { type @complex { %0 = is i32  parameters(elem: %0) } }")
    (type_op,) = op.regions[0].block.ops
    assert [o.name for o in type_op.regions[0].block.ops] == ["irdl.is", "irdl.parameters"]


def test_nested_return_belongs_to_the_function_around() -> None:
    assert [o.name for o in parsed("func.func @f() { return }").regions[0].block.ops] == ["func.return"]


def test_many_nested_regions_of_operations_that_parse_themselves() -> None:
    text = "".join(f"affine.for %i{k} = 0 to 4 {{ " for k in range(1000)) + '"affine.yield"() : () -> () ' + "}" * 1000
    depth, op = 0, parsed(text)
    while isinstance(op, Operation) and op.regions:
        depth, op = depth + 1, op.regions[0].block.first_op  # type: ignore[assignment]
    assert depth == 1000
    assert parsed("affine.for %i = 0 to 7 {}").properties["step"] == IntegerAttr(1, IndexType())


@pytest.mark.parametrize("text", ['own.repeat %i = %n "', '"test.op"() {a = #llvm.linkage<"'])
def test_a_string_without_an_end_is_an_error_in_no_time(text: str) -> None:
    with pytest.raises(DiagnosticError):
        parsed(f"func.func @f(%n: index) {{\n{text}{'long ' * 2000}\nfunc.return }}")
