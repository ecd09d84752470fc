"""Reductions of attributes, types and locations: what the rules of ``core.lark`` make of their children.

Each method is named by an alias in ``core.lark`` and gets the children that are not literals. The values are xDSL's own
attribute classes; building them checks them, and what a check refuses becomes a diagnostic at the last token
(``driver.Driver.parse``). Operations, values and regions are in ``builder.py``, expressions in ``reduce_exprs.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

from immutabledict import immutabledict
from xdsl.context import Context
from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute

from .dense import HexNumber, flatten, make_number, pack_elements, parse_int, static_shaped
from .driver import SyntaxFault, Token, describe

UNIT = b.UnitAttr()
TRUE = b.IntegerAttr(-1, b.i1)
FALSE = b.IntegerAttr(0, b.i1)

_ESCAPE = re.compile(r"\\(?:([nt\"\\])|([0-9a-fA-F]{2})|(.?))", re.DOTALL)
_SIMPLE_ESCAPES = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}


def unquote(token: Token) -> str:
    """Contents of a string literal."""
    body = token[1:-1]
    if "\\" not in body:
        return body
    try:
        return unquote_bytes(token).decode()
    except UnicodeDecodeError as error:
        raise SyntaxFault("string is not valid UTF-8", token) from error


def unquote_bytes(token: Token) -> bytes:
    """Contents of a string literal as bytes."""
    body = token[1:-1]
    out = bytearray()
    last = 0
    for match in _ESCAPE.finditer(body):
        out += body[last : match.start()].encode()
        last = match.end()
        if match[1]:
            out += _SIMPLE_ESCAPES[match[1]]
        elif match[2]:
            out.append(int(match[2], 16))
        else:
            raise SyntaxFault(f"unknown escape '\\{match[3]}' in string", token.pos + 1 + match.start(), 2)
    out += body[last:].encode()
    return bytes(out)


def float_types() -> dict[str, Attribute]:
    """Every float type by its name."""
    from typing import get_args

    return {cls.name: cls() for cls in get_args(b.AnyFloat)}


class AttributeReductions:
    """Mixed into :class:`~tilewright.text.builder.Builder`."""

    context: Context
    aliases: dict[str, Attribute]
    memo: dict[Any, Any]
    """Types and numbers that were built before, by what they were built from."""
    find_alias: Callable[[Token], Attribute]
    parse_raw: Callable[[Token], Attribute]

    # ---- words and numbers ----

    def string(self, token: Token) -> str:
        """A string literal's contents."""
        return unquote(token)

    def name(self, token: Token) -> Token:
        """An identifier."""
        return token

    def bool_true(self) -> bool:
        """``true`` among numbers."""
        return True

    def bool_false(self) -> bool:
        """``false`` among numbers."""
        return False

    def integer(self, token: Token) -> int:
        """A decimal integer."""
        return parse_int(token)

    def hex_integer(self, token: Token) -> int:
        """A hexadecimal integer."""
        return int(token, 16)

    def neg_integer(self, token: Token) -> int:
        """``-`` and an integer."""
        return -parse_int(token)

    num_int = integer
    num_neg_int = neg_integer

    def num_hex(self, token: Token) -> HexNumber:
        """Hexadecimal: bits if the type is a float, else an integer."""
        return HexNumber(token)

    def num_neg_hex(self, token: Token) -> int:
        """Minus a hexadecimal integer."""
        return -int(token, 16)

    def num_float(self, token: Token) -> float:
        """A decimal float."""
        return float(token)

    def num_neg_float(self, token: Token) -> float:
        """Minus a decimal float."""
        return -float(token)

    def number_attr(self, value: int | float | HexNumber, type_: Attribute) -> Attribute:
        """The integer or float attribute of a number with a type."""
        key = (value, type(value), type_) if value else (str(value), type(value), type_)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = make_number(value, type_)
        return cast(Attribute, found)

    def num_untyped(self, value: int | float | HexNumber) -> Attribute:
        """A number without a type: ``f64`` or ``i64``."""
        return self.number_attr(value, b.f64 if type(value) is float else b.i64)

    num_typed = number_attr

    # ---- simple attributes ----

    def string_attr(self, token: Token) -> Attribute:
        """``"..."``: a string, or bytes where it is not UTF-8."""
        if "\\" not in token:
            return b.StringAttr(token[1:-1])
        data = unquote_bytes(token)
        try:
            return b.StringAttr(data.decode())
        except UnicodeDecodeError:
            return b.BytesAttr(data)

    def typed_string_attr(self, token: Token, type_: Attribute) -> Attribute:
        """``"..." : none``; xDSL's string attribute holds no other type."""
        if not isinstance(type_, b.NoneType):
            raise SyntaxFault(f"string attributes of type {type_} are not supported", token)
        return b.StringAttr(unquote(token))

    def unit_attr(self) -> Attribute:
        """``unit``."""
        return UNIT

    def true_attr(self) -> Attribute:
        """``true``: i1."""
        return TRUE

    def false_attr(self) -> Attribute:
        """``false``: i1."""
        return FALSE

    def array_empty(self) -> Attribute:
        """``[]``."""
        return b.ArrayAttr(())

    def array_attr(self, items: list[Attribute]) -> Attribute:
        """``[a, b]``."""
        return b.ArrayAttr(items)

    def dict_none(self) -> dict[str, Attribute]:
        """No dictionary written: an empty one."""
        return {}

    dict_empty = dict_none

    def dict_make(self, entries: list[tuple[Token, Attribute]]) -> dict[str, Attribute]:
        """``{key = value, ...}``."""
        out: dict[str, Attribute] = {}
        for key, value in entries:
            name = unquote(key) if key[0] == '"' else str(key)
            if name in out:
                raise SyntaxFault(f"duplicate key '{name}' in dictionary", key)
            out[name] = value
        return out

    def entry_unit(self, key: Token) -> tuple[Token, Attribute]:
        """A key without a value."""
        return key, UNIT

    def dict_attr(self, entries: dict[str, Attribute]) -> Attribute:
        """A dictionary as an attribute."""
        return b.DictionaryAttr(immutabledict(entries))

    def symbol_name(self, token: Token) -> str:
        """``@name``: the name."""
        return unquote(Token(token[1:])) if token[1] == '"' else token[1:]

    def symbol_one(self, token: Token) -> b.SymbolRefAttr:
        """``@name`` as an attribute."""
        return b.SymbolRefAttr(self.symbol_name(token))

    def symbol_app(self, ref: b.SymbolRefAttr, token: Token) -> b.SymbolRefAttr:
        """``@a::@b``."""
        nested = [*ref.nested_references.data, b.StringAttr(self.symbol_name(token))]
        return b.SymbolRefAttr(ref.root_reference, nested)

    def opaque_attr(self, dialect: Token, value: Token, type_: Attribute | None = None) -> Attribute:
        """``opaque<"dialect", "...">``."""
        return b.OpaqueAttr.from_strings(unquote(dialect), unquote(value), b.NoneAttr() if type_ is None else type_)

    def strided(self, strides: list[int | None], *offset: int | None) -> Attribute:
        """``strided<[s, ?], offset: o>``."""
        return b.StridedLayoutAttr(strides, offset[0] if offset else 0)

    # ---- attributes of dialects ----

    def use_alias(self, token: Token) -> Attribute:
        """``#alias`` or ``!alias``."""
        found = self.aliases.get(token)
        return self.find_alias(token) if found is None else found

    def attr_bare(self, token: Token) -> Attribute:
        """``#dialect.attr`` without parameters."""
        return self.attr_params(token, ())

    def attr_params(self, token: Token, params: Sequence[Attribute]) -> Attribute:
        """``#dialect.attr<param, ...>`` of a class that has no syntax of its own."""
        name, is_type = token[1:], token[0] == "!"
        cls = self.context.get_optional_type(name) if is_type else self.context.get_optional_attr(name)
        if cls is None or not issubclass(cls, ParametrizedAttribute):
            raise SyntaxFault(f"unknown {'type' if is_type else 'attribute'} '{name}'", token)
        expected = len(cls.get_irdl_definition().parameters)
        if len(params) != expected:
            raise SyntaxFault(f"'{name}' takes {expected} parameters, found {len(params)}", token)
        try:
            return cls.new(params)
        except Exception as error:
            raise SyntaxFault(f"'{name}': {describe(error)}", token) from error

    def attr_raw(self, token: Token) -> Attribute:
        """``#dialect.attr<...>`` of a class that parses itself: xDSL's attribute parser reads the text."""
        found = self.memo.get(token)
        if found is None:
            found = self.memo[str(token)] = self.parse_raw(token)
        return cast(Attribute, found)

    # ---- dense ----

    def dense_empty(self, token: Token, type_: Attribute) -> Attribute:
        """``dense<> : tensor<0xf32>``."""
        shaped = static_shaped(token, type_)
        if prod(shaped.get_shape()) != 0:
            raise SyntaxFault(f"an empty literal for {type_}, which has {prod(shaped.get_shape())} elements", token)
        return b.DenseIntOrFPElementsAttr(cast(Any, type_), b.BytesAttr(b""))

    def dense_attr(self, token: Token, value: Any, type_: Attribute) -> Attribute:
        """``dense<1.0>`` (all elements) or ``dense<[[1, 2], [3, 4]]>``."""
        shaped = static_shaped(token, type_)
        shape: list[int] = []
        flat = [value]
        if type(value) is list:
            flat = flatten(value, shape, token)
            if shape != list(shaped.get_shape()):
                raise SyntaxFault(f"literal has shape {shape}, the type {list(shaped.get_shape())}", token)
        data = pack_elements(cast(Any, type_).element_type, flat, token)
        if type(value) is not list:
            data *= prod(shaped.get_shape())
        return b.DenseIntOrFPElementsAttr(cast(Any, type_), b.BytesAttr(data))

    def dense_hex(self, token: Token, text: Token, type_: Attribute) -> Attribute:
        """``dense<"0x...">``: the elements' bytes."""
        shaped = static_shaped(token, type_)
        count = prod(shaped.get_shape())
        body = unquote(text)
        try:
            data = bytes.fromhex(body[2:]) if body[:2] == "0x" else None
        except ValueError:
            data = None
        if data is None:
            raise SyntaxFault("expected hexadecimal digits after 0x in dense string", text)
        size = cast(Any, type_).element_type.compile_time_size
        if len(data) == size and count != 1:
            data *= count
        if len(data) != size * count:
            raise SyntaxFault(f"literal has {len(data)} bytes, {type_} needs {size * count}", text)
        return b.DenseIntOrFPElementsAttr(cast(Any, type_), b.BytesAttr(data))

    def dense_resource(self, handle: str, type_: Attribute) -> Attribute:
        """``dense_resource<name> : tensor<...>``."""
        if not isinstance(type_, b.ShapedType):
            raise ValueError(f"dense_resource needs a shaped type, found {type_}")
        return b.DenseResourceAttr.from_params(str(handle), type_)

    def dense_array_empty(self, token: Token, type_: Attribute) -> Attribute:
        """``array<i64>``."""
        return self.dense_array(token, type_, [])

    def dense_array(self, token: Token, type_: Attribute, items: list[Any]) -> Attribute:
        """``array<i64: 1, 2>``."""
        if not isinstance(type_, b.IntegerType | b.AnyFloat):
            raise SyntaxFault(f"array elements must be integers or floats, found {type_}", token)
        return b.DenseArrayBase(type_, b.BytesAttr(pack_elements(type_, items, token)))

    # ---- types ----

    def scalar_type(self, token: Token) -> Attribute:
        """``i32``, ``si8``, ``index``, ``f32``..."""
        found = self.memo.get(token)
        if found is None:
            found = self.memo[str(token)] = _make_scalar(token)
        return cast(Attribute, found)

    def none_type(self) -> Attribute:
        """``none``."""
        return b.NoneType()

    def function_type(self, signature: tuple[list[Attribute], list[Attribute]]) -> Attribute:
        """``(a, b) -> c``."""
        return b.FunctionType.from_lists(*signature)

    def shape_scalar(self, type_: Attribute) -> tuple[str | None, Attribute]:
        """``f32`` in ``tensor<f32>``."""
        return "", type_

    def shape_ranked(self, dims: Token, type_: Attribute) -> tuple[str | None, Attribute]:
        """``4x?xf32``."""
        return dims, type_

    def shape_unranked(self, _: Token, type_: Attribute) -> tuple[str | None, Attribute]:
        """``*xf32``."""
        return None, type_

    def tensor_type(self, token: Token, shaped: tuple[str | None, Attribute], *encoding: Attribute) -> Attribute:
        """``tensor<4x?xf32, #encoding>``."""
        key = ("tensor", shaped, encoding)
        found = self.memo.get(key)
        if found is None:
            dims, element = shaped
            if dims is None and encoding:
                raise SyntaxFault("an unranked tensor has no encoding", token)
            found = b.UnrankedTensorType(element) if dims is None else b.TensorType(element, _dims(dims), *encoding)
            self.memo[key] = found
        return cast(Attribute, found)

    def memref_type(self, token: Token, shaped: tuple[str | None, Attribute], *rest: Attribute) -> Attribute:
        """``memref<4x?xf32, layout, memory space>``."""
        key = ("memref", shaped, rest)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = _make_memref(token, shaped, rest)
        return cast(Attribute, found)

    def vector_type(self, dims: Token, element: Attribute) -> Attribute:
        """``vector<4x[8]xf32>``."""
        key = ("vector", dims, element)
        found = self.memo.get(key)
        if found is None:
            parts = "".join(dims.split()).split("x")[:-1]
            scalable = b.ArrayAttr(b.BoolAttr.from_bool(p[0] == "[") for p in parts)
            found = self.memo[key] = b.VectorType(element, [parse_int(p.strip("[]")) for p in parts], scalable)
        return cast(Attribute, found)

    def vector_scalar(self, element: Attribute) -> Attribute:
        """``vector<f32>``."""
        return b.VectorType(element, [])

    def tuple_type(self, types: list[Attribute]) -> Attribute:
        """``tuple<a, b>``."""
        return b.TupleType(b.ArrayAttr(cast(Any, types)))

    def complex_type(self, token: Token, element: Attribute) -> Attribute:
        """``complex<f32>``."""
        if not isinstance(element, b.IntegerType | b.AnyFloat):
            raise SyntaxFault(f"complex needs an integer or float type, found {element}", token)
        return b.ComplexType(element)

    # ---- locations ----

    def loc_unknown(self) -> Attribute:
        """``loc(unknown)``."""
        return b.UNKNOWN_LOC

    def loc_file(self, file: Token, line: Token, column: Token) -> Attribute:
        """``loc("f.py":1:2)``."""
        return b.FileLineColLoc(b.StringAttr(unquote(file)), b.IntAttr(int(line)), b.IntAttr(int(column)))

    def loc_name(self, name: Token, child: Attribute | None = None) -> Attribute:
        """``loc("name"(...))``."""
        return b.NameLoc(b.StringAttr(unquote(name)), b.NoneAttr() if child is None else child)

    def loc_callsite(self, callee: Attribute, caller: Attribute) -> Attribute:
        """``loc(callsite(a at b))``."""
        return b.CallSiteLoc(callee, caller)

    def loc_fused(self, locations: list[Attribute]) -> Attribute:
        """``loc(fused[a, b])``."""
        return b.FusedLoc(b.ArrayAttr(locations), b.NoneAttr())

    def loc_fused_with(self, metadata: Attribute, locations: list[Attribute]) -> Attribute:
        """``loc(fused<metadata>[a, b])``."""
        return b.FusedLoc(b.ArrayAttr(locations), metadata)

    def use_location_alias(self, token: Token) -> Attribute:
        """``loc(#alias)``."""
        found = self.use_alias(token)
        if not isinstance(found, b.LocationAttr):
            raise SyntaxFault(f"alias '{token}' is not a location", token)
        return found


