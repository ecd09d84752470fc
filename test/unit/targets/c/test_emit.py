"""The C emitter: parentheses, literals, names, and what it refuses."""

from __future__ import annotations

import math

import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, f32, f64, i1, i8, i32, i64

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.targets.c.emit import ModuleEmitter
from tilewright.targets.c.emit_exprs import float_literal, integer_literal
from tilewright.targets.c.library import helper
from tilewright.targets.c.names import Names, comment, identifier, string_literal
from tilewright.text import parse_module

UI32 = IntegerType(32, Signedness.UNSIGNED)


def source(text: str) -> str:
    module = parse_module(text, context=make_context())
    assert isinstance(module, ModuleOp)
    return "".join(ModuleEmitter(module, "m").source("m.h", []))


def returned(body: str, result: str = "i64") -> str:
    """The expression that a function of three numbers returns."""
    text = f"""
    c.func static @f(%a: {result}, %b: {result}, %d: {result}) -> {result} {{
      {body}
      c.return %r : {result}
    }}
    """
    return source(text).split("return ")[1].split(";")[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('%s = c.binary %a "+" %b : i64\n%r = c.binary %s "*" %d : i64', "(a + b) * d"),
        ('%s = c.binary %a "*" %b : i64\n%r = c.binary %s "+" %d : i64', "a * b + d"),
        ('%s = c.binary %a "-" %b : i64\n%r = c.binary %d "-" %s : i64', "d - (a - b)"),
        ('%s = c.binary %a "-" %b : i64\n%r = c.binary %s "-" %d : i64', "a - b - d"),
        ('%s = c.binary %a "/" %b : i64\n%r = c.binary %d "*" %s : i64', "d * (a / b)"),
        ('%s = c.binary %a "&" %b : i64\n%r = c.binary %s "|" %d : i64', "(a & b) | d"),
        ('%s = c.binary %a "+" %b : i64\n%r = c.binary %s "<<" %d : i64', "(a + b) << d"),
        ('%k = c.constant -3 : i64\n%r = c.binary %a "-" %k : i64', "a - -3"),
        ('%c = c.compare %a "<" %b : i64\n%r = c.select %c, %a, %d : i64', "a < b ? a : d"),
        (
            '%c = c.compare %a "<" %b : i64\n%e = c.compare %b "<" %d : i64\n%g = c.binary %c "&&" %e : i1\n'
            "%n = c.not %g\n%r = c.select %n, %a, %b : i64",
            "!(a < b && b < d) ? a : b",
        ),
        (
            '%c = c.compare %a "<" %b : i64\n%s = c.select %c, %a, %b : i64\n%r = c.binary %s "+" %d : i64',
            "(a < b ? a : b) + d",
        ),
    ],
)
def test_parentheses(body: str, expected: str) -> None:
    assert returned(body) == expected


def test_minus_signs_do_not_meet() -> None:
    assert returned("%s = c.negate %a : f32\n%r = c.negate %s : f32", "f32") == "-(-a)"
    assert returned("%k = c.constant -1.0 : f32\n%r = c.negate %k : f32", "f32") == "-(-1.0f)"


def test_narrow_results_are_cast_back() -> None:
    body = '%c = c.compare %a "<" %b : i8\n%r = c.select %c, %a, %d : i8'
    assert returned(body, "i8") == "(int8_t)(a < b ? a : d)"


def test_values_used_twice_are_variables_and_names_are_free_again() -> None:
    text = source("""
    c.func static @f(%p: !c.ptr<f32>, %n: i64) {
      c.for %i to %n {
        %v = c.load %p[%i] : !c.ptr<f32>
        %w = c.binary %v "*" %v : f32
        c.store %w, %p[%i] : !c.ptr<f32>
      }
      c.for %i to %n {
        c.for %j to %n {
          %int = c.load %p[%i] : !c.ptr<f32>
          c.store %int, %p[%j] : !c.ptr<f32>
        }
      }
    }
    """)
    assert text.count("for (int64_t i = 0; i < n; ++i) {") == 2
    assert "const float v = p[i];\n    p[i] = v * v;" in text
    assert "const float int_ = p[i];" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c.func static @f() { c.call @system() : () -> () }", "calls 'system', which neither the module nor"),
        ("c.func static @f() { c.call @tw_floordiv_f32() : () -> () }", "calls 'tw_floordiv_f32'"),
        ("c.func static @f() { c.call @expf() {fast} : () -> () }", "has the attribute 'fast', which C has no"),
        ("c.func static @f() { %a = arith.constant 1 : i32 }", "'arith.constant' op is no operation of C"),
        ("func.func @f() { func.return }", "'func.func' op has no meaning at the top of a C file"),
        ("c.table @w : 4 x f32 weight 0", "is weight 0, which the module lacks"),
        ("c.func static @f(%x: f16) { }", "has a value of type f16, which is no type of C"),
        ('c.func @f(%x: f32) attributes {parameters = ["a b"]} { }', "has parameters a b, which are no names of C"),
        (
            "c.func static @f() -> f32 {\n%w = c.address_of @w : !c.const_ptr<f32>\n%i = c.constant 0 : i64\n"
            "%v = c.load %w[%i] : !c.const_ptr<f32>\nc.return %v : f32 }",
            "names @w, which the module lacks",
        ),
    ],
)
def test_what_is_not_known_is_refused(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        source(text)
    assert message in str(caught.value)


def test_literals() -> None:
    assert float_literal(0.1, f64).text == "0x1.999999999999ap-4"
    assert float_literal(1.5, f32).text == "1.5f" and float_literal(-0.0, f64).text == "-0.0"
    assert float_literal(2.0**100, f32).text == "0x1p+100f" and float_literal(math.inf, f32).text == "INFINITY"
    for value in (1e-45, 1 / 3, 123456789.125, 5e-324, -1.7e308):
        assert float.fromhex(float_literal(value, f64).text) == value
    assert integer_literal(-(2**63), i64).text == "INT64_MIN" and integer_literal(-128, i8).text == "INT8_MIN"
    assert integer_literal(70000, i32).text == "INT32_C(70000)" and integer_literal(7, UI32).text == "7u"
    assert integer_literal(2**32 - 1, UI32).text == "UINT32_C(4294967295)" and integer_literal(1, i1).text == "true"


def test_names_and_comments_from_any_text() -> None:
    assert identifier("input.1:0") == "input_1_0" and identifier("0") == "v_0" and identifier("for") == "for_"
    assert identifier("exp") == "exp_" and identifier("") == "value" and identifier("größe") == "gr_e"
    names = Names()
    assert [names.fresh("x/y") for _ in range(3)] == ["x_y", "x_y_2", "x_y_3"]
    assert "*/" not in comment("a */ b") and "??" not in comment("what???/")
    assert string_literal('a"b\\?ü\n') == '"a\\"b\\\\\\?\\303\\274\\012"'


def test_helpers_exist_for_the_types_that_have_them() -> None:
    assert helper("tw_div_u8") is not None and helper("tw_f64_to_u16") is not None
    for name in ("tw_div_f32", "tw_f32_to_i1", "tw_shl_i32", "tw_nothing_i32", "tw_max_i7", "tw_bits_i3_f32", "exp"):
        assert helper(name) is None, name
