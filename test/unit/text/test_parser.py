"""Parsing: modules, locations, forward references, scopes, nesting, resources."""

from __future__ import annotations

import gc

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, scf, test
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Operation

from tilewright.core.diagnostics import DiagnosticError
from tilewright.text import parse_attribute, parse_module, parse_type, print_module


def make_context(allow_unregistered: bool = False) -> Context:
    context = Context(allow_unregistered)
    for dialect in (builtin.Builtin, func.Func, arith.Arith, scf.Scf, cf.Cf, test.Test):
        context.load_dialect(dialect)
    return context


def parse(text: str, **options: bool) -> ModuleOp:
    return parse_module(text, filename="t.ir", context=make_context(**options))


def find(module: ModuleOp, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def error_of(text: str, **options: bool) -> str:
    with pytest.raises(DiagnosticError) as caught:
        parse(text, **options)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.position is not None
    _, line, column = diagnostic.position
    return f"{line}:{column}: {diagnostic.message}"


def at(line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr("t.ir"), IntAttr(line), IntAttr(column))


def test_several_operations_are_wrapped() -> None:
    module = parse("func.func private @a()\nfunc.func private @b()")
    assert [op.sym_name.data for op in module.ops if isinstance(op, func.FuncOp)] == ["a", "b"]
    assert len(parse("").ops) == 0
    inner = parse("module @m {}")
    assert inner.sym_name is not None and inner.sym_name.data == "m"


def test_every_operation_has_a_location() -> None:
    module = parse('func.func @f(%a: i32) {\n  %0 = arith.addi %a, %a : i32\n  "func.return"() : () -> ()\n}')
    assert find(module, "func.func").location == at(1, 1)
    assert find(module, "arith.addi").location == at(2, 8)
    assert find(module, "func.return").location == at(3, 3)


def test_explicit_locations_and_late_aliases() -> None:
    text = "%a = arith.constant 1 : i32 loc(#l1)\n%b = arith.constant 2 : i32 loc(unknown)\n"
    module = parse(text + '#l = loc("m.py":3:4)\n#l1 = loc("conv"(#l))\n')
    first, second = module.ops
    place = FileLineColLoc(StringAttr("m.py"), IntAttr(3), IntAttr(4))
    assert first.location == NameLoc(StringAttr("conv"), place)
    assert isinstance(second.location, UnknownLoc)
    printed = print_module(module, locations=True)
    again = parse(printed)
    assert [op.location for op in again.ops] == [first.location, second.location]


def test_alias_of_itself() -> None:
    assert "undefined attribute alias '#a'" in error_of("module attributes {x = #a} {}")
    assert "defined by itself" in error_of("module attributes {x = #a} {}\n#a = [#b]\n#b = [#a]\n")


def test_forward_references() -> None:
    module = parse(
        "func.func @f() {\n  cf.br ^b\n^a:\n  func.return\n^b:\n  %1 = arith.addi %2, %2 : i32\n"
        "  %2 = arith.constant 1 : i32\n  cf.br ^a\n}"
    )
    add = find(module, "arith.addi")
    assert add.operands[0].owner.name == "arith.constant"  # type: ignore[union-attr]
    assert error_of("%1 = arith.addi %2, %2 : i32") == "1:17: use of undefined value %2"
    wrong = '%1 = arith.addi %2, %2 : i32\n%2 = "test.op"() : () -> f32'
    assert error_of(wrong) == "1:17: %2 has type f32, expected i32"


def test_result_groups() -> None:
    module = parse('%a:2, %b = "test.op"() : () -> (i32, f32, i64)\n"test.op"(%a#1, %b) : (f32, i64) -> ()')
    first, second = module.ops
    assert list(second.operands) == [first.results[1], first.results[2]]
    assert error_of('%a = "test.op"() : () -> (i32, f32)') == "1:1: 'test.op' has 2 results, found 1 names"
    assert "has 1 results, found #3" in error_of('%a = "test.op"() : () -> i32\n"test.op"(%a#3) : (i32) -> ()')


def test_names_are_free_again_in_isolated_regions_only() -> None:
    text = "%a = arith.constant 1 : i32\nfunc.func @f(%a: f32) {\n  %0 = arith.addf %a, %a : f32\n  func.return\n}\n"
    add = find(parse(text + "%0 = arith.addi %a, %a : i32"), "arith.addf")
    assert add.operands[0].type == builtin.f32
    shadow = "func.func @f(%c: i1) {\n  scf.if %c {\n    %c = arith.constant 1 : i32\n  }\n  func.return\n}"
    assert error_of(shadow) == "3:5: redefinition of value %c"


def test_a_module_with_locations_prints_the_same_again() -> None:
    text = 'func.func @f(%a: i32 loc("x")) -> i32 {\n  func.return %a : i32 loc("y":1:2)\n}'
    printed = print_module(parse(text), locations=True)
    assert 'loc("x")' in printed
    assert print_module(parse(printed), locations=True) == printed


def test_unregistered_operations() -> None:
    assert error_of('"a.b"() : () -> ()') == "1:2: unknown operation 'a.b': there is no dialect 'a'"
    module = parse('%0 = "a.b"() <{p = #c.d<x [y]>}> {q} : () -> !e.f<1>', allow_unregistered=True)
    text = print_module(module)
    assert '%0 = "a.b"() <{p = #c.d<x [y]>}> {q} : () -> !e.f<1>' in text
    assert print_module(parse(text, allow_unregistered=True)) == text


@pytest.mark.parametrize("depth", [200, 1000])
def test_deep_regions(depth: int) -> None:
    text = "func.func @f(%c: i1) {\n" + "scf.if %c {\n" * depth + "}\n" * depth + "func.return\n}"
    module = parse(text)
    for generic in (False, True):
        printed = print_module(module, generic=generic)
        assert print_module(parse(printed), generic=generic) == printed


def test_too_deep() -> None:
    assert "nested too deeply" in error_of("module {" * 20_000)
    assert "more than 100 nested '['" in error_of("module attributes {a = " + "[" * 500)
    assert "nested too deeply" in error_of(f"module attributes {{a = affine_map<(d0) -> ({'-' * 9000}d0)>}} {{}}")


def test_resources() -> None:
    text = "module attributes {w = dense_resource<w> : tensor<2xf32>} {}\n"
    text += '{-# dialect_resources: {builtin: {w: "0x08"}} #-}'
    context = make_context()
    parse_module(text, context=context)
    from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface

    interface = context.get_dialect("builtin").get_interface(OpAsmDialectInterface)
    assert interface is not None and interface.lookup("w") == "0x08"
    assert "holds no resources" in error_of('module {}\n{-# dialect_resources: {arith: {w: "0x08"}} #-}')


def test_single_attributes_and_types() -> None:
    context = make_context()
    assert parse_attribute("1 : i8", context) == builtin.IntegerAttr(1, builtin.i8)
    assert parse_type("tensor<4xf32>", context) == builtin.TensorType(builtin.f32, [4])
    with pytest.raises(DiagnosticError):
        parse_type("1 : i8", context)
    with pytest.raises(DiagnosticError):
        parse_attribute("1 : i8 2", context)


def test_infinity_in_a_splat() -> None:
    attr = parse_attribute("dense<0xFF800000> : vector<8xf32>", make_context())
    assert isinstance(attr, builtin.DenseIntOrFPElementsAttr)
    assert list(attr.get_values()) == [float("-inf")] * 8


def test_the_collector_is_left_as_it_was() -> None:
    gc.disable()
    try:
        parse("module {}")
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(DiagnosticError):
        parse("module {")
    assert gc.isenabled()
