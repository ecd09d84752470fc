"""Operations whose class parses itself: xDSL's imperative ``parse`` methods, on our names, scopes and regions.

An operation that has neither a fragment nor an ``assembly_format`` may still have a hand-written ``parse``. The grammar
knows such an operation as one terminal; the token loop stops at its name and lets the class read the text from there.
The parser it gets is xDSL's, except that values, blocks and regions are the builder's: a region in the text comes back
to the grammar. Such an operation is printed in the generic form, because some of xDSL's print methods lose attributes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.exceptions import ParseError
from xdsl.utils.mlir_lexer import MLIRTokenKind

from .driver import SyntaxFault, Token, describe, fatal_fault, make_token
from .slices import SliceParser, xdsl_message

if TYPE_CHECKING:
    from .builder import Builder, Operand


MAX_NESTING = 2_000
"""Dialect names around such an operation: each of them that is nested in another one recurses on Python's stack."""
_FRAMES_PER_LEVEL = 20


class ForeignParser(SliceParser):
    """xDSL's parser over the text of a builder, with the builder's values, blocks and regions."""

    # ---- values ----

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> Any:
        """The value that an operand names."""
        return self._builder.resolve(self._operand(operand), type)

    def _parse_optional_operand_without_type(self) -> SSAValue | None:
        operand = self.parse_optional_unresolved_operand()
        return None if operand is None else self._builder.defined(self._operand(operand))

    def _operand(self, operand: UnresolvedOperand) -> Operand:
        token = make_token(operand.span.text, operand.span.start)
        return (token, operand.index) if operand.index else token

    # ---- blocks and regions ----

    def parse_optional_successor(self) -> Block | None:
        """``^bb1``."""
        found = self._parse_optional_token(MLIRTokenKind.CARET_IDENT)
        return None if found is None else self._builder.successor(make_token(found.text, found.span.start))

    def parse_optional_region(self, arguments: Sequence[Parser.Argument] | None = None) -> Region | None:
        """``{ ... }``, read by the grammar."""
        if self._current_token.kind != MLIRTokenKind.L_BRACE:
            return None
        builder = self._builder
        if arguments is not None:
            builder.enter_region([(make_token(a.name.text, a.name.start), a.type) for a in arguments])
        pos = self._current_token.span.start
        outer, builder.outer_regions = builder.outer_regions, len(builder.scopes)
        try:
            region, end = builder.vocabulary.driver.parse_prefix(builder.text, builder, "start_region", pos)
        finally:
            builder.outer_regions = outer
        for argument, block_argument in zip(arguments or (), region.blocks[0].args if region.blocks else ()):
            if argument.location is not None:
                block_argument.location = argument.location
        self._resume_from(end)
        return region  # type: ignore[no-any-return]

    def parse_optional_operation(self) -> Operation | None:
        """An operation directly in another one's text, outside of any region."""
        self.raise_error("an operation here can be read in the generic form only")


def parse_foreign(builder: Builder, name: Token, pos: int, dialects: Sequence[str]) -> tuple[Operation, int]:
    """The operation whose name ends at ``pos``, and where its text ends; ``dialects`` are those of the operations
    around."""
    outer = builder.dialect_stack
    if len(outer) > MAX_NESTING:
        raise fatal_fault("nested too deeply", name)
    if outer:
        return _parse_op(builder, name, pos, dialects)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + MAX_NESTING * _FRAMES_PER_LEVEL)
    try:
        return _parse_op(builder, name, pos, dialects)
    finally:
        sys.setrecursionlimit(limit)


def _parse_op(builder: Builder, name: Token, pos: int, dialects: Sequence[str]) -> tuple[Operation, int]:
    cls = builder.context.get_op(str(name))
    outer = builder.dialect_stack
    parser = builder.foreign_parser
    if parser is None:
        parser = builder.foreign_parser = ForeignParser(builder, builder.text)
    stack = builder.dialect_stack = [*outer, *dialects, name.partition(".")[0]]
    parser._parser_state.dialect_stack = stack
    try:
        parser._resume_from(pos)
        op = cls.parse(parser)
    except (SyntaxFault, RecursionError):
        raise
    except ParseError as error:
        raise SyntaxFault(xdsl_message(error), max(error.span.start, 0)) from error
    except Exception as error:
        if type(error).__name__ == "Unexpected":
            raise
        raise SyntaxFault(f"'{name}' op {describe(error)}", name) from error
    finally:
        builder.dialect_stack = outer
        parser._parser_state.dialect_stack = outer
    return builder.finish_op(op, name), parser._current_token.span.start
