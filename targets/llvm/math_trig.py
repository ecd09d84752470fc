"""sin, cos and tan over f32. Errors as in `math_exp.py`.

The argument is reduced to [-pi/4, pi/4] in double precision, with pi/2 in two parts. Where any lane is too large for
that, every lane is computed by libm instead, in a function of its own that is not inlined.
"""

from __future__ import annotations

from math import pi

from .math_text import FunctionText, Num

LARGEST = 2.0**22
"""Below this the reduction is exact enough; from there on, libm is called."""

_SIN = (-0.16666667163, 0.0083333291113, -0.00019839256129, 2.7175644846e-06)
"""(sin(r) - r) / r**3 in r**2."""
_COS = (0.041666667908, -0.0013888883404, 2.4799435778e-05, -2.7203302011e-07)
"""(cos(r) - 1 + r**2 / 2) / r**4 in r**2."""

_HALF_PI_HIGH = 1.570796325802803
_HALF_PI_LOW = 9.920935796805404e-10


def sin(to: FunctionText, x: Num) -> Num:
    """Sine; error <= 1.7 ulp."""
    r, quadrant = _reduce(to, x)
    value = to.select((quadrant & 1).equals(0), _sine(to, r), _cosine(to, r))
    return _signed(to, value, quadrant & 2)


def cos(to: FunctionText, x: Num) -> Num:
    """Cosine; error <= 1.7 ulp."""
    r, quadrant = _reduce(to, x)
    value = to.select((quadrant & 1).equals(0), _cosine(to, r), _sine(to, r))
    return _signed(to, value, (quadrant + 1) & 2)


def tan(to: FunctionText, x: Num) -> Num:
    """Tangent; error <= 3.8 ulp: sin / cos, or -cos / sin in odd quadrants."""
    r, quadrant = _reduce(to, x)
    sine, cosine = _sine(to, r), _cosine(to, r)
    even = (quadrant & 1).equals(0)
    return to.select(even, sine, -cosine) / to.select(even, cosine, sine)


def _reduce(to: FunctionText, x: Num) -> tuple[Num, Num]:
    """x - n pi/2 for the nearest n, and n. Products of n with the high part of pi/2 are exact."""
    wide = to.convert("fpext", x, "double")
    shift = 1.5 * 2.0**52
    shifted = to.fma(wide, 2 / pi, shift)
    n = shifted - shift
    r = to.fma(n, -_HALF_PI_LOW, to.fma(n, -_HALF_PI_HIGH, wide))
    return to.convert("fptrunc", r, "float"), to.convert("trunc", to.bits(shifted), "i32")


def _sine(to: FunctionText, r: Num) -> Num:
    z = r * r
    return to.copysign(to.fma(r * z, to.polynomial(z, _SIN), r), r)


def _cosine(to: FunctionText, r: Num) -> Num:
    z = r * r
    return to.fma(z * z, to.polynomial(z, _COS), to.fma(z, -0.5, 1.0))


def _signed(to: FunctionText, value: Num, sign: Num) -> Num:
    """Negate where bit 1 of `sign` is set."""
    return to.from_bits(to.bits(value) ^ (sign << 30))
