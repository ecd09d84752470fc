"""Packing arrays by index maps: the quick way equals the definition, and unpacking gives the array back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.attributes import IndexMapAttr
from tilewright.core.symbolic import SymExpr, sym
from tilewright.interp import packing


def definition(array: np.ndarray, map: IndexMapAttr, shape: tuple[int, ...]) -> np.ndarray:
    packed = np.zeros(shape, array.dtype)
    for index in np.ndindex(*array.shape):
        values = {f"d{dim}": i for dim, i in enumerate(index)}
        packed[tuple(result.evaluate(values) for result in map.results)] = array[index]
    return packed


@st.composite
def blocked_maps(draw: st.DrawFn) -> tuple[tuple[int, ...], IndexMapAttr]:
    """Dimensions split into blocks, once or twice, in any order."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    results: list[SymExpr] = []
    for dim in range(len(shape)):
        index = sym(f"d{dim}")
        inner, outer = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        split = draw(st.integers(0, 2))
        if split == 0:
            results.append(index)
        elif split == 1:
            results += [index // inner, index % inner]
        else:
            results += [index // (inner * outer), index // inner % outer, index % inner]
    return shape, IndexMapAttr(len(shape), draw(st.permutations(results)))


@settings(max_examples=150, deadline=None)
@given(blocked_maps())
def test_packing_equals_the_definition(case: tuple[tuple[int, ...], IndexMapAttr]) -> None:
    shape, map = case
    array = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    physical = tuple(extent.const_value() for extent in map.image_shape(shape))
    packed = packing.pack(array, map, physical)
    np.testing.assert_array_equal(packed, definition(array, map, physical))
    assert packed.flags.c_contiguous and packed.shape == physical
    np.testing.assert_array_equal(packing.unpack(packed, map, shape), array)


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1) -> (d0 * 7 + d1)",
        "(d0, d1) -> (d0 + 1, d1 * 2)",
        "(d0, d1) -> (d1, 4 - d0)",
        "(d0, d1) -> (0, d1, d0)",
    ],
)
def test_other_maps(text: str) -> None:
    map = IndexMapAttr.from_text(text)
    array = np.arange(1, 36, dtype=np.int64).reshape(5, 7)
    shape = tuple(int(1 + max(r.evaluate({"d0": i, "d1": j}) for i in range(5) for j in range(7))) for r in map.results)
    packed = packing.pack(array, map, shape)
    np.testing.assert_array_equal(packed, definition(array, map, shape))
    np.testing.assert_array_equal(packing.unpack(packed, map, (5, 7)), array)


def test_convolution_weights_pack_without_index_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(packing, "_scatter")
    oc, ic, kh, kw = (sym(f"d{i}") for i in range(4))
    map = IndexMapAttr(4, [oc // 16, ic // 16, kh, kw, ic % 16, oc % 16])
    array = np.arange(20 * 32 * 9, dtype=np.float32).reshape(20, 32, 3, 3)
    packed = packing.pack(array, map, (2, 2, 3, 3, 16, 16))
    assert packed[1, 1, 2, 0, 5, 3] == array[19, 21, 2, 0] and not packed[1, 0, 0, 0, 0, 4:].any()


def test_scalars() -> None:
    map = IndexMapAttr(0, [])
    assert packing.pack(np.float32(3.0).reshape(()), map, ()) == 3.0
