"""Symbolic integers against evaluation: canonical form, simplifier and printer must keep the value."""

from __future__ import annotations

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.symbolic import (
    SymExpr,
    bounds,
    ceildiv,
    const,
    floordiv,
    mod,
    parse_expr,
    proves_eq,
    proves_le,
    proves_lt,
    simplify,
    sym,
    sym_max,
    sym_min,
)

NAMES = ("a", "b", "c")
RANGES = {"a": (0, 15), "b": (0, 3), "c": (-5, 20)}
POINTS = st.fixed_dictionaries({n: st.integers(lo, hi) for n, (lo, hi) in RANGES.items()})


class Direct:
    """An expression as nested tuples with the meaning spelled out: the reference."""

    def __init__(self, build: SymExpr, value):
        self.build, self.value = build, value


def leaf() -> st.SearchStrategy[Direct]:
    symbols = st.sampled_from(NAMES).map(lambda n: Direct(sym(n), lambda env: env[n]))
    return symbols | st.integers(-20, 20).map(lambda k: Direct(const(k), lambda env: k))


def extend(children: st.SearchStrategy[Direct]) -> st.SearchStrategy[Direct]:
    def binary(kind: str, x: Direct, y: Direct) -> Direct:
        build, meaning = {
            "+": (lambda: x.build + y.build, lambda p, q: p + q),
            "-": (lambda: x.build - y.build, lambda p, q: p - q),
            "*": (lambda: x.build * y.build, lambda p, q: p * q),
            "min": (lambda: sym_min(x.build, y.build), min),
            "max": (lambda: sym_max(x.build, y.build), max),
        }[kind]
        return Direct(build(), lambda env: meaning(x.value(env), y.value(env)))

    def divide(kind: str, x: Direct, d: int) -> Direct:
        function, meaning = {
            "floordiv": (floordiv, lambda p: p // d),
            "ceildiv": (ceildiv, lambda p: -(-p // d)),
            "mod": (mod, lambda p: p % d),
        }[kind]
        return Direct(function(x.build, d), lambda env: meaning(x.value(env)))

    divisors = st.sampled_from([1, 2, 3, 4, 8, 16, -4])
    operators = st.sampled_from(["+", "-", "*", "min", "max", "+"])
    divisions = st.sampled_from(["floordiv", "ceildiv", "mod"])
    return st.builds(binary, operators, children, children) | st.builds(divide, divisions, children, divisors)


EXPRESSIONS = st.recursive(leaf(), extend, max_leaves=10)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, POINTS)
def test_constructors_keep_the_value(expr: Direct, env: dict[str, int]) -> None:
    assert expr.build.evaluate(env) == expr.value(env)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, POINTS)
def test_simplify_and_bounds_are_sound(expr: Direct, env: dict[str, int]) -> None:
    simplified = simplify(expr.build, RANGES)
    assert simplified.evaluate(env) == expr.value(env)
    assert simplify(simplified, RANGES) == simplified
    for subject in (expr.build, simplified):
        low, high = bounds(subject, RANGES)
        assert low is None or low <= expr.value(env)
        assert high is None or expr.value(env) <= high


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_print_parse_is_the_identity(expr: Direct) -> None:
    assert parse_expr(str(expr.build)) == expr.build
    assert pickle.loads(pickle.dumps(expr.build)) == expr.build


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS, POINTS)
def test_substitution(expr: Direct, other: Direct, env: dict[str, int]) -> None:
    replaced = expr.build.subs({"a": other.build})
    assert replaced.evaluate(env) == expr.value({**env, "a": other.value(env)})


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS, POINTS)
def test_equal_objects_have_equal_values_and_hashes(x: Direct, y: Direct, env: dict[str, int]) -> None:
    assert x.build + y.build == y.build + x.build
    assert x.build * y.build == y.build * x.build
    assert (x.build + y.build) * 3 - y.build * 3 == x.build * 3
    assert hash(x.build + y.build) == hash(y.build + x.build)
    if x.build == y.build:
        assert x.value(env) == y.value(env)
        assert hash(x.build) == hash(y.build) and str(x.build) == str(y.build)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, st.sampled_from([2, 3, 4, 8, 16]))
def test_division_and_remainder_recombine(x: Direct, d: int) -> None:
    assert (x.build // d) * d + x.build % d == x.build
    assert (x.build + d) % d == x.build % d


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=4, max_size=4), st.sampled_from([2, 3, 4, 8]), st.integers(1, 5))
def test_nested_divisions_of_linear_terms_meet(coefficients: list[int], d: int, e: int) -> None:
    *scales, constant = coefficients
    x = sum((sym(name) * c for name, c in zip(NAMES, scales)), const(constant))
    assert (x // d) // e == x // (e * d)
    assert x % (e * d) // d == x // d % e
    assert x % (e * d) % d == x % d


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS, POINTS)
def test_proofs_are_sound(x: Direct, y: Direct, env: dict[str, int]) -> None:
    p, q = x.value(env), y.value(env)
    assert not proves_lt(x.build, y.build, RANGES) or p < q
    assert not proves_le(x.build, y.build, RANGES) or p <= q
    assert not proves_eq(x.build, y.build, RANGES) or p == q


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, POINTS)
def test_kind_and_args_rebuild_the_expression(expr: Direct, env: dict[str, int]) -> None:
    def value(e: SymExpr) -> int:
        args = [value(a) for a in e.args]
        if e.kind == "const":
            return e.const_value()
        if e.kind == "sym":
            return env[e.name]
        if e.kind in ("add", "mul"):
            total = 0 if e.kind == "add" else 1
            for a in args:
                total = total + a if e.kind == "add" else total * a
            return total
        if e.kind in ("floordiv", "mod"):
            return args[0] // args[1] if e.kind == "floordiv" else args[0] % args[1]
        return min(args) if e.kind == "min" else max(args)

    assert value(expr.build) == expr.value(env)


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, st.integers(1, 9), POINTS)
def test_symbolic_divisors(x: Direct, n: int, env: dict[str, int]) -> None:
    symbolic = (x.build + sym("n") * 3) // sym("n") + (x.build % sym("n")) * 2
    point = {**env, "n": n}
    expected = (x.value(env) + 3 * n) // n + x.value(env) % n * 2
    assert symbolic.evaluate(point) == expected
    ranges = {**RANGES, "n": (1, 9)}
    assert simplify(symbolic, ranges).evaluate(point) == expected
    assert parse_expr(str(symbolic)) == symbolic
