"""Numbers with a type, and the elements of dense literals: from what is written to bits.

A hexadecimal number of a float type is its bits (``0x7F800000 : f32`` is infinity, ``dense<0xFF800000>`` too).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute

from .driver import SyntaxFault, Token, describe


class HexNumber(str):
    """A number written in hexadecimal: the bits of a float, or an integer."""


def make_number(value: int | float | HexNumber, type_: Attribute) -> Attribute:
    """The integer or float attribute of a number."""
    if isinstance(type_, b.AnyFloat):
        if isinstance(value, HexNumber):
            return b.FloatAttr(b.FloatData(_bits_to_float(value, type_)), type_)
        return b.FloatAttr(float(value), type_)
    if not isinstance(type_, b.IntegerType | b.IndexType):
        raise ValueError(f"a number cannot have type {type_}")
    if isinstance(value, float):
        raise ValueError(f"a float cannot have type {type_}")
    return b.IntegerAttr(int(value, 16) if isinstance(value, HexNumber) else value, type_)


def pack_elements(element: Attribute, values: Sequence[Any], token: Token) -> bytes:
    """Bytes of dense elements; numbers as :class:`AttributeReductions` makes them."""
    if isinstance(element, b.ComplexType):
        for value in values:
            if type(value) is not tuple:
                raise SyntaxFault("elements of a complex type must be pairs (re, im)", token)
        return pack_elements(element.element_type, [part for pair in values for part in pair], token)
    if any(type(v) is tuple for v in values):
        raise SyntaxFault(f"pairs are elements of complex types, not of {element}", token)
    try:
        if isinstance(element, b.AnyFloat):
            return (
                b"".join(_pack_float(element, v) for v in values)
                if _any_hex(values)
                else element.pack([float(v) for v in values])
            )
        if isinstance(element, b.IntegerType | b.IndexType):
            return _pack_ints(element, values)
    except (ValueError, OverflowError, NotImplementedError, Exception) as error:
        raise SyntaxFault(f"elements of type {element}: {describe(error)}", token) from error
    raise SyntaxFault(f"dense elements cannot have type {element}", token)


def _any_hex(values: Sequence[Any]) -> bool:
    return any(isinstance(v, HexNumber) for v in values)


def _pack_float(element: Any, value: Any) -> bytes:
    if isinstance(value, HexNumber):
        return _hex_bytes(value, element)
    return cast(bytes, element.pack([float(value)]))


def _pack_ints(element: b.IntegerType | b.IndexType, values: Sequence[Any]) -> bytes:
    out: list[int] = []
    boolean = element == b.i1
    for value in values:
        if type(value) is float:
            raise ValueError("found a float")
        if type(value) is bool and not boolean:
            raise ValueError("true and false are elements of i1")
        number = int(value, 16) if isinstance(value, HexNumber) else int(value)
        out.append(element.get_normalized_value(number) if isinstance(element, b.IntegerType) else number)
    return element.pack(out)


def _hex_bytes(text: HexNumber, type_: Any) -> bytes:
    value = int(text, 16)
    if value.bit_length() > type_.bitwidth:
        raise ValueError(f"{text} has more bits than {type_}")
    return value.to_bytes(type_.compile_time_size, "little")


def _bits_to_float(text: HexNumber, type_: Any) -> float:
    return cast(float, next(iter(type_.iter_unpack(_hex_bytes(text, type_)))))


def parse_int(text: str) -> int:
    """An integer; Python refuses to read very long ones."""
    if len(text) > 4000:
        raise ValueError("integer literal is too long")
    return int(text)


def flatten(value: list[Any], shape: list[int], token: Token) -> list[Any]:
    """Elements of nested lists in order; their extents are appended to ``shape``."""
    flat: list[Any] = value
    shape.append(len(flat))
    while flat and type(flat[0]) is list:
        size = len(flat[0])
        if any(type(x) is not list or len(x) != size for x in flat):
            raise SyntaxFault("dense literal has rows of different lengths", token)
        shape.append(size)
        flat = [y for x in flat for y in x]
    if any(type(x) is list for x in flat):
        raise SyntaxFault("dense literal has rows of different lengths", token)
    return flat


def static_shaped(token: Token, type_: Attribute) -> b.ShapedType:
    """The type, if dense elements can have it."""
    if not isinstance(type_, b.TensorType | b.VectorType | b.MemRefType):
        raise SyntaxFault(f"a dense literal needs a tensor, vector or memref type, found {type_}", token)
    if b.DYNAMIC_INDEX in type_.get_shape():
        raise SyntaxFault(f"a dense literal needs a static shape, found {type_}", token)
    if not isinstance(type_.element_type, b.AnyDenseElement):
        raise SyntaxFault(f"dense elements cannot have type {type_.element_type}", token)
    return type_
