"""Placing buffers: nothing overlaps in time and place, for whatever sizes, lifetimes and symbol values."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.symbolic import SymExpr, const, sym
from tilewright.passes.vm.arena import ALIGNMENT, Interval, SymbolicInterval, place, place_symbolic

LIFETIMES = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda t: (min(t), max(t)))
N, M = sym("n"), sym("m")


@st.composite
def sizes(draw: st.DrawFn) -> SymExpr:
    factor = draw(st.sampled_from([4, 40, 64, 256, 3136]))
    return draw(st.sampled_from([const(1), N, N, M, N * M, N + 1, N * 2 + M])) * factor


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), LIFETIMES), max_size=14))
def test_static_buffers_do_not_overlap(items: list[tuple[int, tuple[int, int]]]) -> None:
    buffers = [Interval(size, *life) for size, life in items]
    offsets, total = place(buffers)
    check(buffers, offsets, total)
    assert total <= sum(-(-buffer.size // ALIGNMENT) * ALIGNMENT for buffer in buffers)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(sizes(), LIFETIMES), max_size=10), st.integers(0, 70), st.integers(1, 9))
def test_symbolic_buffers_do_not_overlap(items: list[tuple[SymExpr, tuple[int, int]]], n: int, m: int) -> None:
    values = {"n": n, "m": m}
    buffers = [SymbolicInterval(size, *life) for size, life in items]
    offsets, total = place_symbolic(buffers)
    check(
        [Interval(buffer.size.evaluate(values), buffer.start, buffer.end) for buffer in buffers],
        [offset.evaluate(values) for offset in offsets],
        total.evaluate(values),
    )


def check(buffers: list[Interval], offsets: list[int], total: int) -> None:
    for i, (a, at) in enumerate(zip(buffers, offsets)):
        assert at % ALIGNMENT == 0 and at >= 0 and at + a.size <= total
        for b, bt in list(zip(buffers, offsets))[:i]:
            assert not a.meets(b) or at + a.size <= bt or bt + b.size <= at


def test_a_chain_of_equal_buffers_needs_two_places() -> None:
    chain = [SymbolicInterval(N * 3136, k, k + 1) for k in range(9)]
    offsets, total = place_symbolic(chain)
    assert total == N * 6272 and set(offsets) == {const(0), N * 3136}


def test_small_symbolic_buffers_share_whole_slots() -> None:
    _, total = place_symbolic([SymbolicInterval(N * 40, k, k) for k in range(5)])
    assert total.evaluate({"n": 3}) == 128
