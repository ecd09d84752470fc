"""Syntax of the ``tw`` attributes (``core/attributes.py``): expressions, index maps, the tensor encoding.

The attributes also parse and print themselves for xDSL's own tools; both read and write the same text.
"""

from __future__ import annotations

from typing import Any

from ..core.attributes import DimsLayoutAttr, EncodingAttr, ExprListAttr, IndexMapAttr, SymExprAttr
from .builder import Builder
from .fragment import AttrSyntax, Fragment
from .printer import Printer


def build_expr(b: Builder, tree: Any) -> SymExprAttr:
    """``<n * 4 + 1>``"""
    return SymExprAttr(b.named_expr(tree))


def build_exprs(b: Builder, trees: list[Any]) -> ExprListAttr:
    """``<[n, 4]>``"""
    return ExprListAttr([b.named_expr(t) for t in trees])


def build_map(b: Builder, parsed: Any) -> IndexMapAttr:
    """``<(d0, d1) -> (d0 + d1)>``"""
    inputs, results = b.index_map_exprs(parsed)
    return IndexMapAttr(inputs, results)


def build_encoding(b: Builder, parts: tuple[list[Any], Any]) -> EncodingAttr:
    """``<dims = [n], layout = (d0) -> (d0)>``, either part may be absent."""
    dims, layout = parts
    return EncodingAttr([b.named_expr(t) for t in dims], None if layout is None else build_map(b, layout))


def build_dims(b: Builder, trees: list[Any]) -> DimsLayoutAttr:
    """``<[n]>``"""
    return DimsLayoutAttr([b.named_expr(t) for t in trees])


def print_text(p: Printer, attr: Any) -> None:
    """All of them print as ``<text>``."""
    p.print_string(f"<{attr.text()}>")


FRAGMENT = Fragment(
    attributes=(
        AttrSyntax(SymExprAttr, '"<" expr ">"', build_expr, print_text),
        AttrSyntax(ExprListAttr, '"<" "[" exprs_opt "]" ">"', build_exprs, print_text),
        AttrSyntax(IndexMapAttr, '"<" index_map ">"', build_map, print_text),
        AttrSyntax(EncodingAttr, '"<" tw_encoding ">"', build_encoding, print_text),
        AttrSyntax(DimsLayoutAttr, '"<" "[" exprs_opt "]" ">"', build_dims, print_text),
    ),
    rules="""
        tw_encoding: -> tw_nothing
            | tw_dims -> tw_dims_only
            | tw_layout -> tw_layout_only
            | tw_dims "," tw_layout -> tw_both
        tw_dims: "dims" "=" "[" exprs_opt "]"
        tw_layout: "layout" "=" index_map
    """,
    actions={
        "tw_nothing": lambda b: ([], None),
        "tw_dims_only": lambda b, dims: (dims, None),
        "tw_layout_only": lambda b, layout: ([], layout),
        "tw_both": lambda b, dims, layout: (dims, layout),
    },
)
