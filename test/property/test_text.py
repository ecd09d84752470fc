"""The text format on random attributes, types, modules and damaged text.

Printing and parsing are inverse in both forms, and no text makes the parser raise anything but a diagnostic.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, llvm, memref, scf, test, vector
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    StridedLayoutAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    TupleType,
    UnitAttr,
    VectorType,
)
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tilewright.core import context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.text import parse_attribute, parse_module, print_attribute, print_module

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def make_context() -> Context:
    """The dialects in use."""
    context = Context()
    for dialect in (
        *(builtin.Builtin, func.Func, arith.Arith, math_dialect.Math, scf.Scf, cf.Cf),
        *(memref.MemRef, vector.Vector, llvm.LLVM, test.Test),
    ):
        context.load_dialect(dialect)
    return context


CONTEXT = make_context()
OWN_CONTEXT = context.make_context()

# ---- attributes and types ----

TEXT = st.text(max_size=8).filter(lambda s: s.isprintable() or True).filter(lambda s: _encodes(s))
KEYS = st.one_of(st.sampled_from(["a", "value", "tensor", "i32", "x.y", "loc", "a b", "é", "unit"]), TEXT.filter(bool))
FLOATS = st.sampled_from([builtin.f32, builtin.f64, builtin.f16, builtin.bf16, builtin.f8E4M3FN, builtin.f8E5M2])
INTEGERS = st.builds(IntegerType, st.sampled_from([1, 3, 8, 16, 32, 64, 128]), st.sampled_from(list(Signedness)))
SCALARS = st.one_of(FLOATS, INTEGERS, st.just(builtin.IndexType()))
SHAPES = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 16]), max_size=3)
STATIC = st.lists(st.integers(0, 3), max_size=3)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dims(shape: list[int]) -> list[int]:
    return [builtin.DYNAMIC_INDEX if d < 0 else d for d in shape]


def _extend_types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda e, s: TensorType(e, _dims(s)), inner, SHAPES),
        st.builds(lambda e, s: MemRefType(e, _dims(s)), inner, SHAPES),
        st.builds(
            lambda e, s, o: MemRefType(e, [4] * len(s), StridedLayoutAttr(s, o)),
            SCALARS,
            st.lists(st.one_of(st.none(), st.integers(-4, 40)), min_size=1, max_size=3),
            st.one_of(st.none(), st.integers(-4, 4)),
        ),
        st.builds(lambda e: builtin.UnrankedTensorType(e), SCALARS),
        st.builds(lambda ts: TupleType(ArrayAttr(ts)), st.lists(inner, max_size=2)),
        st.builds(FunctionType.from_lists, st.lists(inner, max_size=2), st.lists(inner, max_size=2)),
    )


VECTORS = st.builds(
    lambda e, s: VectorType(e, [d for d, _ in s], ArrayAttr([builtin.BoolAttr.from_bool(x) for _, x in s])),
    SCALARS,
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=3),
)
TYPES = st.recursive(
    st.one_of(SCALARS, VECTORS, st.just(builtin.NoneType()), st.just(llvm.LLVMPointerType())),
    _extend_types,
    max_leaves=4,
)


@st.composite
def numbers(draw: Any) -> Attribute:
    """Integers in range and floats of any bits."""
    type_ = draw(SCALARS)
    if isinstance(type_, IntegerType):
        low, high = type_.value_range()
        return IntegerAttr(draw(st.integers(low, high - 1)), type_)
    if isinstance(type_, builtin.IndexType):
        return IntegerAttr(draw(st.integers(-(2**63), 2**63 - 1)), type_)
    bits = draw(st.binary(min_size=8, max_size=8))
    value = struct.unpack("<d", bits)[0]
    if math.isnan(value):
        value = math.nan
    return FloatAttr(draw(st.one_of(st.just(value), st.floats(width=32), st.floats(-4, 4))), type_)


@st.composite
def dense(draw: Any) -> Attribute:
    """Dense elements of random bytes, splats included."""
    element = draw(
        st.sampled_from([builtin.f32, builtin.f64, builtin.i8, builtin.i32, builtin.i64, builtin.IndexType()])
    )
    shape = draw(STATIC)
    count, size = math.prod(shape), element.compile_time_size
    data = draw(st.binary(min_size=size, max_size=size)) * count
    if draw(st.booleans()):
        data = draw(st.binary(min_size=size * count, max_size=size * count))
    container = draw(st.sampled_from([TensorType, VectorType, MemRefType]))
    return DenseIntOrFPElementsAttr(container(element, shape), builtin.BytesAttr(data))


@st.composite
def affine_maps(draw: Any) -> Attribute:
    """Small affine maps."""
    dims, symbols = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    leaves = st.one_of(
        st.builds(AffineExpr.dimension, st.integers(0, dims - 1)),
        st.builds(AffineExpr.constant, st.integers(-8, 8)),
        *([st.builds(AffineExpr.symbol, st.integers(0, symbols - 1))] if symbols else []),
    )
    constants = st.builds(AffineExpr.constant, st.integers(1, 8))
    exprs = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a * b, inner, constants),
            st.builds(lambda a, b: a // b, inner, constants),
            st.builds(lambda a, b: a % b, inner, constants),
            st.builds(lambda a, b: a.ceil_div(b), inner, constants),
        ),
        max_leaves=4,
    )
    return AffineMapAttr(AffineMap(dims, symbols, tuple(draw(st.lists(exprs, max_size=3)))))


LEAVES = st.one_of(
    numbers(),
    dense(),
    affine_maps(),
    TYPES,
    st.builds(StringAttr, TEXT),
    st.just(UnitAttr()),
    st.builds(SymbolRefAttr, TEXT.filter(bool), st.lists(TEXT.filter(bool), max_size=2)),
    st.builds(
        lambda v: DenseArrayBase.from_list(builtin.i64, v), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)
    ),
    st.builds(lambda v: DenseArrayBase.from_list(builtin.f32, v), st.lists(st.floats(width=32), max_size=4)),
    st.builds(lambda n: builtin.DenseResourceAttr.from_params(n, TensorType(builtin.f32, [4])), TEXT.filter(bool)),
    st.sampled_from([arith.FastMathFlagsAttr("fast"), arith.FastMathFlagsAttr("none")]),
    st.builds(lambda a, b: builtin.OpaqueAttr.from_strings(a, b), TEXT, TEXT),
)
ATTRIBUTES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(ArrayAttr, st.lists(inner, max_size=3)),
        st.builds(DictionaryAttr, st.dictionaries(KEYS, inner, max_size=3)),
    ),
    max_leaves=5,
)


@MANY
@given(ATTRIBUTES)
def test_attribute_round_trip(attr: Attribute) -> None:
    text = print_attribute(attr)
    again = parse_attribute(text, CONTEXT)
    assert again == attr, text
    assert print_attribute(again) == text


# ---- modules ----


@st.composite
def modules(draw: Any) -> ModuleOp:
    """Modules of test operations with regions, blocks and attributes, mixed with arithmetic."""
    return ModuleOp([_draw_op(draw, [], 0) for _ in range(draw(st.integers(0, 3)))])


def _draw_op(draw: Any, values: list[SSAValue], depth: int) -> Operation:
    kind = draw(st.integers(0, 4))
    floats = [v for v in values if v.type == builtin.f32]
    if kind == 0 and floats:
        flags = arith.FastMathFlagsAttr(draw(st.sampled_from(["none", "fast"])))
        made: Operation = arith.AddfOp(draw(st.sampled_from(floats)), draw(st.sampled_from(floats)), flags)
        if draw(st.booleans()):
            made.attributes["note"] = draw(ATTRIBUTES)
    elif kind == 1:
        made = arith.ConstantOp(FloatAttr(draw(st.floats(width=32, allow_nan=False)), builtin.f32))
    else:
        regions = [_draw_region(draw, values, depth + 1) for _ in range(draw(st.integers(0, 2 if depth < 2 else 0)))]
        made = TestOp(
            operands=draw(st.lists(st.sampled_from(values), max_size=3)) if values else [],
            result_types=draw(st.lists(st.one_of(st.just(builtin.f32), TYPES), max_size=3)),
            attributes=draw(st.dictionaries(KEYS, ATTRIBUTES, max_size=2)),
            properties={"prop1": UnitAttr()} if draw(st.booleans()) else {},
            regions=regions,
        )
    for result in made.results:
        result.name_hint = draw(st.sampled_from([None, "a", "x", "value"]))
    values.extend(made.results)
    return made


def _draw_region(draw: Any, values: list[SSAValue], depth: int) -> Region:
    region = Region()
    inner = list(values)
    for _ in range(draw(st.integers(0, 2))):
        block = Block(arg_types=draw(st.lists(TYPES, max_size=2)))
        region.add_block(block)
        inner.extend(block.args)
        block.add_ops([_draw_op(draw, inner, depth) for _ in range(draw(st.integers(0, 3)))])
    return region


@FEW
@given(modules(), st.booleans())
def test_module_round_trip(module: ModuleOp, generic: bool) -> None:
    text = print_module(module, generic=generic)
    again = parse_module(text, context=CONTEXT)
    assert again.is_structurally_equivalent(module), text
    assert print_module(again, generic=generic) == text


@FEW
@given(modules())
def test_both_forms_are_the_same_module(module: ModuleOp) -> None:
    pretty = parse_module(print_module(module), context=CONTEXT)
    generic = parse_module(print_module(module, generic=True), context=CONTEXT)
    assert pretty.is_structurally_equivalent(generic)


# ---- damaged text ----

SAMPLE = """\
#map = affine_map<(d0, d1)[s0] -> (d0 + s0, d1 floordiv 2)>
!t = tensor<4x?xf32>
module @m attributes {a = [1, "x", @f::@g], b = dense<[1.0, 0x7FC00000]> : tensor<2xf32>} {
  func.func private @g(i32 {llvm.x}, f32) -> (i32 {a = 1}, f32)
  func.func @f(%a: i32, %lb: index {tw.n}, %c: i1, %f: f32, %m: memref<?x8xf32, strided<[8, 1]>>) -> i32 {
    %0:2 = "test.op"(%a, %f) ({
    ^bb0(%x: i32):
      "test.termop"(%x)[^bb1] : (i32) -> ()
    ^bb1:
      "test.termop"() : () -> ()
    }) {map = #map, t = !t} : (i32, f32) -> (i32, f32)
    %1 = arith.addi %a, %0#0 overflow<nsw> : i32 // a comment
    %2 = arith.cmpf olt, %f, %0#1 fastmath<nnan,contract> : f32
    %3 = arith.constant dense<-1> : vector<4xi8>
    scf.for %i = %lb to %lb step %lb {
      %v = memref.load %m[%i, %i] : memref<?x8xf32, strided<[8, 1]>>
      scf.if %2 {
        memref.store %v, %m[%i, %i] : memref<?x8xf32, strided<[8, 1]>>
      } else {
        %q = math.exp %v : f32
      }
    }
    %p = llvm.mlir.zero : !llvm.struct<(i32, ptr)>
    cf.cond_br %c, ^bb1(%a : i32), ^bb2
  ^bb1(%b: i32):
    func.return %b : i32
  ^bb2:
    func.return %1 : i32 loc("f.py":1:2)
  }
}
"""
TOKENS = [
    *sorted(set(SAMPLE.split())),
    *(
        "",
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "=",
        "->",
        '"',
        "%",
        "@",
        "#",
        "!",
        "^",
        "-",
        "?",
        "é",
        "\\",
    ),
    *(
        "0x",
        "dense<",
        "tensor<",
        "9999999999999999999",
        "1.0e999",
        "loc(",
        "affine_map<",
        "\0",
        "x",
        "%0",
        "%a",
        "i0",
        "f9",
    ),
]
FILES = sorted(p for p in Path(__file__).parents[1].rglob("*.ir") if "inputs" not in p.parts)
"""Every lit test: all dialects of ours in pretty form."""


def parses_or_reports(text: str, context: Context = CONTEXT) -> None:
    """Anything but a diagnostic escapes, and fails the test."""
    try:
        module = parse_module(text, context=context)
    except DiagnosticError as error:
        assert error.diagnostics and error.diagnostics[0].position is not None
        assert "\n" not in error.diagnostics[0].message
    else:
        print_module(module)


def test_sample_is_valid() -> None:
    module = parse_module(SAMPLE, context=CONTEXT)
    module.verify()
    for generic in (False, True):
        text = print_module(module, generic=generic)
        again = parse_module(text, context=CONTEXT)
        assert again.is_structurally_equivalent(module)
        assert print_module(again, generic=generic) == text


@pytest.mark.parametrize("step", range(7))
def test_truncated_anywhere(step: int) -> None:
    for end in range(step, len(SAMPLE), 7):
        parses_or_reports(SAMPLE[:end])


@MANY
@given(
    st.lists(st.tuples(st.integers(0, len(SAMPLE)), st.integers(0, 6), st.sampled_from(TOKENS)), min_size=1, max_size=3)
)
@example([(0, 0, "\0")])
def test_random_edits(edits: list[tuple[int, int, str]]) -> None:
    text = SAMPLE
    for position, length, token in edits:
        text = text[:position] + token + text[position + length :]
    parses_or_reports(text)


@MANY
@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), st.text(max_size=3)), max_size=3),
    st.floats(0, 1),
)
def test_damaged_files(path: Path, edits: list[tuple[float, int, str]], end: float) -> None:
    text = path.read_text()
    for where, length, token in edits:
        position = int(where * len(text))
        text = text[:position] + token + text[position + length :]
    parses_or_reports(text, OWN_CONTEXT)
    parses_or_reports(text[: int(end * len(text))], OWN_CONTEXT)


@MANY
@given(st.lists(st.sampled_from(TOKENS), max_size=12))
def test_random_tokens(tokens: list[str]) -> None:
    parses_or_reports(" ".join(tokens))


@FEW
@given(st.text(max_size=30))
def test_random_text(text: str) -> None:
    parses_or_reports(text)
