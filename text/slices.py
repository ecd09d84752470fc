"""Attributes whose class parses itself: xDSL's attribute parser reads their balanced ``<...>``.

About a hundred attributes of xDSL's dialects have a hand-written parser. Their text is one token of the grammar,
handed to xDSL's parser here; attributes of a fragment nested in it come back to the grammar.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import UnregisteredAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser, ParserState
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer

from .driver import SyntaxFault, Token, describe, scan_balanced

if TYPE_CHECKING:
    from .builder import Builder


class LinearLexer(MLIRLexer):
    """xDSL's lexer, with a pattern of strings that does not backtrack: on a string without an end, xDSL's takes time
    that doubles with every few characters."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


def read_with_linear_lexer(parser: Parser, text: str) -> None:
    """Makes a parser of nothing one of ``text``."""
    parser._parser_state = ParserState(LinearLexer(Input(text, "<text>")))


class SliceParser(Parser):
    """xDSL's parser over a slice of a text that a :class:`~tilewright.text.builder.Builder` is parsing."""

    def __init__(self, builder: Builder, text: str) -> None:
        super().__init__(builder.context, "")
        read_with_linear_lexer(self, text)
        self._builder = builder
        self.attribute_aliases = builder.aliases

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: Any
    ) -> Attribute:
        language = self._builder.vocabulary
        kind = language.attr_terminal(attr_name, is_type) if not is_opaque else None
        if kind is None or not kind.startswith("$SYNTAX_"):
            return super()._parse_dialect_type_or_attribute_body(  # type: ignore[no-any-return]
                attr_name, is_type, is_opaque, starting_opaque_pos
            )
        text = self.lexer.input.content
        start = self._current_token.span.start
        stop = scan_balanced(text, start) if text[start : start + 1] == "<" else start
        if stop < 0:
            self.raise_error(f"unbalanced brackets after '{attr_name}'")
        source = ("!" if is_type else "#") + attr_name + text[start:stop]
        self._resume_from(stop)
        return parse_attribute_slice(self._builder, source)


def parse_attribute_slice(builder: Builder, source: str) -> Attribute:
    """Parses ``#dialect.attr<...>`` with the grammar, in the middle of another text."""
    result: Attribute = builder.vocabulary.driver.parse(source, builder, "start_attr")
    return result


def parse_raw(builder: Builder, token: Token) -> Attribute:
    """The attribute or type of a whole ``#dialect.attr<...>`` or ``#dialect<attr ...>``."""
    parser = SliceParser(builder, token)
    try:
        found = parser.parse_attribute()
        if parser._current_token.text:
            raise SyntaxFault(f"unexpected '{parser._current_token.text}' in '{token}'", token)
    except (SyntaxFault, RecursionError):
        raise
    except ParseError as error:
        offset = min(max(error.span.start, 0), max(0, len(token) - 1))
        raise SyntaxFault(xdsl_message(error), token.pos + offset) from error
    except Exception as error:
        raise SyntaxFault(f"'{token}': {describe(error)}", token) from error
    if isinstance(found, UnregisteredAttr) and not builder.context.allow_unregistered:
        raise SyntaxFault(f"unknown attribute '{token}'", token)
    return found


def xdsl_message(error: ParseError) -> str:
    """xDSL's message in our style: one line, lower case, no full stop."""
    message = error.msg.strip().partition("\n")[0].rstrip(".") or "malformed attribute"
    return message[:1].lower() + message[1:]
