"""Printing: what xDSL's own printers lose is kept, and what a pretty form cannot say is printed generically."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import affine, arith, builtin, func, llvm, memref, scf, test, vector
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, UnitAttr, f32, i32
from xdsl.dialects.test import TestOp

from tilewright.text import Printer, parse_module, print_attribute, print_module


def make_context() -> Context:
    context = Context()
    dialects = (builtin.Builtin, func.Func, arith.Arith, scf.Scf, memref.MemRef, vector.Vector, llvm.LLVM)
    for dialect in (*dialects, affine.Affine, test.Test):
        context.load_dialect(dialect)
    return context


def round_trip(module: ModuleOp) -> str:
    for generic in (True, False):
        text = print_module(module, generic=generic)
        again = parse_module(text, context=make_context())
        assert again.is_structurally_equivalent(module), text
        assert print_module(again, generic=generic) == text
    return text


def parse(text: str) -> ModuleOp:
    return parse_module(text, context=make_context())


def test_attributes_that_xdsl_loses() -> None:
    text = round_trip(
        parse("""
        func.func @f(%a: i32, %x: f32, %m: memref<8x8xf32>, %i: index) {
          %0 = arith.cmpi slt, %a, %a {keep = 1} : i32
          %1 = arith.cmpf olt, %x, %x {keep = 2} : f32
          %2 = "llvm.mlir.constant"() <{value = 1 : i32}> {keep = 3} : () -> i32
          %3 = "affine.load"(%m, %i, %i) <{map = affine_map<(d0, d1) -> (d0, d1)>}> {keep = 4}
            : (memref<8x8xf32>, index, index) -> f32
          "scf.execute_region"() ({
            scf.yield
          }) {keep = 5} : () -> ()
          scf.if %0 {
            scf.yield {keep = 6}
          }
          func.return
        }
        """)
    )
    assert all(f"keep = {n} : i64" in text for n in range(1, 7))


def test_a_pretty_form_that_cannot_say_it_is_not_used() -> None:
    value = arith.ConstantOp(FloatAttr(1.0, f32))
    clash = arith.CmpfOp(value, value, "oeq")
    clash.properties["predicate"] = builtin.IntegerAttr(77, builtin.i64)
    text = print_module(ModuleOp([value, clash]))
    assert '"arith.cmpf"' in text and "predicate = 77 : i64" in text


def test_absent_operands_before_an_operation_with_results() -> None:
    module = ModuleOp([scf.YieldOp(), TestOp(result_types=[i32])])
    round_trip(module)


def test_names() -> None:
    first, second, third = (TestOp(result_types=[i32]) for _ in range(3))
    first.results[0].name_hint = "x"
    second.results[0].name_hint = "x"
    text = print_module(ModuleOp([first, second, third, TestOp(operands=[*first.res, *second.res, *third.res])]))
    assert "(%x, %x_1, %0)" in text
    round_trip(ModuleOp([first.clone(), second.clone(), third.clone()]))


def test_names_of_regions_are_free_after_them() -> None:
    text = print_module(
        parse("""
        func.func @f(%n: index) {
          scf.for %i = %n to %n step %n {
            %a = arith.addi %i, %i : index
          }
          scf.for %i = %n to %n step %n {
            %a = arith.addi %i, %i : index
          }
          func.return
        }
        """)
    )
    assert text.count("scf.for %i =") == 2 and text.count("%a = arith.addi %i, %i") == 2


def test_dictionaries_are_sorted() -> None:
    op = TestOp(attributes={"b": UnitAttr(), "a": StringAttr("x")})
    assert '{a = "x", b}' in print_module(ModuleOp([op]))


def test_floats() -> None:
    for value, text in (
        (1.0, "1.000000e+00 : f32"),
        (-0.0, "-0.000000e+00 : f32"),
        (1e-5, "1.000000e-05 : f32"),
        (float("inf"), "0x7F800000 : f32"),
        (float("nan"), "0x7FC00000 : f32"),
        (0.1, "1.000000e-01 : f32"),
        (16777217.0, "16777216.0 : f32"),
        (1.1754943508222875e-38, "1.17549435e-38 : f32"),
    ):
        assert print_attribute(FloatAttr(value, f32)) == text


def test_stream_gets_the_text(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "out.ir"
    with path.open("w") as stream:
        text = print_module(ModuleOp([]), stream=stream)
    assert path.read_text() == text == "builtin.module {\n}\n"


def test_printing_does_not_change_unregistered_operations() -> None:
    context = Context(allow_unregistered=True)
    context.load_dialect(builtin.Builtin)
    module = parse_module('"a.b"() {x = 1 : i32} : () -> ()', context=context)
    assert print_module(module) == print_module(module)


def test_printer_is_an_xdsl_printer() -> None:
    printer = Printer()
    printer.print_op(TestOp(result_types=[i32]))
    assert printer.text() == '%0 = "test.op"() : () -> i32'
