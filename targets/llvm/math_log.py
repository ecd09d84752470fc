"""Logarithms and powers over f32: log, log2, log10, log1p, pow. Errors as in `math_exp.py`."""

from __future__ import annotations

from math import factorial, inf, log, nan

from .math_exp import LN2_HIGH, LN2_LOW
from .math_text import FunctionText, Num

_LOG = (
    0.33333313465,
    -0.25000008941,
    0.20002119243,
    -0.16667996347,
    0.14219550788,
    -0.12405591458,
    0.11888174713,
    -0.11675640941,
    0.067466013133,
)
"""(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2)."""

_SQRT_HALF_BITS = 0x3F3504F3
_SMALLEST_NORMAL = 2.0**-126


def log_(to: FunctionText, x: Num) -> Num:
    """Natural logarithm; error <= 0.9 ulp. log(0) = -inf, NaN below."""
    f, e = _split(to, x)
    high, low = _log1p_parts(to, f)
    result = high + to.fma(e, LN2_LOW, low)
    return _specials(to, x, to.fma(e, LN2_HIGH, result))


def log2(to: FunctionText, x: Num) -> Num:
    """Logarithm to base 2; error <= 1.0 ulp."""
    return _scaled_log(to, x, 1 / log(2), 1.0, 0.0)


def log10(to: FunctionText, x: Num) -> Num:
    """Logarithm to base 10; error <= 1.0 ulp."""
    high = 0.30078125
    return _scaled_log(to, x, 1 / log(10), high, log(2) / log(10) - high)


def log1p(to: FunctionText, x: Num) -> Num:
    """log(1 + x), exact to the last places near 0; error <= 1.5 ulp.

    log(u) + (x - (u - 1)) / u for the rounded sum u = 1 + x.
    """
    u = x + 1.0
    correction = (x - (u - 1.0)) / u
    plain = log_(to, u)
    ordinary = (u > 0.0) & (u < inf)
    return to.copysign(to.select(ordinary, plain + correction, plain), x)


def pow_(to: FunctionText, x: Num, y: Num) -> Num:
    """x**y in double precision inside; error <= 0.51 ulp. Special cases as in IEEE 754 and NumPy."""
    magnitude = to.abs(x)
    wide = to.convert("fpext", magnitude, "double")
    exponent = to.convert("fpext", y, "double")
    product = _log2_double(to, wide) * exponent
    result = to.convert("fptrunc", _exp2_double(to, product), "float")
    whole = to.intrinsic("trunc", y).equals(y)
    half = y * 0.5
    odd = whole & (to.intrinsic("trunc", half).equals(half) ^ to.constant("i1", 1))
    negative = to.bits(x) < 0
    result = to.select(negative & odd, -result, result)
    undefined = (x < 0.0) & (whole ^ to.constant("i1", 1)) & (magnitude < inf)
    result = to.select(undefined, nan, result)
    one = x.equals(1.0) | y.equals(0.0) | (x.equals(-1.0) & to.abs(y).equals(inf))
    return to.select(one, 1.0, result)


def _split(to: FunctionText, x: Num) -> tuple[Num, Num]:
    """x = (1 + f) 2**e with sqrt(1/2) <= 1 + f < sqrt(2), for positive finite x, denormals included."""
    tiny = x < _SMALLEST_NORMAL
    x = to.select(tiny, x * 2.0**23, x)
    bits = to.bits(x)
    shifted = bits - _SQRT_HALF_BITS
    exponent = shifted >> 23
    mantissa = to.from_bits(bits - (exponent << 23))
    e = to.convert("sitofp", exponent, "float") - to.select(tiny, to.constant("float", 23.0), 0.0)
    return mantissa - 1.0, e


def _log1p_parts(to: FunctionText, f: Num) -> tuple[Num, Num]:
    """log(1 + f) = f + (f**3 P(f) - f**2 / 2)."""
    z = f * f
    return f, to.fma(f * z, to.polynomial(f, _LOG), z * -0.5)


def _scaled_log(to: FunctionText, x: Num, scale: float, unit_high: float, unit_low: float) -> Num:
    """log(x) * scale, where 2**e counts e * (unit_high + unit_low); the product is formed in two parts."""
    f, e = _split(to, x)
    high, low = _log1p_parts(to, f)
    total = high + low
    rest = (high - total) + low
    top = to.from_bits(to.bits(total) & -4096)
    rest = (total - top) + rest
    scale_high = 1.4423828125 if scale > 1 else 0.43408203125
    scale_low = scale - scale_high
    low_sum = to.fma(rest, scale, top * scale_low)
    if unit_low:
        low_sum = to.fma(e, unit_low, low_sum)
    return _specials(to, x, to.fma(e, unit_high, to.fma(top, scale_high, low_sum)))


def _specials(to: FunctionText, x: Num, result: Num) -> Num:
    result = to.select(x < inf, result, x)
    result = to.select(x.equals(0.0), -inf, result)
    return to.select(x < 0.0, nan, result)


def _log2_double(to: FunctionText, x: Num) -> Num:
    """log2 of a non-negative double that was a float; relative error about 1e-12.

    With s = f / (2 + f): log(1 + f) = 2 s (1 + s**2/3 + s**4/5 + ...).
    """
    bits = to.bits(x)
    shifted = bits - 0x3FE6A09E667F3BCD
    exponent = shifted >> 52
    f = to.from_bits(bits - (exponent << 52)) - 1.0
    s = f / (f + 2.0)
    series = to.polynomial(s * s, tuple(1.0 / (2 * k + 1) for k in range(9)))
    result = to.fma(s * series, 2 / log(2), to.convert("sitofp", exponent, "double"))
    result = to.select(x < inf, result, x)
    return to.select(x.equals(0.0), -inf, result)


def _exp2_double(to: FunctionText, x: Num) -> Num:
    """2**x in double, clamped to what a float can hold; relative error about 1e-12."""
    x = to.select(x < -200.0, -200.0, x)
    x = to.select(x > 200.0, 200.0, x)
    shift = 1.5 * 2.0**52
    shifted = x + shift
    fraction = x - (shifted - shift)
    n = to.bits(shifted) - 0x4338000000000000
    series = to.polynomial(fraction, tuple(log(2) ** k / factorial(k) for k in range(11)))
    return series * to.from_bits((n + 1023) << 52)