def _dims(dims: str) -> list[int]:
    return [b.DYNAMIC_INDEX if d == "?" else parse_int(d) for d in "".join(dims.split()).split("x")[:-1]]


def _make_memref(token: Token, shaped: tuple[str | None, Attribute], rest: tuple[Attribute, ...]) -> Attribute:
    dims, element = shaped
    if dims is None:
        if len(rest) > 1:
            raise SyntaxFault("an unranked memref has no layout", token)
        return b.UnrankedMemRefType.from_type(element, *rest)
    layout: Any = b.NoneAttr()
    if rest and isinstance(rest[0], b.MemRefLayoutAttr):
        layout, rest = rest[0], rest[1:]
    elif len(rest) == 2:
        raise SyntaxFault(f"expected a memref layout, found {rest[0]}", token)
    return b.MemRefType(element, _dims(dims), layout, *rest)


_INTEGER = re.compile(r"([su]?)i(\d+)")
_SIGNEDNESS = {"": b.Signedness.SIGNLESS, "s": b.Signedness.SIGNED, "u": b.Signedness.UNSIGNED}


def _make_scalar(token: Token) -> Attribute:
    if token == "index":
        return b.IndexType()
    match = _INTEGER.fullmatch(token)
    if match is not None:
        width = int(match[2]) if len(match[2]) < 9 else 1 << 30
        if width >= 1 << 24:
            raise SyntaxFault(f"integer type '{token}' is too wide", token)
        return b.IntegerType(width, _SIGNEDNESS[match[1]])
    found = float_types().get(token)
    if found is None:
        raise SyntaxFault(f"unknown type '{token}'", token)
    return found


def is_bare(cls: type[Attribute]) -> bool:
    """Whether the class is a parametrised attribute without parameters."""
    return issubclass(cls, ParametrizedAttribute) and not cls.get_irdl_definition().parameters


def attr_class_terminal(cls: type[Attribute]) -> str:
    """Terminal of ``core.lark`` for a class without a fragment: how its parameters are written."""
    kind = "TYPE" if issubclass(cls, TypeAttribute) else "ATTR"
    own_syntax = not issubclass(cls, ParametrizedAttribute) or issubclass(cls, Data)
    if not own_syntax:
        parse = getattr(getattr(cls, "parse_parameters", None), "__func__", None)
        own_syntax = parse is not ParametrizedAttribute.parse_parameters.__func__  # type: ignore[attr-defined]
    if own_syntax or issubclass(cls, b.UnregisteredAttr):
        return f"${kind}_RAW"
    return f"${kind}_BARE" if is_bare(cls) else f"${kind}_PARAMS"
