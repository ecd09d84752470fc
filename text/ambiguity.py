"""Where the text of an operation could be read otherwise than it was printed: guards for ``assembly_format``.

A format may have an optional part (``$operands``, an attribute dictionary) before something that begins alike. LALR
then takes the optional part, as xDSL's own parser does, so the text is read as printed only where the part is there.
For each such place there is a guard, a condition on the operation; an operation that fails one is printed in the
generic form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.irdl import declarative_assembly_format as f

Items = list[tuple[str, f.Directive]]
"""A shape: each symbol with the directive behind it."""
Groups = dict[str, tuple[Items, Items]]
"""The two branches of each optional group, by the name of its rule."""

_TYPE = {"$SCALAR", "none", "tensor", "memref", "vector", "tuple", "complex", "(", "!"}
_NUMBER = {"$INT", "$HEX", "$FLOAT", "-", "true", "false"}
_ATTR = _TYPE | _NUMBER | {"$STRING", "unit", "[", "{", "@", "#", "affine_map", "affine_set", "loc"}
_ATTR |= {"dense", "dense_resource", "array", "strided", "opaque"}
FOLLOW_TERMINATOR = frozenset({"}", "^", "loc"})
"""What may stand after the last operation of a block."""
FOLLOW_OPERATION = FOLLOW_TERMINATOR | {"%", "$STRING", "$OP", "#", "!", "{-#"}
"""What may stand after any operation."""
_FIRST: dict[str, set[str]] = {
    "operand": {"%"},
    "operands": {"%"},
    "type": _TYPE,
    "types": _TYPE,
    "fn_sig": {"("},
    "attr": _ATTR,
    "attr_dict": {"{"},
    "attr_dict_kw": {"attributes"},
    "region": {"{"},
    "regions": {"{"},
    "successor": {"^"},
    "successors": {"^"},
    "index_list": {"["},
    "number_list": {"["},
    "symbol": {"@"},
    "number": _NUMBER,
    "array_item": _NUMBER,
    "string": {"$STRING"},
    "enum_word": {"$STRING", "$WORD"},
    "angle_body": {"<"},
}
_LISTS = {"operands", "types", "regions", "successors"}


def guards(items: Items, follow: frozenset[str], groups: Groups) -> list[Callable[[Any], bool]]:
    """One guard for each optional directive after which, when absent, the next token would be read as its own."""
    found: list[Callable[[Any], bool]] = []
    ahead = set(follow)
    after: f.Directive | None = None
    for symbol, directive in reversed(items):
        first, nullable = _first_of(symbol, groups)
        base = symbol.removesuffix("_opt")
        clash = first & ahead if nullable else set()
        if isinstance(directive, f.AttrDictDirective) and clash == {"{"} and type(after) is f.AttributeVariable:
            found.append(partial(_is_no_dictionary, after))
        elif clash or (base in _LISTS and "," in ahead):
            found.append(partial(_is_present, directive))
        if symbol in groups:
            for branch in groups[symbol]:
                found += guards(branch, frozenset(ahead), groups)
        ahead = first | ahead if nullable else first
        after = directive
    return found


def _is_no_dictionary(directive: f.AttributeVariable, op: Any) -> bool:
    return not isinstance(directive.get(op), DictionaryAttr)


def _first_of(symbol: str, groups: Groups) -> tuple[set[str], bool]:
    if symbol.startswith('"'):
        return {symbol[1:-1]}, False
    if symbol in groups:
        first: set[str] = set()
        nullable = False
        for branch in groups[symbol]:
            absent = True
            for inner, _ in branch:
                inner_first, absent = _first_of(inner, groups)
                first |= inner_first
                if not absent:
                    break
            nullable |= absent
        return first, nullable
    if symbol.startswith("optional_"):
        return _first_of(symbol.removeprefix("optional_"), groups)[0], True
    nullable = symbol.endswith("_opt") or symbol == "attr_dict_kw"
    return _FIRST.get(symbol.removesuffix("_opt"), {"<"}), nullable


def _is_present(directive: f.Directive, op: Any) -> bool:
    if isinstance(directive, f.AttrDictDirective):
        shown = op.attributes.keys() | (op.properties.keys() & directive.expected_properties)
        return bool(shown - directive.reserved_attr_names)
    if isinstance(directive, f.OptionalGroupDirective):
        return directive.anchor.is_present(op)
    return directive.is_present(op)
