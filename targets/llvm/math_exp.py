"""exp and its relatives over f32: exp, exp2, expm1, tanh, sigmoid, erf.

Each function takes a `FunctionText` and its arguments and returns the result. The errors named are the largest that a
run over every float (one argument) or many pairs has found, in units of the last place against a float64 reference;
`test_math.py` holds them. Polynomials were fitted for least largest relative error on the interval named.
"""

from __future__ import annotations

from math import inf, log

from .math_text import FunctionText, Num

LOG2_E = 1 / log(2)
LN2_HIGH = 0.693359375
LN2_LOW = log(2) - LN2_HIGH

_ROUND = 12582912.0
"""1.5 * 2**23: adding it to a float of small magnitude rounds it to an integer, whose value is in the low bits."""

_EXP = (0.5, 0.16666665673, 0.041666287929, 0.0083335004747, 0.0013945199316, 0.00019789813086)
"""(exp(r) - 1 - r) / r**2 for |r| <= log(2) / 2."""

_TANH = (-0.33333331346, 0.133331999183, -0.053945995867, 0.021696349606, -0.0081663001329, 0.0021325224079)
"""(tanh(x) - x) / x**3 in x**2 for |x| <= 0.625."""

_ERF = (0.128379166126, -0.376126348972, 0.112836942077, -0.026859270409, 0.0052006342448, -0.00081374373985)
_ERF_LAST = 8.345225069e-05
"""(erf(x) - x) / x in x**2 for |x| <= 0.93."""

_ERFC = (
    -0.12854489684,
    -0.63565653563,
    -0.10520291328,
    0.022612009197,
    -0.0028923004866,
    3.6064597225e-05,
    4.8202266044e-05,
    -5.1508836805e-06,
)
"""(log(1 - erf(t)) + t) / t in t for 0.9 <= t <= 4.05."""


def exp(to: FunctionText, x: Num) -> Num:
    """e**x; error <= 1.1 ulp, denormal results included. Below -104 it is 0, above 88.73 infinity."""
    x = _clamp(to, x, -104.0, 89.0)
    n, integer = _nearest(to, x, LOG2_E)
    return _scaled_exp(to, _reduced(to, x, n), integer)


def exp2(to: FunctionText, x: Num) -> Num:
    """2**x; error <= 1.1 ulp."""
    x = _clamp(to, x, -151.0, 129.0)
    n, integer = _nearest(to, x, 1.0)
    return _scaled_exp(to, (x - n) * log(2), integer)


def expm1(to: FunctionText, x: Num) -> Num:
    """e**x - 1, exact to the last places near 0; error <= 1.5 ulp.

    With e**x = 2**n (1 + m): 2 ((2**(n-1)) m + (2**(n-1) - 0.5)); halving keeps 2**128 representable.
    """
    clamped = _clamp(to, x, -30.0, 89.0)
    n, integer = _nearest(to, clamped, LOG2_E)
    r = _reduced(to, clamped, n)
    m = to.fma(r * r, to.polynomial(r, _EXP), r)
    half = to.power_of_two(integer - 1)
    result = to.fma(half, m, half - 0.5) * 2.0
    return to.select(to.abs(x) < 1e-8, x, result)


def tanh(to: FunctionText, x: Num) -> Num:
    """Hyperbolic tangent; error <= 1.5 ulp.

    x + x**3 P(x**2) up to 0.625, else 1 - 2 / (e**(2|x|) + 1) with the sign of x.
    """
    a = to.abs(x)
    z = x * x
    small = to.fma(x * z, to.polynomial(z, _TANH), x)
    large = 1.0 - 2.0 / (exp(to, a + a) + 1.0)
    return to.copysign(to.select(a < 0.625, small, large), x)


def sigmoid(to: FunctionText, x: Num) -> Num:
    """1 / (1 + e**-x) without overflow: with e = e**-|x|, 1 / (1 + e) or e / (1 + e); error <= 2.5 ulp."""
    e = exp(to, -to.abs(x))
    return to.select(x >= 0.0, to.constant("float", 1.0), e) / (e + 1.0)


def erf(to: FunctionText, x: Num) -> Num:
    """The error function; error <= 1.1 ulp.

    x + x P(x**2) up to 0.93, else 1 - e**(t Q(t) - t) for t = min(|x|, 4.05) with the sign of x.
    """
    t = to.abs(x)
    z = x * x
    small = to.fma(x, to.polynomial(z, (*_ERF, _ERF_LAST)), x)
    t = _clamp(to, t, -inf, 4.05)
    large = 1.0 - exp(to, to.fma(t, to.polynomial(t, _ERFC), -t))
    return to.select(to.abs(x) < 0.93, small, to.copysign(large, x))


def _clamp(to: FunctionText, x: Num, low: float, high: float) -> Num:
    """x within the bounds; NaN stays."""
    if low != -inf:
        x = to.select(x < low, low, x)
    return to.select(x > high, high, x)


def _nearest(to: FunctionText, x: Num, factor: float) -> tuple[Num, Num]:
    """The integer nearest to factor * x, as a float and as an integer (any integer if x is NaN)."""
    shifted = to.fma(x, factor, _ROUND)
    return shifted - _ROUND, to.bits(shifted) - 0x4B400000


def _reduced(to: FunctionText, x: Num, n: Num) -> Num:
    """x - n log(2), with log(2) in two parts."""
    return to.fma(n, -LN2_LOW, to.fma(n, -LN2_HIGH, x))


def _scaled_exp(to: FunctionText, r: Num, n: Num) -> Num:
    """2**n e**r for |r| <= log(2) / 2, scaled in two steps so that denormal and infinite results come out right."""
    value = to.fma(r * r, to.polynomial(r, _EXP), r) + 1.0
    first = n >> 1
    return value * to.power_of_two(first) * to.power_of_two(n - first)
