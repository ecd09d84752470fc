"""Types and constants of the `llvm` dialect as words of LLVM IR."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute


class UnknownAttribute(Exception):
    """A type or constant that LLVM IR has no word for here."""


_FLOATS: dict[type[Attribute], tuple[str, str]] = {
    Float16Type: ("half", "f16"),
    BFloat16Type: ("bfloat", "bf16"),
    Float32Type: ("float", "f32"),
    Float64Type: ("double", "f64"),
}


@cache
def type_text(type: Attribute) -> str:
    """The type as LLVM IR spells it: `f32` is `float`, `vector<16xf32>` is `<16 x float>`."""
    match type:
        case IntegerType() if type.signedness.data == Signedness.SIGNLESS:
            return f"i{type.width.data}"
        case VectorType() if type.get_num_dims() == 1 and not type.get_num_scalable_dims():
            return f"<{type.get_shape()[0]} x {type_text(type.element_type)}>"
        case llvm.LLVMPointerType():
            if isinstance(type.addr_space, IntAttr) and type.addr_space.data:
                raise UnknownAttribute(f"uses a pointer into address space {type.addr_space.data}")
            return "ptr"
        case llvm.LLVMArrayType():
            return f"[{type.size.data} x {type_text(type.type)}]"
        case llvm.LLVMStructType() if not type.struct_name.data:
            return "{ " + ", ".join(map(type_text, type.types)) + " }"
    if (names := _FLOATS.get(type.__class__)) is not None:
        return names[0]
    raise UnknownAttribute(f"has type {type}, which LLVM IR lacks")


@cache
def mangled(type: Attribute) -> str:
    """The type in the name of an overloaded intrinsic: `v16f32`, `i64`, `p0`."""
    match type:
        case IntegerType():
            return f"i{type.width.data}"
        case VectorType() if type.get_num_dims() == 1:
            return f"v{type.get_shape()[0]}{mangled(type.element_type)}"
        case llvm.LLVMPointerType():
            return "p0"
    if (names := _FLOATS.get(type.__class__)) is not None:
        return names[1]
    raise UnknownAttribute(f"has type {type}, which no intrinsic takes")


def constant_text(value: Attribute, type: Attribute) -> str:
    """The constant without its type; floats are written by their bits, so that nothing is rounded."""
    match value:
        case IntegerAttr():
            return scalar_text(value.value.data, type)
        case FloatAttr():
            return scalar_text(value.value.data, type)
        case StringAttr():
            return 'c"' + "".join(f"\\{byte:02X}" for byte in value.data.encode()) + '"'
        case DenseIntOrFPElementsAttr():
            return _dense_text(value, type)
    raise UnknownAttribute(f"has constant {value}, which the emitter does not know")


def scalar_text(value: object, type: Attribute) -> str:
    """One number as a constant of a scalar type."""
    if not isinstance(value, int | float):
        raise UnknownAttribute(f"has a constant {value}, expected a number")
    if isinstance(type, IntegerType):
        width = type.width.data
        wrapped = int(value) & ((1 << width) - 1)
        if width == 1:
            return "true" if wrapped else "false"
        return str(wrapped - (1 << width) if wrapped >> (width - 1) else wrapped)
    write = _FLOAT_TEXT.get(type.__class__)
    if write is None:
        raise UnknownAttribute(f"has a constant of type {type}, which LLVM IR lacks")
    return write(float(value))


def symbol_text(name: str) -> str:
    """A global's name without the at sign, quoted where LLVM asks for it."""
    if name and all(c.isascii() and (c.isalnum() or c in "-$._") for c in name) and not name[0].isdigit():
        return name
    return '"' + "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else _escaped(c) for c in name) + '"'


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())


def _dense_text(value: DenseIntOrFPElementsAttr, type: Attribute) -> str:
    if isinstance(type, VectorType):
        element, brackets = type.element_type, "<>"
        if value.is_splat():
            first = next(iter(value.iter_values()))
            return f"splat ({type_text(element)} {scalar_text(first, element)})"
    elif isinstance(type, llvm.LLVMArrayType):
        element, brackets = type.type, "[]"
    else:
        raise UnknownAttribute(f"has a dense constant of type {type}, expected a vector or an array")
    word = type_text(element)
    items = ", ".join(f"{word} {scalar_text(item, element)}" for item in value.iter_values())
    return f"{brackets[0]}{items}{brackets[1]}"


def _half_text(value: float) -> str:
    return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"


def _bfloat_text(value: float) -> str:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if value == value:
        bits += 0x7FFF + (bits >> 16 & 1)
    return f"0xR{bits >> 16 & 0xFFFF:04X}"


def _single_text(value: float) -> str:
    return _double_text(struct.unpack("<f", struct.pack("<f", value))[0])


def _double_text(value: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


_FLOAT_TEXT: dict[type[Attribute], Callable[[float], str]] = {
    Float16Type: _half_text,
    BFloat16Type: _bfloat_text,
    Float32Type: _single_text,
    Float64Type: _double_text,
}
