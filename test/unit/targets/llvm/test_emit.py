"""The emitter: a module of llvm and tllvm becomes LLVM IR that LLVM accepts and that computes what it says."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tilewright.core.diagnostics import DiagnosticError
from tilewright.targets.llvm.codegen import compile_ir, host_machine
from tilewright.targets.llvm.dialect import TLLVM
from tilewright.targets.llvm.emit import emit_module
from tilewright.targets.llvm.emit_rules import LITERALS, RULES
from tilewright.targets.llvm.jit import load_ir


def _parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (builtin.Builtin, llvm.LLVM, TLLVM):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def _function(body: str, arguments: str = "", result: str = "") -> str:
    return _emit(f"llvm.func external @f({arguments}){result} {{\n{body}\n}}")


def _emit(text: str) -> str:
    return emit_module(_parse(text))


SUM = """
llvm.func @sum(%data: !llvm.ptr {llvm.noalias, llvm.align = 64 : i64}, %n: i64) -> f32 {
  %zero = llvm.mlir.constant(0.000000e+00 : f32) : f32
  %start = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^loop(%start, %zero : i64, f32)
^loop(%i: i64, %s: f32):
  %p = llvm.getelementptr inbounds %data[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> f32
  %t = llvm.fadd %s, %v {fastmathFlags = #llvm.fastmath<contract>} : f32
  %j = llvm.add %i, %one overflow<nsw, nuw> : i64
  %more = llvm.icmp "slt" %j, %n : i64
  llvm.cond_br %more, ^loop(%j, %t : i64, f32), ^exit {tllvm.unroll = "disable"}
^exit:
  llvm.return %t : f32
}
"""


SUM_IR = """\
define float @sum(ptr align 64 noalias %v0, i64 %v1) {
b0:
  br label %b1
b1:
  %v2 = phi i64 [ 0, %b0 ], [ %v3, %b1 ]
  %v4 = phi float [ 0x0000000000000000, %b0 ], [ %v5, %b1 ]
  %v6 = getelementptr inbounds float, ptr %v0, i64 %v2
  %v7 = load float, ptr %v6, align 4
  %v5 = fadd contract float %v4, %v7
  %v3 = add nsw nuw i64 %v2, 1
  %v8 = icmp slt i64 %v3, %v1
  br i1 %v8, label %b1, label %b2, !llvm.loop !0
b2:
  ret float %v5
}
!0 = distinct !{!0, !{!"llvm.loop.unroll.disable"}}
"""


def test_loop_text() -> None:
    assert _emit(SUM) == SUM_IR


def test_loop_runs() -> None:
    data = np.arange(10, dtype=np.float32)
    code = load_ir(_emit(SUM), "sum")
    assert code.function("sum", ctypes.c_float, ctypes.c_void_p, ctypes.c_int64)(data.ctypes.data, 10) == 45.0


VECTORS = """
llvm.mlir.global internal constant @table(dense<[10.0, 20.0, 30.0, 40.0]> : tensor<4xf32>) {alignment = 64 : i64,
  addr_space = 0 : i32} : !llvm.array<4 x f32>
llvm.func internal @twice(%x: vector<4xf32>) -> vector<4xf32> {
  %two = llvm.mlir.constant(dense<2.0> : vector<4xf32>) : vector<4xf32>
  %r = llvm.fmul %x, %two : vector<4xf32>
  llvm.return %r : vector<4xf32>
}
llvm.func @f(%in: !llvm.ptr, %out: !llvm.ptr, %x: f32, %callee: !llvm.ptr) {
  %mask = llvm.mlir.constant(dense<[true, false, true, true]> : vector<4xi1>) : vector<4xi1>
  %all = llvm.mlir.constant(dense<true> : vector<4xi1>) : vector<4xi1>
  %nine = llvm.mlir.constant(dense<9.0> : vector<4xf32>) : vector<4xf32>
  %indices = llvm.mlir.constant(dense<[3, 2, 1, 0]> : vector<4xi64>) : vector<4xi64>
  %lane = llvm.mlir.constant(2 : i64) : i64
  %table = llvm.mlir.addressof @table : !llvm.ptr
  %a = "tllvm.masked_load"(%in, %mask, %nine) <{alignment = 4 : i64}>
    : (!llvm.ptr, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
  %b = "tllvm.gather"(%table, %indices, %all, %nine)
    : (!llvm.ptr, vector<4xi64>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
  %s = tllvm.splat %x : f32 -> vector<4xf32>
  %c = llvm.intr.fma(%a, %s, %b) : (vector<4xf32>, vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  %d = llvm.call @twice(%c) : (vector<4xf32>) -> vector<4xf32>
  %e = llvm.call %callee(%d) : !llvm.ptr, (vector<4xf32>) -> vector<4xf32>
  %less = tllvm.fcmp "olt", %e, %nine : vector<4xf32> -> vector<4xi1>
  %g = tllvm.select %less, %nine, %e : vector<4xi1>, vector<4xf32>
  %h = llvm.shufflevector %g, %g [0, 1, 2, 3] : vector<4xf32>
  %k = tllvm.extractelement %h, %lane : vector<4xf32>, i64 -> f32
  %l = llvm.insertelement %k, %h[%lane : i64] : vector<4xf32>
  %m = tllvm.cast "fptosi", %l : vector<4xf32> -> vector<4xi32>
  %n = llvm.sitofp %m : vector<4xi32> to vector<4xf32>
  %o = llvm.call_intrinsic "llvm.maximum.v4f32"(%n, %nine)
    : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  %z = tllvm.math "exp", %o : vector<4xf32> -> vector<4xf32>
  %y = tllvm.math "log", %z : vector<4xf32> -> vector<4xf32>
  "tllvm.masked_store"(%y, %out, %mask) <{alignment = 4 : i64}> : (vector<4xf32>, !llvm.ptr, vector<4xi1>) -> ()
  "tllvm.scatter"(%y, %out, %indices, %mask) : (vector<4xf32>, !llvm.ptr, vector<4xi64>, vector<4xi1>) -> ()
  llvm.return
}
llvm.func @same(%x: vector<4xf32>) -> vector<4xf32> {
  llvm.return %x : vector<4xf32>
}
"""


def test_vectors_masks_calls_and_math_run() -> None:
    data = np.array([1, 2, 3, 4], np.float32)
    out = np.full(4, -1, np.float32)
    code = load_ir(_emit(VECTORS), "f", "same")
    pointer = ctypes.c_void_p
    function = code.function("f", None, pointer, pointer, ctypes.c_float, pointer)
    function(data.ctypes.data, out.ctypes.data, 0.5, code.address("same"))
    expected = np.trunc(2 * (np.where([1, 0, 1, 1], data, 9) * 0.5 + np.array([40, 30, 20, 10])))
    masked = np.where([1, 0, 1, 1], expected, -1)
    masked[[3, 1, 0]] = expected[[0, 2, 3]]
    np.testing.assert_allclose(out, masked, rtol=1e-5)


def test_emitted_text_is_deterministic() -> None:
    assert _emit(VECTORS) == _emit(VECTORS)
    assert compile_ir(_emit(VECTORS), host_machine()) == compile_ir(_emit(VECTORS), host_machine())


@pytest.mark.parametrize(
    "constant,text",
    [
        ("0.1 : f32", "float 0x3FB99999A0000000"),
        ("0.1 : f64", "double 0x3FB999999999999A"),
        ("0.1 : f16", "half 0xH2E66"),
        ("0.1 : bf16", "bfloat 0xR3DCD"),
        ("0x7F800000 : f32", "float 0x7FF0000000000000"),
        ("-1 : i8", "i8 -1"),
        ("true", "i1 true"),
        ("9223372036854775807 : i64", "i64 9223372036854775807"),
        ("dense<[1, -2]> : vector<2xi32>", "<2 x i32> <i32 1, i32 -2>"),
    ],
)
def test_constants_are_written_exactly(constant: str, text: str) -> None:
    type = constant.split(" : ")[1] if ":" in constant else "i1"
    body = f"%c = llvm.mlir.constant({constant}) : {type}\n  llvm.return %c : {type}"
    emitted = _function(body, result=f" -> {type}")
    assert f"ret {text}" in emitted
    compile_ir(emitted, host_machine())


@pytest.mark.parametrize(
    "body,message",
    [
        ('%c = "llvm.intr.stacksave"() : () -> !llvm.ptr', "'llvm.intr.stacksave' op has no LLVM IR"),
        ('%c = llvm.load %p {tllvm.unroll = "full"} : !llvm.ptr -> f32', "attributes that the emitter does not know"),
        ("%c = llvm.load %p atomic acquire {alignment = 4 : i64} : !llvm.ptr -> f32", "is atomic"),
        ('"llvm.store"(%p, %p) <{volatile_, ordering = 0 : i64}> : (!llvm.ptr, !llvm.ptr) -> ()', "volatile_"),
        ("%c = llvm.load %p : !llvm.ptr -> index", "has type index"),
        ("%c = llvm.load %p : !llvm.ptr -> vector<2x2xf32>", "has type vector<2x2xf32>"),
        ('%c = llvm.load %p : !llvm.ptr -> f32\n%d = tllvm.math "nosuch", %c : f32 -> f32', "'nosuch'"),
        ('llvm.br ^e {tllvm.unroll = "twice"}\n^e:', "expected full or disable"),
    ],
)
def test_what_is_unknown_is_refused(body: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        _function(body + "\nllvm.return", "%p: !llvm.ptr")


@pytest.mark.parametrize(
    "text,message",
    [
        ("llvm.func @f(%p: !llvm.ptr {llvm.byval}) {\nllvm.return\n}", "llvm.byval"),
        ("llvm.func weak @f() {\nllvm.return\n}", "linkage 'weak'"),
        ("llvm.func fastcc @f() {\nllvm.return\n}", "calling convention"),
        ('llvm.func @f() attributes {passthrough = ["naked"]} {\nllvm.return\n}', "passthrough"),
        ("llvm.mlir.global internal @g(1 : i32) {addr_space = 0 : i32} : i32", "no mutable globals"),
        ("builtin.module {\nbuiltin.module {}\n}", "no LLVM IR at module level"),
    ],
)
def test_unknown_functions_and_globals_are_refused(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        _emit(text)


def test_a_refusal_says_where() -> None:
    from tilewright.core.diagnostics import file_location

    module = _parse("llvm.func @f() {\n  %c = llvm.mlir.undef : index\n  llvm.return\n}")
    function = module.body.block.first_op
    assert isinstance(function, llvm.FuncOp)
    function.location = file_location("model.ir", 1, 1)
    function.properties["no_inline"] = builtin.UnitAttr()
    function.attributes["strange"] = builtin.UnitAttr()
    with pytest.raises(DiagnosticError, match=r"model.ir:1:1: error: 'llvm.func' op has attributes .* strange"):
        emit_module(module)


def test_every_operation_of_tllvm_has_a_rule() -> None:
    assert set(TLLVM.operations) <= RULES.keys()
    assert not RULES.keys() & LITERALS.keys()
