"""Vector math for emitted code: which function exists for which type, and its definition.

`math_function` gives, for a name, an element type and a number of lanes, the LLVM IR of a function that the emitter
adds to the module and calls; LLVM inlines it. For f32 the common functions are own polynomials over vectors
(`math_exp.py`, `math_log.py`, `math_trig.py`, each with its error); half and bfloat are computed as f32. Everything
else, and f64, calls libm lane by lane.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from . import math_exp, math_log, math_trig
from .math_text import FunctionText, MathFunction, Num


class UnknownFunction(Exception):
    """There is no math function of this name, type or number of arguments."""


UNARY_F32: dict[str, Callable[[FunctionText, Num], Num]] = {
    "exp": math_exp.exp,
    "exp2": math_exp.exp2,
    "expm1": math_exp.expm1,
    "tanh": math_exp.tanh,
    "sigmoid": math_exp.sigmoid,
    "erf": math_exp.erf,
    "log": math_log.log_,
    "log2": math_log.log2,
    "log10": math_log.log10,
    "log1p": math_log.log1p,
    "sin": math_trig.sin,
    "cos": math_trig.cos,
    "tan": math_trig.tan,
}
BINARY_F32: dict[str, Callable[[FunctionText, Num, Num], Num]] = {"pow": math_log.pow_}

LIBM = {
    1: [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "sin",
        "sinh",
        "tan",
        "tanh",
        "tgamma",
    ],
    2: ["atan2", "fmod", "hypot", "pow", "remainder"],
}
"""Functions of libm by their number of arguments."""

_TYPE = re.compile(r"(?:v(\d+))?(f32|f64|f16|bf16)")
_WORDS = {"f32": "float", "f64": "double", "f16": "half", "bf16": "bfloat"}


@cache
def math_function(name: str, type: str, arity: int) -> MathFunction:
    """The function `name` over a type in LLVM's mangled spelling: `f32`, `v16f32`, `v8f64`."""
    match = _TYPE.fullmatch(type)
    if match is None:
        raise UnknownFunction(f"has no math function over {type}")
    count, element = int(match[1] or 1), match[2]
    if element in ("f16", "bf16"):
        return _through_f32(name, count, element, arity)
    if element == "f32" and arity == 1 and name in UNARY_F32:
        return _own(name, count)
    if element == "f32" and arity == 2 and name in BINARY_F32:
        return _own_binary(name, count)
    if name == "sigmoid" and arity == 1:
        return _sigmoid_f64(count)
    if name in LIBM.get(arity, ()):
        return _libm(name, count, element, arity)
    raise UnknownFunction(f"asks for '{name}' with {arity} arguments over {type}, which does not exist")


def _symbol(name: str, to: FunctionText, kind: str) -> str:
    return f"tw.{name}.{to.suffix(kind)}"


def _own(name: str, count: int) -> MathFunction:
    to = FunctionText(count)
    x = Num(to, "float", "%x")
    result = UNARY_F32[name](to, x)
    if name in ("sin", "cos", "tan"):
        return _guarded(name, to, x, result)
    return to.finish(_symbol(name, to, "float"), [x], result)


def _own_binary(name: str, count: int) -> MathFunction:
    to = FunctionText(count)
    x, y = Num(to, "float", "%x"), Num(to, "float", "%y")
    return to.finish(_symbol(name, to, "float"), [x, y], BINARY_F32[name](to, x, y))


def _guarded(name: str, fast: FunctionText, x: Num, result: Num) -> MathFunction:
    """The fast path where all lanes are small enough, else libm."""
    count = fast.count
    slow = _libm(name, count, "f32", 1, symbol=f"tw.{name}.large.{fast.suffix('float')}", inline=False)
    vector = fast.type("float")
    fast.declarations.update({item[0]: item for item in slow.declarations})
    check = FunctionText(count)
    beyond = check.compare("oge", "", check.abs(Num(check, "float", "%x")), math_trig.LARGEST)
    lines = [line.replace("%t", "%c") for line in check.lines]
    any_lane = beyond.text.replace("%t", "%c")
    fast.declarations.update(check.declarations)
    if count > 1:
        reduce = f"@llvm.vector.reduce.or.v{count}i1"
        fast.declarations[reduce] = (reduce, "i1", f"<{count} x i1>")
        lines.append(f"  %any = call i1 {reduce}({fast.type('i1')} {any_lane})")
        any_lane = "%any"
    symbol = _symbol(name, fast, "float")
    text = "\n".join(
        [
            f"define internal {vector} @{symbol}({vector} %x) alwaysinline nounwind {{",
            *lines,
            f"  br i1 {any_lane}, label %large, label %small",
            "large:",
            f"  %slow = call {vector} @{slow.symbol}({vector} %x)",
            f"  ret {vector} %slow",
            "small:",
            *fast.lines,
            f"  ret {result.typed}",
            "}",
        ]
    )
    return MathFunction(symbol, (*slow.definitions, (symbol, text)), tuple(fast.declarations.values()))


def _libm(
    name: str, count: int, element: str, arity: int, symbol: str | None = None, inline: bool = True
) -> MathFunction:
    """The function of libm called for each lane."""
    to = FunctionText(count)
    kind = _WORDS[element]
    callee = f"@{name}{'f' if element == 'f32' else ''}"
    declaration = (callee, kind, ", ".join([kind] * arity))
    arguments = [Num(to, kind, f"%x{index}") for index in range(arity)]
    if count == 1:
        result = to.emit(kind, f"call {kind} {callee}({', '.join(a.typed for a in arguments)})")
    else:
        result = Num(to, kind, "poison")
        for lane in range(count):
            scalars = [to.emit(kind, f"extractelement {a.typed}, i64 {lane}").text for a in arguments]
            value = to.emit(kind, f"call {kind} {callee}({', '.join(f'{kind} {s}' for s in scalars)})")
            result = to.emit(kind, f"insertelement {result.typed}, {kind} {value.text}, i64 {lane}")
    function = to.finish(symbol or _symbol(name, to, kind), arguments, result)
    definitions = function.definitions
    if not inline:
        definitions = tuple((s, text.replace("alwaysinline", "noinline cold")) for s, text in definitions)
    return MathFunction(function.symbol, definitions, (declaration,))


def _sigmoid_f64(count: int) -> MathFunction:
    """1 / (1 + e**-x); e**-x may overflow to infinity, which gives the right 0."""
    to = FunctionText(count)
    x = Num(to, "double", "%x")
    e = to.call(math_function("exp", to.suffix("double"), 1), -x)
    return to.finish(_symbol("sigmoid", to, "double"), [x], 1.0 / (e + 1.0))


def _through_f32(name: str, count: int, element: str, arity: int) -> MathFunction:
    to = FunctionText(count)
    kind = _WORDS[element]
    arguments = [Num(to, kind, f"%x{index}") for index in range(arity)]
    wide = [to.convert("fpext", argument, "float") for argument in arguments]
    result = to.call(math_function(name, to.suffix("float"), arity), *wide)
    suffix = element if count == 1 else f"v{count}{element}"
    return to.finish(f"tw.{name}.{suffix}", arguments, to.convert("fptrunc", result, kind))
