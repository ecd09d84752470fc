"""Symbolic integers: the identities that shapes and schedules lean on, the text form, and messages."""

from __future__ import annotations

import time

import pytest

from tilewright.core.symbolic import (
    bounds,
    ceildiv,
    const,
    parse_expr,
    proves_eq,
    proves_lt,
    simplify,
    sym,
    sym_min,
)

a, b, n, m = sym("a"), sym("b"), sym("n"), sym("m")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("16 * d0 + d1 floordiv 4", "d0 * 16 + d1 floordiv 4"),
        ("4 * n + 1", "n * 4 + 1"),
        ("n - 1 + 1", "n"),
        ("(n + 4) floordiv 4", "n floordiv 4 + 1"),
        ("n ceildiv 4", "(n + 3) floordiv 4"),
        ("(2 * n + 3) floordiv 4", "(n + 1) floordiv 2"),
        ("n mod 4", "n mod 4"),
        ("5 * n mod 4", "n * 5 mod 4"),
        ("(x floordiv 4) mod 4", "x floordiv 4 mod 4"),
        ("x mod 16 floordiv 4", "x floordiv 4 mod 4"),
        ("x - 4 * (x floordiv 4)", "x mod 4"),
        ("x mod 16 mod 4", "x mod 4"),
        ("(x floordiv 4) * 4 + x mod 4", "x"),
        ("min(n, 3, min(m, n + 1))", "min(m, n, 3)"),
        ("-n - 3", "-n - 3"),
        ("(a + b) * (a - b)", "a * a - b * b"),
        ("n * m floordiv n", "m"),
        ("(m mod n) * 2 + k", "k + m mod n * 2"),
        ("a * (b floordiv 4)", "a * (b floordiv 4)"),
        ("n floordiv (m + 1)", "n floordiv (m + 1)"),
        ("n floordiv (m floordiv 2)", "n floordiv (m floordiv 2)"),
        ("d10 + d2", "d2 + d10"),
        ("7 mod -4", "-1"),
    ],
)
def test_canonical_text(text: str, printed: str) -> None:
    assert str(parse_expr(text)) == printed
    assert parse_expr(printed) == parse_expr(text)


@pytest.mark.parametrize(
    ("text", "simplified"),
    [
        ("(16 * a + b) floordiv 16", "a"),
        ("(16 * a + b) mod 16", "b"),
        ("(16 * a + b) floordiv 64", "a floordiv 4"),
        ("(16 * a + b) mod 64", "b + a mod 4 * 16"),
        ("min(b, 15)", "b"),
        ("max(b, 15)", "15"),
        ("min(b, 7)", "min(b, 7)"),
        ("(b + 16) floordiv 16", "1"),
        ("one * 4", "4"),
        ("(n * a + c) floordiv n", "a"),
    ],
)
def test_simplify_with_ranges(text: str, simplified: str) -> None:
    ranges = {"a": (0, 99), "b": (0, 15), "one": (1, 1), "n": (8, None), "c": (0, 7)}
    assert str(simplify(parse_expr(text), ranges)) == simplified


def test_linear_view() -> None:
    terms, constant = (a * 16 + b % 4 + 7).as_linear()
    assert terms == {a: 16, b % 4: 1} and constant == 7
    assert (a * 16 + b % 4).coefficient("a") == 16
    assert (a * 16 + b % 4).coefficient("b") is None
    assert (a * 16).coefficient("b") == 0


def test_constants_behave_like_integers() -> None:
    assert const(3) == 3 and hash(const(3)) == hash(3)
    assert (n - n).is_const() and (n - n + 4).const_value() == 4
    with pytest.raises(ValueError, match="'n' is not a constant"):
        n.const_value()


def test_bounds_see_through_correlated_terms() -> None:
    ranges = {"a": (0, 63), "n": (1, None)}
    assert bounds(a - a // 4 * 4, ranges) == (0, 3)
    assert bounds(n - 1, ranges) == (0, None)
    assert proves_lt(a, a + n, ranges)
    assert proves_eq(sym_min(a, a + n), a, ranges)
    assert not proves_lt(n, a, ranges)


def test_bounds_of_powers() -> None:
    ranges = {"a": (-5, 3)}
    assert bounds(a * a, ranges) == (0, 25)
    low, high = bounds(a * a * a * a, ranges)
    assert low == 0 and high is not None and high >= 625
    assert bounds(a * a, {}) == (0, None)


def test_format_renames_in_canonical_order() -> None:
    assert (a * 4 + b // 2).format({"a": "%i", "b": "%j"}) == "%i * 4 + %j floordiv 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n +", "expected an expression, found the end"),
        ("(n", r"expected '\)', found the end"),
        ("n n", "column 3: expected the end, found 'n'"),
        ("n floordiv 0", "division by zero"),
        ("mod", "expected an expression, found 'mod'"),
        ("n ? m", r"column 3: unexpected '\?'"),
        ("(" * 300, "nested too deeply"),
    ],
)
def test_parse_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_expr(text)


def test_names_are_checked() -> None:
    for name in ("", "1n", "floordiv", "a b", "%x"):
        with pytest.raises(ValueError, match="cannot name a symbol"):
            sym(name)


def test_hot_path_speed() -> None:
    """Schedules simplify tens of thousands of expressions; a generous bound catches a change of order."""
    ranges = {"i": (0, 63), "j": (0, 15), "k": (0, 7)}
    i, j, k = sym("i"), sym("j"), sym("k")
    start = time.process_time()
    for step in range(2000):
        simplify(((i * 16 + j) * 8 + k + step % 3 * 128) // 128 + (i * 128 + k) % 128 + ceildiv(j, 4), ranges)
    assert time.process_time() - start < 1.5
