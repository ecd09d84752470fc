"""Several errors of one text: each mistake is reported once, and nothing that follows from it."""

from __future__ import annotations

import re

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects

from tilewright.core.diagnostics import DiagnosticError
from tilewright.text import parse_module
from tilewright.text.recovery import MOST_ERRORS


def errors(text: str) -> list[str]:
    """``line: message`` of every error of a text."""
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    with pytest.raises(DiagnosticError) as caught:
        parse_module(text, filename="t.ir", context=context)
    return [re.sub(r"^t\.ir:(\d+):\d+: error: ", r"\1: ", str(d).splitlines()[0]) for d in caught.value.diagnostics]


def lines(text: str) -> list[int]:
    """The lines of the errors."""
    return [int(error.partition(":")[0]) for error in errors(text)]


MANY = """\
func.func @f(%a: f32, %b: f32) -> f32 {
  %0 = arith.addf %a %b : f32
  %1 = arith.mulf %a, %0 : f32
  %2 = arith.mulf %1, %b f32
  %3 = arith.nogf %2 : f32
  scf.for %i = 0 to %a {
    %u = arith.bad %i
  }
  %c = arith.constant 1 : index
  affine.for %j = 0 to 4 {
    %k = arith.addi %j, %zz : index
    %l = arith.addi %j %k : index
    affine.for %n = 1 too 4 {
      %m = arith.addi %j, %l : index
    }
    %o = arith.bad2 %j
  }
  cf.br ^bb7
^bb2:
  func.return %1 : f32
}
func.func g() {
  func.return
}
func.func @h(%x: !llvm.pointer) {
  func.return %x : !llvm.pointer
}
func.func @ok(%x: i32) {
  func.return {a = ]} %x
  func.return
}
"""


def test_every_mistake_is_reported_once() -> None:
    assert lines(MANY) == [2, 4, 5, 6, 11, 12, 13, 16, 18, 22, 25, 29]


def test_errors_come_in_the_order_of_the_text() -> None:
    found = errors('func.func @f() {\n  "test.op"(%x) : (i32) -> ()\n  arith.nothing\n  func.return\n}')
    assert [e.partition(":")[0] for e in found] == ["2", "3"]
    assert "use of undefined value %x" in found[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A name whose definition is broken is not undefined, whatever its type.
        ('%0 = "a.b"(\n"c.d"(%0) : (i32) -> ()\n"c.d"(%0) : (f32) -> ()', [2]),
        # The region of a broken operation belongs to it.
        ("func.func @f( {\n  func.return\n}\nfunc.func @g() {\n  func.return\n}", [1]),
        # An error at the end of a line is found at the beginning of the next one, which is read all the same.
        ("func.func @f(%a: i32) {\n  %0 = arith.addi %a,\n  %1 = arith.addi %a, %a : i33\n  func.return\n}", [3]),
        # A missing brace at the end is one error.
        ("func.func @f() {\n  func.return", [2]),
        # An operation that is refused when it is built, in the middle of others.
        (
            "func.func @f(%a: i32) {\n  arith.cmpi x, %a, %a : i32\n  arith.cmpi y, %a, %a : i32\n  func.return\n}",
            [2, 3],
        ),
        # Broken aliases are not undefined.
        ('#a = affine_map<(d0) -> (d1\n"t.a"() {m = #a} : () -> ()\n"t.b"() {m = #b} : () -> ()', [2, 3]),
    ],
)
def test_no_errors_that_follow_from_others(text: str, expected: list[int]) -> None:
    text = text.replace("a.b", "test.op").replace("c.d", "test.op")
    assert lines(re.sub(r"t\.[ab]\b", "test.op", text)) == expected


def test_at_most_twenty_errors() -> None:
    assert len(lines("func.func @f() {\n" + "  arith.nothing\n" * 100 + "}")) == MOST_ERRORS


def test_wrong_types_of_one_value_are_one_error_each() -> None:
    text = "func.func @f(%a: i32) {\n  %0 = arith.addi %a, %a : i64\n  %1 = arith.addi %0, %0 : i64\n  func.return\n}"
    assert lines(text) == [2]
