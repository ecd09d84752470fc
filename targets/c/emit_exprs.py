"""Types, literals and expressions of C as text, with no more parentheses than a reader and ``-Wparentheses`` want."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerType, NoneType, Signedness, i1
from xdsl.ir import Attribute, Operation, SSAValue

from ...core.diagnostics import emit_error
from .dialect import (
    AddressOfOp,
    BinaryOp,
    CallOp,
    CastOp,
    ComparisonOp,
    ConstantOp,
    IsNullOp,
    LoadOp,
    LogicalNotOp,
    NegateOp,
    OffsetOp,
    SelectOp,
)
from .library import C_TYPES, type_suffix
from .types import ConstPointerType, Pointer, SizeType, is_number

CHOICE, LOGIC, COMPARISON, BITS, SUM, PRODUCT, UNARY, PRIMARY = range(8)
"""How tightly an expression holds together. Bits and shifts are parenthesised within anything but comparisons."""
_LEVELS = {
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "%": PRODUCT,
    "&&": LOGIC,
    "||": LOGIC,
    "&": BITS,
    "|": BITS,
    "^": BITS,
    "<<": BITS,
    ">>": BITS,
}


class Expression(NamedTuple):
    """Text, and how tightly it holds together."""

    text: str
    level: int

    @property
    def is_name(self) -> bool:
        """Whether the text costs nothing to repeat."""
        return self.text.isidentifier()


def type_name(type: Attribute, op: Operation) -> str:
    """A type of C; an error at ``op`` for what is none."""
    if type == i1:
        return "bool"
    if isinstance(type, SizeType):
        return "size_t"
    if isinstance(type, NoneType):
        return "void"
    if isinstance(type, Pointer):
        const = "const " if isinstance(type, ConstPointerType) else ""
        return f"{const}{type_name(type.element, op)} *"
    if not is_number(type):
        emit_error(op, f"has a value of type {type}, which is no type of C")
    return C_TYPES[type_suffix(type)]


def declaration(type: Attribute, name: str, op: Operation, *, restrict: bool = False, constant: bool = False) -> str:
    """``const float *restrict name``; ``constant`` says that the variable itself does not change."""
    text = type_name(type, op)
    if not text.endswith("*"):
        return f"{'const ' if constant else ''}{text} {name}"
    qualifier = "restrict " if restrict else "const " if constant else ""
    return f"{text}{qualifier}{name}"


def integer_literal(value: int, type: Attribute) -> Expression:
    """A literal of the type, which is correct where ``int`` has 16 bits as well."""
    assert isinstance(type, IntegerType)
    if type == i1:
        return Expression("true" if value else "false", PRIMARY)
    width = type.width.data
    if type.signedness.data is Signedness.UNSIGNED:
        return Expression(f"{value}u" if value < 1 << 16 else f"UINT{max(32, width)}_C({value})", PRIMARY)
    if value == -(1 << (width - 1)):
        return Expression(f"INT{width}_MIN", PRIMARY)
    text = str(value) if abs(value) < 1 << 15 else f"{'-' if value < 0 else ''}INT{max(32, width)}_C({abs(value)})"
    return Expression(text, PRIMARY if value >= 0 else UNARY)


def float_literal(value: float, type: Attribute) -> Expression:
    """An exact literal: decimal where that is short and exact, hexadecimal elsewhere."""
    if math.isnan(value):
        return Expression("NAN", PRIMARY)
    sign, level = ("-", UNARY) if math.copysign(1.0, value) < 0 else ("", PRIMARY)
    if math.isinf(value):
        return Expression(f"{sign}INFINITY", level)
    mark = "f" if isinstance(type, Float32Type) else ""
    size = abs(value)
    if size < 1 << 20 and size * 8 == int(size * 8):
        return Expression(f"{sign}{size!r}{mark}", level)
    return Expression(f"{sign}{hexadecimal(size)}{mark}", level)


def hexadecimal(value: float) -> str:
    """A float in hexadecimal, without the zeros at the end."""
    return re.sub(r"\.?0*p", "p", value.hex())


class Expressions:
    """The texts of the values of one function."""

    def __init__(self, symbols: Mapping[str, str], callee: Callable[[CallOp], str]) -> None:
        self.symbols = symbols
        self.callee = callee
        self._found: dict[SSAValue, Expression] = {}

    def name(self, value: SSAValue, name: str) -> None:
        """The value is a variable."""
        self._found[value] = Expression(name, PRIMARY)

    def keep(self, value: SSAValue, expression: Expression) -> None:
        """The value is written where it is used."""
        self._found[value] = expression

    def of(self, op: Operation) -> Expression:
        """The expression of an operation with a result, or of a call."""
        found: Expression = EXPRESSIONS[type(op)](self, op)
        return found

    def text(self, value: SSAValue) -> str:
        return self._found[value].text

    def operand(self, value: SSAValue, level: int) -> str:
        """The text of an operand that holds together at least that tightly."""
        text, found = self._found[value]
        return text if found >= level else f"({text})"

    def element(self, pointer: SSAValue, index: SSAValue) -> str:
        """``pointer[index]``."""
        return f"{self.operand(pointer, PRIMARY)}[{self.text(index)}]"

    # One method for each operation.

    def _constant(self, op: ConstantOp) -> Expression:
        if isinstance(op.value, FloatAttr):
            return float_literal(op.value.value.data, op.result.type)
        return integer_literal(op.value.value.data, op.result.type)

    def _address(self, op: AddressOfOp) -> Expression:
        name = self.symbols.get(op.table.root_reference.data)
        if name is None:
            emit_error(op, f"names {op.table}, which the module lacks")
        return Expression(name, PRIMARY)

    def _binary(self, op: BinaryOp) -> Expression:
        operator = op.operator.data
        level = _LEVELS[operator]
        lowest = {LOGIC: COMPARISON, BITS: UNARY}.get(level, level)
        left, right = self.operand(op.lhs, lowest), self.operand(op.rhs, lowest + (level in (SUM, PRODUCT)))
        if level == LOGIC:
            left, right = self._logical(op.lhs, operator), self._logical(op.rhs, operator)
        return Expression(f"{left} {operator} {right}", level)

    def _logical(self, value: SSAValue, operator: str) -> str:
        """A chain of one logical operator needs no parentheses."""
        owner = value.owner
        chain = isinstance(owner, BinaryOp) and owner.operator.data == operator
        return self.text(value) if chain or self._found[value].level == COMPARISON else self.operand(value, UNARY)

    def _compare(self, op: ComparisonOp) -> Expression:
        text = f"{self.operand(op.lhs, SUM)} {op.operator.data} {self.operand(op.rhs, SUM)}"
        return Expression(text, COMPARISON)

    def _negate(self, op: NegateOp) -> Expression:
        text = self.operand(op.value, UNARY)
        return Expression(f"-({text})" if text.startswith("-") else f"-{text}", UNARY)

    def _not(self, op: LogicalNotOp) -> Expression:
        return Expression(f"!{self.operand(op.value, UNARY)}", UNARY)

    def _select(self, op: SelectOp) -> Expression:
        arms = f"{self.operand(op.true_value, COMPARISON)} : {self.operand(op.false_value, COMPARISON)}"
        return self._exact(f"{self.operand(op.condition, COMPARISON)} ? {arms}", CHOICE, op.result.type, op)

    def _exact(self, text: str, level: int, type: Attribute, op: Operation) -> Expression:
        """C promotes narrow integers to ``int``; this brings them back."""
        if isinstance(type, IntegerType) and 1 < type.width.data < 32:
            return Expression(f"({type_name(type, op)})({text})", UNARY)
        return Expression(text, level)

    def _cast(self, op: CastOp) -> Expression:
        return Expression(f"({type_name(op.result.type, op)}){self.operand(op.value, UNARY)}", UNARY)

    def _offset(self, op: OffsetOp) -> Expression:
        return Expression(f"{self.operand(op.pointer, SUM)} + {self.operand(op.index, PRODUCT)}", SUM)

    def _is_null(self, op: IsNullOp) -> Expression:
        return Expression(f"{self.operand(op.pointer, SUM)} == NULL", COMPARISON)

    def _load(self, op: LoadOp) -> Expression:
        text = self.element(op.pointer, op.index)
        if not op.guard:
            return Expression(text, PRIMARY)
        condition, default = op.guard
        choice = f"{self.operand(condition, COMPARISON)} ? {text} : {self.operand(default, COMPARISON)}"
        return self._exact(choice, CHOICE, op.result.type, op)

    def _call(self, op: CallOp) -> Expression:
        return Expression(f"{self.callee(op)}({', '.join(map(self.text, op.arguments))})", PRIMARY)


EXPRESSIONS: dict[type[Operation], Callable[[Expressions, Any], Expression]] = {
    ConstantOp: Expressions._constant,
    AddressOfOp: Expressions._address,
    BinaryOp: Expressions._binary,
    ComparisonOp: Expressions._compare,
    NegateOp: Expressions._negate,
    LogicalNotOp: Expressions._not,
    SelectOp: Expressions._select,
    CastOp: Expressions._cast,
    OffsetOp: Expressions._offset,
    IsNullOp: Expressions._is_null,
    LoadOp: Expressions._load,
    CallOp: Expressions._call,
}
