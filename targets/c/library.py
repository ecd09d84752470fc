"""The functions that generated code may call: those of C's library, and ours, written into the file that uses them.

Ours are families over types: ``tw_floordiv_i64``, ``tw_maximum_f32``, ``tw_f32_to_u8``. ``helper`` gives the text of
one; what no family has is refused. They define what C leaves undefined, as the LLVM target does: a division by zero
gives 0, the smallest integer divided by -1 wraps around, a shift by the width or more gives what shifting bit by bit
gives, a float converts to the nearest integer there is, and NaN to 0.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import Float32Type, IntegerType, Signedness
from xdsl.ir import Attribute

C_TYPES = {
    **{f"i{width}": f"int{width}_t" for width in (8, 16, 32, 64)},
    **{f"u{width}": f"uint{width}_t" for width in (8, 16, 32, 64)},
    "f32": "float",
    "f64": "double",
}
"""The type of each suffix of a helper's name."""

_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf"),
    *("exp", "exp2", "expm1", "fabs", "floor", "fmax", "fmin", "fmod", "log", "log10", "log1p", "log2", "nearbyint"),
    *("pow", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
LIBRARY = {"memcpy": "string.h", **{f"{name}{suffix}": "math.h" for name in _MATH for suffix in ("", "f")}}
"""Functions of C's library, and the header of each."""


def type_suffix(type: Attribute) -> str:
    """How the names of helpers call a type: ``i32``, ``u8``, ``f64``."""
    if isinstance(type, IntegerType):
        return f"{'u' if type.signedness.data is Signedness.UNSIGNED else 'i'}{type.width.data}"
    return "f32" if isinstance(type, Float32Type) else "f64"


def helper(name: str) -> str | None:
    """The text of one of our functions; None for a name that is none."""
    if (match := re.fullmatch(r"tw_bits_([iuf]\d+)_([iuf]\d+)", name)) is not None:
        return _known(match, name) and _bits(name, match[1], match[2])
    if (match := re.fullmatch(r"tw_(f\d+)_to_([iu]\d+)", name)) is not None:
        return _known(match, name) and _conversion(name, match[1], match[2])
    if (match := re.fullmatch(r"tw_([a-z]+)_([iuf]\d+)", name)) is None or match[2] not in C_TYPES:
        return None
    body = _BODIES.get((match[1], match[2][0]))
    return None if body is None else _function(name, match[2], body)


def _known(match: re.Match[str], name: str) -> str | None:
    return name if all(suffix in C_TYPES for suffix in match.groups()) else None


def _function(name: str, suffix: str, body: str) -> str:
    """A function of one type: in the body, ``T`` is the type, ``W`` its width, ``N`` the unsigned type of that width,
    ``U`` the unsigned type that C computes in.
    """
    width = suffix[1:]
    words = {"T": C_TYPES[suffix], "W": width, "U": f"uint{max(32, int(width))}_t", "N": f"uint{width}_t"}
    text = re.sub(r"\b[TUWN]\b", lambda m: words[m[0]], body.strip("\n"))
    arguments = f"{C_TYPES[suffix]} a" + (f", {C_TYPES[suffix]} b" if re.search(r"\bb\b", text) else "")
    return f"static inline {C_TYPES[suffix]} {name}({arguments}) {{\n{text}\n}}\n"


def _bits(name: str, source: str, target: str) -> str:
    return (
        f"static inline {C_TYPES[target]} {name}({C_TYPES[source]} a) {{\n"
        f"  {C_TYPES[target]} result;\n  memcpy(&result, &a, sizeof result);\n  return result;\n}}\n"
    )


def _conversion(name: str, source: str, target: str) -> str:
    """The limits are powers of two, which floats hold exactly."""
    width, mark = int(target[1:]), "f" if source == "f32" else ""
    if target[0] == "i":
        limits = (
            "  if (a != a) {\n    return 0;\n  }\n"
            f"  if (a <= -0x1p{width - 1}{mark}) {{\n    return INT{width}_MIN;\n  }}\n"
            f"  if (a >= 0x1p{width - 1}{mark}) {{\n    return INT{width}_MAX;\n  }}\n"
        )
    else:
        limits = (
            f"  if (!(a > 0)) {{\n    return 0;\n  }}\n"
            f"  if (a >= 0x1p{width}{mark}) {{\n    return UINT{width}_MAX;\n  }}\n"
        )
    return (
        f"static inline {C_TYPES[target]} {name}({C_TYPES[source]} a) {{\n{limits}  return ({C_TYPES[target]})a;\n}}\n"
    )


_UNUSUAL_DIVISOR = """
  if (b == 0) {
    return 0;
  }
  if (b == -1) {
    return (T)(0u - (U)a);
  }
"""

_BODIES: dict[tuple[str, str], str] = {
    ("div", "i"): f"{_UNUSUAL_DIVISOR}  return (T)(a / b);",
    ("div", "u"): "  return (T)(b == 0 ? 0 : a / b);",
    ("rem", "i"): "  return (T)(b == 0 || b == -1 ? 0 : a % b);",
    ("rem", "u"): "  return (T)(b == 0 ? 0 : a % b);",
    ("floordiv", "i"): f"{_UNUSUAL_DIVISOR}  return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));",
    ("ceildiv", "i"): f"{_UNUSUAL_DIVISOR}  return (T)(a / b + (a % b != 0 && (a < 0) == (b < 0)));",
    ("ceildiv", "u"): "  return (T)(b == 0 ? 0 : a / b + (a % b != 0));",
    ("mod", "i"): """
  T rest = (T)(b == 0 || b == -1 ? 0 : a % b);
  return (T)(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
""",
    ("shl", "u"): "  return (T)(b < W ? (U)a << b : 0);",
    ("shr", "u"): "  return (T)(b < W ? a >> b : 0);",
    ("shr", "i"): """
  N count = (N)((N)b < W ? (N)b : W - 1);
  return (T)(a < 0 ? ~(~a >> count) : a >> count);
""",
    **{("max", kind): "  return a > b ? a : b;" for kind in "iu"},
    **{("min", kind): "  return a < b ? a : b;" for kind in "iu"},
    ("maximum", "f"): "  return a > b || a != a ? a : b;",
    ("minimum", "f"): "  return a < b || a != a ? a : b;",
    ("abs", "i"): "  return a < 0 ? (T)(0u - (U)a) : a;",
    ("pow", "i"): """
  U base = (U)a;
  U exponent = (U)b;
  U result = 1;
  if (b < 0) {
    if (a == -1) {
      return (b & 1) != 0 ? -1 : 1;
    }
    return a == 1;
  }
  while (exponent != 0) {
    if ((exponent & 1) != 0) {
      result *= base;
    }
    base *= base;
    exponent >>= 1;
  }
  return (T)result;
""",
}
"""The body of each family by the kind of its type."""
