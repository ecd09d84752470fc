"""Text of builtin attributes where xDSL's own printing is not exact or not fast enough.

What is not here prints itself (``BuiltinAttribute.print_builtin``). Floats: the shortest text in MLIR's spelling that
reads back to the same bits, else the bits in hexadecimal.
"""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute

if TYPE_CHECKING:
    from .printer import Printer

_PLAIN = re.compile(r"[ !#-\[\]-~]*")
HEX_FROM = 101
"""Dense literals with this many different elements are printed as bytes."""


def quote(text: str) -> str:
    """A string literal. Text beyond ASCII stands as it is; other bytes than text are for :func:`quote_bytes`."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable() or char == " ":
        return char
    return "".join(f"\\{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def quote_bytes(data: bytes) -> str:
    """A string literal of bytes."""
    return '"' + "".join(_escape(chr(b)) if 0x20 <= b < 0x7F else f"\\{b:02X}" for b in data) + '"'


@lru_cache(maxsize=4096)
def _finite_text(value: float, sign: float, type_: Any) -> str | None:
    for text in (f"{value:.5e}", f"{value:.9g}", repr(value)):
        text = _with_point(text)
        if _reads_as(text, value, type_):
            return text
    return None


def _reads_as(text: str, value: float, type_: Any) -> bool:
    """Whether a text gives the same bits; types that xDSL cannot pack (f80, f128) hold a Python float."""
    try:
        return bool(type_.pack([float(text)]) == type_.pack([value]))
    except NotImplementedError:
        return float(text) == value


def _with_point(text: str) -> str:
    """MLIR's floats have a point before the exponent: ``1e-05`` is ``1.0e-05``."""
    mantissa, e, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    elif e and mantissa.split(".")[1] == "0" * len(mantissa.split(".")[1]):
        return f"{mantissa}0e{exponent}" if len(mantissa.split(".")[1]) == 5 else f"{mantissa}e{exponent}"
    elif e and len(mantissa.split(".")[1]) == 5:
        mantissa += "0"
    return f"{mantissa}{e}{exponent}"


def float_text(value: float, type_: Any) -> str:
    """A float that reads back to the same bits."""
    if math.isfinite(value):
        text = _finite_text(value, math.copysign(1.0, value), type_)
        if text is not None:
            return text
    bits: bytes = type_.pack([value])
    if math.isnan(value) and isinstance(type_, b.Float64Type):
        bits = struct.pack("<d", value)
    return f"0x{bits[::-1].hex().upper()}"


def int_text(value: int, type_: Attribute | None) -> str:
    """An integer; ``true`` and ``false`` for i1."""
    if isinstance(type_, b.IntegerType) and type_ == b.i1:
        return "true" if value else "false"
    return str(value)


def print_builtin(p: Printer, attr: Attribute) -> bool:
    """Prints a builtin attribute that is dealt with here; otherwise prints nothing and returns False."""
    match attr:
        case b.StringAttr():
            p.print_string(quote(attr.data))
        case b.DenseIntOrFPElementsAttr():
            p.print_string(f"dense<{_dense_text(attr)}> : ")
            p.print_attribute(attr.type)
        case b.DenseArrayBase():
            values = ", ".join(_element_text(v, attr.elt_type) for v in attr.iter_values())
            p.print_string("array<")
            p.print_attribute(attr.elt_type)
            p.print_string(f": {values}>" if values else ">")
        case b.AffineMapAttr() | b.AffineSetAttr():
            p.print_string(f"{attr.name}<{attr.data}>")
        case _:
            return False
    return True


def _element_text(value: Any, type_: Attribute) -> str:
    if isinstance(value, tuple):
        assert isinstance(type_, b.ComplexType)
        return f"({_element_text(value[0], type_.element_type)}, {_element_text(value[1], type_.element_type)})"
    return float_text(value, type_) if isinstance(value, float) else int_text(value, type_)


def _dense_text(attr: b.DenseIntOrFPElementsAttr[Any]) -> str:
    data, element = attr.data.data, attr.get_element_type()
    size = element.compile_time_size
    count = len(data) // size
    if count == 0:
        return ""
    if data == data[:size] * count:
        return _element_text(element.unpack(data[:size], 1)[0], element)
    if count >= HEX_FROM or not _is_exact(attr):
        return f'"0x{data.hex().upper()}"'
    texts = [_element_text(v, element) for v in element.unpack(data, count)]
    for extent in reversed(attr.get_shape()):
        texts = [f"[{', '.join(texts[i : i + extent])}]" for i in range(0, len(texts), extent)]
    return texts[0]


def _is_exact(attr: b.DenseIntOrFPElementsAttr[Any]) -> bool:
    """Whether the bytes are what the elements' values pack to (padding bits are zero) and fill the shape."""
    element = attr.get_element_type()
    size = element.compile_time_size
    data = attr.data.data
    if prod(attr.get_shape()) * size != len(data):
        return False
    return bool(element.pack(element.unpack(data, len(data) // size)) == data)
