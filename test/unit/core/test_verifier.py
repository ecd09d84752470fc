"""The verifier: each fault xDSL lets through is a diagnostic at the right place; valid programs pass."""

from __future__ import annotations

import time

import pytest
from xdsl.parser import Parser

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.verifier import verify

VALID = {
    "diamond": """
      func.func @f(%c: i1, %a: i32) -> i32 {
        cf.cond_br %c, ^bb1(%a : i32), ^bb2
      ^bb1(%x: i32):
        cf.br ^bb3(%x : i32)
      ^bb2:
        %y = arith.addi %a, %a : i32
        cf.br ^bb3(%y : i32)
      ^bb3(%z: i32):
        func.return %z : i32
      }""",
    "loop": """
      func.func @f(%n: index) -> index {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0) -> (index) {
          %t = arith.addi %s, %i : index
          scf.yield %t : index
        }
        func.return %r : index
      }""",
    "unreachable": """
      func.func @f(%a: i32) {
        func.return
      ^bb1:
        %x = arith.addi %a, %a : i32
        cf.br ^bb1
      }""",
    "nested use of an outer block's value": """
      func.func @f(%c: i1, %a: i32) {
        %b = arith.addi %a, %a : i32
        cf.br ^bb1
      ^bb1:
        scf.if %c {
          %d = arith.addi %b, %a : i32
        }
        func.return
      }""",
}

INVALID = {
    "later": (
        """
      func.func @f(%a: i32) {
        %x = "test.op"(%y) : (i32) -> i32
        %y = arith.addi %a, %a : i32
        func.return
      }""",
        "'test.op' op operand #0 does not dominate this use",
    ),
    "sibling block": (
        """
      func.func @f(%c: i1, %a: i32) -> i32 {
        cf.cond_br %c, ^bb1, ^bb2
      ^bb1:
        %y = arith.addi %a, %a : i32
        cf.br ^bb2
      ^bb2:
        func.return %y : i32
      }""",
        "'func.return' op operand #0 does not dominate this use",
    ),
    "own result": (
        """
      func.func @f(%c: i1) {
        %r = scf.if %c -> (i1) {
          scf.yield %r : i1
        } else {
          scf.yield %c : i1
        }
        func.return
      }""",
        "'scf.yield' op operand #0 does not dominate this use",
    ),
    "isolation": (
        """
      func.func @f(%a: i32) {
        func.func private @g() {
          %x = arith.addi %a, %a : i32
          func.return
        }
        func.return
      }""",
        "'arith.addi' op operand #0 is defined outside of 'func.func', which is isolated from above",
    ),
    "branch argument": (
        """
      func.func @f(%a: i32) {
        cf.br ^bb1(%a : i32)
      ^bb1(%x: i64):
        func.return
      }""",
        "'cf.br' op successor argument #0 has type i32, expected i64",
    ),
    "branch count": (
        """
      func.func @f(%c: i1) {
        cf.cond_br %c, ^bb1, ^bb2
      ^bb1:
        func.return
      ^bb2(%x: i64):
        func.return
      }""",
        "'cf.cond_br' op has 0 successor arguments, expected 1",
    ),
    "branch to entry": (
        """
      func.func @f() {
      ^bb0:
        cf.br ^bb1
      ^bb1:
        cf.br ^bb0
      }""",
        "'cf.br' op branches to the entry block of its region",
    ),
    "yield type": (
        """
      func.func @f(%c: i1) {
        %r = scf.if %c -> (i32) {
          scf.yield %c : i1
        } else {
          scf.yield %c : i1
        }
        func.return
      }""",
        "'scf.if' op yielded value #0 has type i1, expected i32",
    ),
    "no terminator": (
        """
      func.func @f(%a: i32) {
        %y = arith.addi %a, %a : i32
      }""",
        "'arith.addi' op ends a block, but is no terminator",
    ),
    "terminator in the middle": (
        """
      func.func @f(%a: i32) {
        "func.return"() : () -> ()
        %y = arith.addi %a, %a : i32
        func.return
      }""",
        "'func.return' op",
    ),
    "return type": (
        """
      func.func @f(%a: i32) -> i64 {
        func.return %a : i32
      }""",
        "'func.return' op",
    ),
    "dims": (
        """
      func.func @f(%a: tensor<?x4xf32, #tw.enc<dims = [n, m]>>) {
        func.return
      }""",
        "has 1 dynamic dimensions, but 2 expressions",
    ),
}


def parse(text: str):
    context = make_context(allow_unregistered=True)
    return Parser(context, text).parse_module()


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    verify(parse(VALID[name]))


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    text, message = INVALID[name]
    with pytest.raises(DiagnosticError) as caught:
        verify(parse(text))
    assert message in caught.value.diagnostics[0].message
    assert len(caught.value.diagnostics) == 1


def test_value_of_a_finished_region() -> None:
    module = parse(VALID["nested use of an outer block's value"])
    inner = next(op for op in module.walk() if op.name == "scf.if").regions[0].block.first_op
    last = next(op for op in module.walk() if op.name == "func.return")
    last.operands = [inner.results[0]]
    with pytest.raises(DiagnosticError, match="operand #0 does not dominate this use"):
        verify(module)


def test_each_function_reports() -> None:
    bad = INVALID["later"][0]
    with pytest.raises(DiagnosticError) as caught:
        verify(parse(bad + bad.replace("@f", "@g")))
    assert len(caught.value.diagnostics) == 2


def test_deep_nesting_is_no_recursion() -> None:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.test import TestOp
    from xdsl.ir import Block, Region

    inner = TestOp.create()
    for _ in range(200):
        inner = TestOp.create(regions=[Region(Block([inner]))])
    with pytest.raises(DiagnosticError, match="is no terminator"):
        verify(ModuleOp([inner]))


def test_verifying_is_fast() -> None:
    body = "\n".join(f"%v{i + 1} = arith.addi %v{i}, %v{i} : i32" for i in range(5000))
    module = parse(f"func.func @f(%v0: i32) {{\n{body}\nfunc.return\n}}")
    start = time.process_time()
    verify(module)
    assert time.process_time() - start < 1.0
