"""The tw attributes: text forms, symbolic shapes of types, index maps and their inverses."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.core.attributes import (
    EncodingAttr,
    IndexMapAttr,
    layout_of,
    memref_shape_exprs,
    memref_type,
    physical_shape,
    shape_exprs,
    tensor_type,
)
from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.symbolic import parse_expr, sym
from tilewright.text import parse_attribute, print_attribute

n, m = sym("n"), sym("m")
BLOCKED = IndexMapAttr(4, [parse_expr(e) for e in ("d0", "d1 floordiv 16", "d2", "d3", "d1 mod 16")])

TEXTS = [
    "#tw.expr<n * 4 + 1>",
    "#tw.exprs<[n, (n + 3) floordiv 4]>",
    "#tw.exprs<[]>",
    "#tw.map<(d0, d1) -> (d0 * 16 + d1 floordiv 4, min(d0, n))>",
    "#tw.map<() -> ()>",
    "#tw.enc<>",
    "#tw.enc<dims = [n, m * 2]>",
    "#tw.enc<layout = (d0, d1) -> (d1, d0)>",
    "#tw.dims<[n]>",
    "tensor<?x4xf32, #tw.enc<dims = [n], layout = (d0, d1) -> (d1, d0)>>",
    "memref<?x784xf32, #tw.dims<[n]>>",
]


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip_in_our_grammar_and_in_xdsls(text: str) -> None:
    context = make_context()
    ours = parse_attribute(text, context)
    theirs = Parser(context, text).parse_attribute()
    assert ours == theirs and hash(ours) == hash(theirs)
    assert print_attribute(ours) == text == str(theirs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#tw.enc<dims = [4]>", "4 belongs into the shape"),
        ("#tw.enc<dims = [d0]>", "names an index"),
        ("#tw.map<(d0) -> (d1)>", "names d1"),
        ("#tw.expr<n floordiv 0>", "by zero"),
        ("#tw.exprs<[n, 4 *]>", "expected"),
    ],
)
def test_malformed(text: str, message: str) -> None:
    context = make_context()
    with pytest.raises(DiagnosticError, match=message):
        parse_attribute(text, context)
    with pytest.raises((ParseError, VerifyException), match=message):
        Parser(context, text).parse_attribute()


def test_types_of_symbolic_shapes() -> None:
    type = tensor_type(f32, [n, 784, m * 2])
    assert type == TensorType(f32, [DYNAMIC_INDEX, 784, DYNAMIC_INDEX], EncodingAttr([n, m * 2]))
    assert shape_exprs(type) == (n, 784, m * 2)
    assert tensor_type(f32, [2, 3]) == TensorType(f32, [2, 3])
    assert tensor_type(f32, [2, 3], IndexMapAttr.identity(2)) == TensorType(f32, [2, 3])
    assert memref_shape_exprs(memref_type(f32, [n, 4])) == (n, 4)
    with pytest.raises(VerifyException, match="1 dynamic dimensions, but 0 expressions"):
        shape_exprs(TensorType(f32, [DYNAMIC_INDEX]))


def test_layouts() -> None:
    type = tensor_type(f32, [n, 64, 7, 7], BLOCKED)
    assert layout_of(type) == BLOCKED and shape_exprs(type) == (n, 64, 7, 7)
    assert physical_shape(type) == (n, 4, 7, 7, 16)
    assert BLOCKED.image_shape([1, 40, 7, 7]) == (1, 3, 7, 7, 16)
    inverse = BLOCKED.inverse([n, 64, 7, 7])
    assert inverse.text() == "(d0, d1, d2, d3, d4) -> (d0, d1 * 16 + d4, d2, d3)"
    assert BLOCKED.compose(inverse).simplified({"d4": (0, 15)}).is_identity


def test_maps_without_an_inverse() -> None:
    for text, shape in (("(d0, d1) -> (d0)", [4, 4]), ("(d0, d1) -> (d0 + d1)", [4, 4]), ("(d0) -> (d0 mod 4)", [8])):
        with pytest.raises(ValueError):
            IndexMapAttr.from_text(text).inverse(shape)


def test_composition_applies_the_inner_map_first() -> None:
    outer = IndexMapAttr.from_text("(d0, d1) -> (d0 * 8 + d1)")
    inner = IndexMapAttr.from_text("(d0) -> (d0 floordiv 8, d0 mod 8)")
    assert outer.compose(inner).text() == "(d0) -> (d0)"


@st.composite
def blocked_layouts(draw: st.DrawFn) -> tuple[IndexMapAttr, list[int]]:
    """Permutations of dimensions, some of them split by a divisor."""
    shape = draw(st.lists(st.sampled_from([1, 2, 4, 6]), min_size=1, max_size=3))
    results = []
    for index, extent in enumerate(shape):
        block = draw(st.sampled_from([d for d in (1, 2, 3) if extent % d == 0]))
        d = sym(f"d{index}")
        results += [d] if block == 1 else [d // block, d % block]
    return IndexMapAttr(len(shape), draw(st.permutations(results))), shape


@settings(max_examples=60, deadline=None)
@given(blocked_layouts())
def test_inverse_and_image_of_blocked_layouts(layout: tuple[IndexMapAttr, list[int]]) -> None:
    index_map, shape = layout
    inverse = index_map.inverse(shape)
    image = [e.const_value() for e in index_map.image_shape(shape)]
    seen = set()
    for point in itertools.product(*map(range, shape)):
        physical = [e.const_value() for e in index_map.apply(point)]
        assert all(0 <= p < extent for p, extent in zip(physical, image))
        assert [e.const_value() for e in inverse.apply(physical)] == list(point)
        seen.add(tuple(physical))
    assert len(seen) == len(list(itertools.product(*map(range, image))))
