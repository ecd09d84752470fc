"""Formulas over vectors of f32 as the body of an LLVM IR function.

`FunctionText` collects the instructions, `Num` is a value with Python's operators, so that the files with the
formulas read like formulas. Everything works for scalars and for vectors of any length. Multiplication and addition
are exact IEEE operations; `fma` is `llvm.fmuladd`, which is fused where the machine can do it fast.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MathFunction:
    """A function to call: its symbol, and the definitions (symbol, text) and declarations that a module then needs.

    A declaration is (symbol with at sign, result type, argument types).
    """

    symbol: str
    definitions: tuple[tuple[str, str], ...]
    declarations: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, eq=False)
class Num:
    """A value in a function under construction; `kind` is its element type: float, double, i32, i64 or i1."""

    to: FunctionText
    kind: str
    text: str

    def __add__(self, other: Num | float) -> Num:
        return self.to.binary("fadd", "add", self, other)

    def __sub__(self, other: Num | float) -> Num:
        return self.to.binary("fsub", "sub", self, other)

    def __rsub__(self, other: Num | float) -> Num:
        return self.to.binary("fsub", "sub", self.to.constant(self.kind, other), self)

    def __mul__(self, other: Num | float) -> Num:
        return self.to.binary("fmul", "mul", self, other)

    def __truediv__(self, other: Num | float) -> Num:
        return self.to.binary("fdiv", "sdiv", self, other)

    def __rtruediv__(self, other: Num | float) -> Num:
        return self.to.binary("fdiv", "sdiv", self.to.constant(self.kind, other), self)

    def __neg__(self) -> Num:
        return self.to.emit(self.kind, f"fneg {self.typed}")

    def __and__(self, other: Num | int) -> Num:
        return self.to.binary("", "and", self, other)

    def __or__(self, other: Num | int) -> Num:
        return self.to.binary("", "or", self, other)

    def __xor__(self, other: Num | int) -> Num:
        return self.to.binary("", "xor", self, other)

    def __lshift__(self, other: Num | int) -> Num:
        return self.to.binary("", "shl", self, other)

    def __rshift__(self, other: Num | int) -> Num:
        """Arithmetic shift."""
        return self.to.binary("", "ashr", self, other)

    def __lt__(self, other: Num | float) -> Num:
        return self.to.compare("olt", "slt", self, other)

    def __gt__(self, other: Num | float) -> Num:
        return self.to.compare("ogt", "sgt", self, other)

    def __ge__(self, other: Num | float) -> Num:
        return self.to.compare("oge", "sge", self, other)

    def equals(self, other: Num | float) -> Num:
        """Ordered equality, lane by lane."""
        return self.to.compare("oeq", "eq", self, other)

    def is_nan(self) -> Num:
        return self.to.compare("uno", "", self, self)

    @property
    def typed(self) -> str:
        """The value with its type."""
        return f"{self.to.type(self.kind)} {self.text}"


class FunctionText:
    """One function over `count` lanes under construction."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lines: list[str] = []
        self.declarations: dict[str, tuple[str, str, str]] = {}
        self.definitions: dict[str, str] = {}

    def type(self, kind: str) -> str:
        """The scalar type itself, or a vector of it."""
        return kind if self.count == 1 else f"<{self.count} x {kind}>"

    def suffix(self, kind: str) -> str:
        """The type in an intrinsic's name."""
        word = {"float": "f32", "double": "f64"}.get(kind, kind)
        return word if self.count == 1 else f"v{self.count}{word}"

    def emit(self, kind: str, instruction: str) -> Num:
        """Append an instruction; its result has the element type."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return Num(self, kind, name)

    def constant(self, kind: str, value: Num | float) -> Num:
        """A number as a value of the element type, in all lanes."""
        if isinstance(value, Num):
            return value
        text = _number(kind, value)
        return Num(self, kind, text if self.count == 1 else f"splat ({kind} {text})")

    def binary(self, float_word: str, int_word: str, a: Num, b: Num | float) -> Num:
        word = float_word if a.kind in ("float", "double") else int_word
        return self.emit(a.kind, f"{word} {a.typed}, {self.constant(a.kind, b).text}")

    def compare(self, float_word: str, int_word: str, a: Num, b: Num | float) -> Num:
        word = f"fcmp {float_word}" if a.kind in ("float", "double") else f"icmp {int_word}"
        return self.emit("i1", f"{word} {a.typed}, {self.constant(a.kind, b).text}")

    def select(self, condition: Num, yes: Num | float, no: Num | float) -> Num:
        kind = yes.kind if isinstance(yes, Num) else no.kind if isinstance(no, Num) else "float"
        yes, no = self.constant(kind, yes), self.constant(kind, no)
        return self.emit(kind, f"select {condition.typed}, {yes.typed}, {no.typed}")

    def intrinsic(self, name: str, *arguments: Num) -> Num:
        """An intrinsic whose arguments and result all have one type."""
        kind = arguments[0].kind
        symbol, type = f"@llvm.{name}.{self.suffix(kind)}", self.type(kind)
        self.declarations[symbol] = (symbol, type, ", ".join([type] * len(arguments)))
        return self.emit(kind, f"call {type} {symbol}({', '.join(a.typed for a in arguments)})")

    def fma(self, a: Num, b: Num | float, c: Num | float) -> Num:
        """a * b + c."""
        return self.intrinsic("fmuladd", a, self.constant(a.kind, b), self.constant(a.kind, c))

    def abs(self, x: Num) -> Num:
        return self.intrinsic("fabs", x)

    def copysign(self, x: Num, sign: Num) -> Num:
        return self.intrinsic("copysign", x, sign)

    def polynomial(self, x: Num, coefficients: Sequence[float]) -> Num:
        """coefficients[0] + coefficients[1] * x + ... by Horner's rule."""
        result = self.constant(x.kind, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def bits(self, x: Num) -> Num:
        """The bits of a float as an integer of its width."""
        kind = {"float": "i32", "double": "i64"}[x.kind]
        return self.emit(kind, f"bitcast {x.typed} to {self.type(kind)}")

    def from_bits(self, x: Num) -> Num:
        """The float that the integer's bits denote."""
        kind = {"i32": "float", "i64": "double"}[x.kind]
        return self.emit(kind, f"bitcast {x.typed} to {self.type(kind)}")

    def convert(self, word: str, x: Num, kind: str) -> Num:
        """A conversion instruction: sitofp, fpext, fptrunc..."""
        return self.emit(kind, f"{word} {x.typed} to {self.type(kind)}")

    def power_of_two(self, n: Num) -> Num:
        """2**n as a float, for integers n whose power is a normal number."""
        return self.from_bits((n + 127) << 23)

    def call(self, function: MathFunction, *arguments: Num) -> Num:
        """Call another math function of the same type."""
        self.definitions.update(function.definitions)
        self.declarations.update({item[0]: item for item in function.declarations})
        kind = arguments[0].kind
        return self.emit(kind, f"call {self.type(kind)} @{function.symbol}({', '.join(a.typed for a in arguments)})")

    def finish(self, symbol: str, arguments: Sequence[Num], result: Num) -> MathFunction:
        """The function that returns `result`."""
        parameters = ", ".join(argument.typed for argument in arguments)
        head = f"define internal {self.type(result.kind)} @{symbol}({parameters}) alwaysinline nounwind {{"
        text = "\n".join([head, *self.lines, f"  ret {result.typed}", "}"])
        definitions = (*self.definitions.items(), (symbol, text))
        return MathFunction(symbol, definitions, tuple(self.declarations.values()))


def _number(kind: str, value: float) -> str:
    if kind == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if kind in ("float", "double"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(int(value))
