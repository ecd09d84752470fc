"""Builds operations, blocks and regions while the text is parsed: values, scopes, forward references, locations.

One :class:`Builder` holds the state of one text. Its methods reduce the rules of ``core.lark`` (attributes and
expressions: ``reduce_attrs.py``, ``reduce_exprs.py``) and are what a dialect's syntax works with (``fragment.py``).

Names live in one flat table; a region keeps a list of the names it defined and removes them at its ``}``. A use
before the definition makes a typed placeholder, replaced when the definition comes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.traits import IsolatedFromAbove, SingleBlockImplicitTerminator, ensure_terminator

from ..core.diagnostics import location_of
from .driver import Driver, SyntaxFault, Token, Unexpected, describe
from .reduce_attrs import AttributeReductions
from .reduce_exprs import ExpressionReductions

if TYPE_CHECKING:
    from .grammar import Language
    from .recovery import Recovery

Operand = Token | tuple[Token, int]
"""An unresolved operand: ``%x`` or (``%x``, 1) for ``%x#1``."""


class Placeholder(SSAValue[Attribute]):
    """A value that is used before its definition."""

    @property
    def owner(self) -> Operation | Block:
        """A placeholder has no owner."""
        raise ValueError("value is used before its definition")


class Scope:
    """State of an open region."""

    __slots__ = ("block", "blocks", "forward", "names", "needs_block", "region", "restore", "shadows")

    def __init__(self) -> None:
        self.region = Region()
        self.block: Block | None = None
        self.blocks: dict[str, Block] = {}
        self.forward: dict[str, Token] = {}
        self.names: list[str] = []
        self.needs_block = False
        self.restore: dict[str, Any] = {}
        self.shadows: list[tuple[Token, int]] = []


class Builder(AttributeReductions, ExpressionReductions):
    """State of one text, and the functions that reduce the grammar's rules."""

    def __init__(
        self,
        text: str,
        filename: str,
        context: Context,
        language: Language,
        find_alias: Callable[[Builder, Token], Attribute],
        parse_raw: Callable[[Builder, Token], Attribute],
        parse_foreign: Callable[[Builder, Token, int, list[str]], tuple[Operation, int]],
    ) -> None:
        self.text = text
        self.context = context
        self.vocabulary = language
        self.find_alias = lambda token: find_alias(self, token)
        self.parse_raw = lambda token: parse_raw(self, token)
        self._parse_foreign = parse_foreign
        self.recovery: Recovery | None = None
        self.doubtful: set[str] = set()
        """Names in parts of the text that were skipped after an error."""
        self.foreign_parser: Any = None
        self.dialect_stack: list[str] = []
        self.aliases: dict[str, Attribute] = {}
        self.open_aliases: list[str] = []
        self.memo: dict[Any, Any] = {}
        self.values: dict[str, Any] = {}
        self.scopes: list[Scope] = []
        self.outer_regions = 0
        """Open regions around the part of the text that an operation reads which parses itself."""
        self.forward: dict[str, dict[int, tuple[Placeholder, Token]]] = {}
        self.top: list[Operation] = []
        self._file = StringAttr(filename)
        self._newlines: list[int] | None = None
        self._entry: Sequence[tuple[Token | None, Attribute]] | None = None
        self._shadowing: dict[Region, list[tuple[Token, int]]] = {}
        self._op_classes: dict[str, tuple[type[Operation], tuple[str, ...]]] = {}
        self._hints: dict[str, str | None] = {}

    # ---- small reductions ----

    def nothing(self) -> None:
        """An absent optional part."""

    def nothing1(self, _: Any) -> None:
        """A part that was dealt with."""

    ignore1 = nothing1

    def ignore2(self, _a: Any, _b: Any) -> None:
        """Parts that were dealt with."""

    def pair(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Two children."""
        return a, b

    def triple(self, a: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
        """Three children."""
        return a, b, c

    def tuple_of(self, *children: Any) -> tuple[Any, ...]:
        """All children."""
        return children

    def group_then(self, *children: Any) -> tuple[bool, tuple[Any, ...]]:
        """An optional group of an ``assembly_format`` that is there."""
        return True, children

    def group_else(self, *children: Any) -> tuple[bool, tuple[Any, ...]]:
        """An optional group that is absent."""
        return False, children

    # ---- the top level ----

    def top_operation(self, _: None, op: Operation) -> None:
        """An operation outside of any region."""
        self.top.append(op)

    def finish_module(self, _: None) -> ModuleOp:
        """The end of the text: the module, which several operations are wrapped in."""
        self.check_defined()
        if len(self.top) == 1 and isinstance(self.top[0], ModuleOp):
            return self.top[0]
        return ModuleOp(self.top)

    def finish_attr(self, attr: Attribute) -> Attribute:
        """The end of the text of one attribute or type."""
        return attr

    def check_defined(self) -> None:
        """Refuses values that were used and never defined."""
        uses = (token for name, uses in self.forward.items() for _, token in uses.values())
        for token in sorted(uses, key=lambda t: t.pos):
            self.report(self._undefined(token))

    def _undefined(self, token: Token, what: str = "use of undefined value") -> SyntaxFault:
        fault = SyntaxFault(f"{what} {token}", token)
        fault.doubtful = token in self.doubtful
        return fault

    # ---- errors ----

    def report(self, fault: SyntaxFault) -> None:
        """An error after which the text is read on as if nothing were wrong."""
        if self.recovery is None:
            raise fault
        self.recovery.report(fault)

    def recover(
        self, driver: Driver, fault: SyntaxFault | Unexpected, states: list[int], values: list[Any], place: int
    ) -> int | None:
        """Keeps an error, and says where to go on; None to give up."""
        return None if self.recovery is None else self.recovery.resume(driver, fault, states, values, place)

    def abandon(self, regions: int) -> None:
        """Closes open regions but the outermost ones, as many as that."""
        self._entry = None
        while len(self.scopes) > regions + self.outer_regions:
            self._leave(self.scopes.pop())

    def define_alias(self, token: Token, attr: Attribute) -> None:
        """``#alias = ...``."""
        if self.aliases.get(token, attr) != attr:
            raise SyntaxFault(f"redefinition of alias '{token}'", token)
        self.aliases[str(token)] = attr

    def resource_section(self, kind: Token, sections: list[tuple[Token, list[tuple[str, Any]]]]) -> None:
        """``{-# dialect_resources: {dialect: {key: "0x..."}} #-}``: each dialect takes its own."""
        from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface

        if kind == "external_resources":
            return
        if kind != "dialect_resources":
            raise SyntaxFault(f"unknown section '{kind}', expected 'dialect_resources' or 'external_resources'", kind)
        for name, entries in sections:
            dialect = self.context.get_optional_dialect(str(name))
            interface = dialect and dialect.get_interface(OpAsmDialectInterface)
            if not interface:
                raise SyntaxFault(f"dialect '{name}' holds no resources", name)
            for key, value in entries:
                if not isinstance(value, str):
                    raise SyntaxFault(f"resource '{key}' of '{name}' must be a string", name)
                if interface.lookup(str(key)) is None:
                    interface.declare_resource(str(key))
                interface.parse_resource(str(key), value)

    # ---- locations ----

    def location(self, pos: int) -> LocationAttr:
        """File, line and column of a place in the text."""
        lines = self._newlines
        if lines is None:
            lines = self._newlines = [m.start() for m in re.finditer("\n", self.text)]
        row = bisect_left(lines, pos)
        return _file_location(self._file, row + 1, pos - (lines[row - 1] if row else -1))

    def set_location(self, op: Operation, location: Any) -> Operation:
        """An explicit ``loc(...)``."""
        op.location = location
        return op

    # ---- operations ----

    def indexed_operand(self, token: Token, index: Token) -> Operand:
        """``%x#1``."""
        return token, int(index[1:])

    def result_group(self, token: Token, count: Token) -> tuple[Token, int]:
        """``%x:2``."""
        if not 1 <= int(count[:9]) <= 1 << 16:
            raise SyntaxFault("expected a positive number of results", count)
        return token, int(count[:9])

    def bind_results(self, names: list[Operand], op: Operation, location: Any = None) -> Operation:
        """``%a, %b = op``."""
        results = op.results
        if location is not None:
            op.location = location
        first = names[0]
        if len(names) == 1 and type(first) is not tuple and len(results) == 1:
            self.define(first, results)  # type: ignore[arg-type]
            return op
        counts = [n[1] if type(n) is tuple else 1 for n in names]
        if sum(counts) != len(results):
            token: Token = first[0] if type(first) is tuple else first  # type: ignore[assignment]
            raise SyntaxFault(f"'{op.name}' has {len(results)} results, found {sum(counts)} names", token)
        at = 0
        for name, count in zip(names, counts):
            self.define(name[0] if type(name) is tuple else name, results[at : at + count])  # type: ignore[arg-type]
            at += count
        return op

    def generic_op(
        self,
        name: Token,
        operands: list[Operand],
        successors: list[Block],
        properties: dict[str, Attribute] | None,
        regions: list[Region],
        attributes: dict[str, Attribute] | None,
        signature: tuple[list[Attribute], list[Attribute]],
    ) -> Operation:
        """``"dialect.op"(%a)[^bb1] <{p = 1}> ({...}) {a = 2} : (i32) -> i32``."""
        cls, property_names = self._op_class(name)
        types, result_types = signature
        if len(operands) != len(types):
            raise SyntaxFault(f"'{name[1:-1]}' has {len(operands)} operands, found {len(types)} operand types", name)
        properties = {} if properties is None else properties
        attributes = {} if attributes is None else attributes
        for key in property_names if attributes else ():
            if key in attributes and key not in properties:
                properties[key] = attributes.pop(key)
        resolve = self.resolve
        op = cls.create(
            operands=[resolve(o, t) for o, t in zip(operands, types)],
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            successors=successors,
            regions=regions,
            location=self.location(name.pos),
        )
        if self._shadowing:
            self._check_shadowing(op)
        return op

    def _op_class(self, name: Token) -> tuple[type[Operation], tuple[str, ...]]:
        entry = self._op_classes.get(name)
        if entry is None:
            text = name[1:-1]
            cls = self.context.get_optional_op(text) if "." in text or self.context.allow_unregistered else None
            if cls is None:
                raise SyntaxFault(self.vocabulary.unknown_op(text), name.pos + 1, len(text))
            names = tuple(cls.get_irdl_definition().properties) if issubclass(cls, IRDLOperation) else ()
            entry = self._op_classes[str(name)] = (cls, names)
        return entry

    def pretty_op(self, name: Token, *children: Any) -> Operation:
        """An operation in its pretty form; ``Language`` knows how it is built."""
        syntax = self.vocabulary.op_syntax(name)
        try:
            op = syntax.build(self, *children)
        except SyntaxFault:
            raise
        except Exception as error:
            raise SyntaxFault(f"'{syntax.name}' op {describe(error)}", name) from error
        return self.finish_op(op, name)

    def parse_foreign(self, name: Token, pos: int, dialects: list[str]) -> tuple[Operation, int]:
        """An operation that parses itself, from the end of its name; and where its text ends."""
        return self._parse_foreign(self, name, pos, dialects)

    def finish_op(self, op: Operation, name: Token) -> Operation:
        """Location of an operation, and the names that its regions define again."""
        op.location = self.location(name.pos)
        if self._shadowing:
            self._check_shadowing(op)
        return op

    def pretty_attr(self, name: Token, children: tuple[Any, ...]) -> Attribute:
        """An attribute or type whose syntax a fragment gives."""
        syntax = self.vocabulary.attr_syntax(name[1:], name[0] == "!")
        try:
            made: Attribute = syntax.build(self, *children)
        except SyntaxFault:
            raise
        except Exception as error:
            raise SyntaxFault(f"'{name[1:]}': {describe(error)}", name) from error
        return made

    # ---- values ----

    def resolve(self, operand: Operand, type_: Attribute) -> SSAValue:
        """The value an operand names, of this type; a placeholder if it is not defined yet."""
        token: Token
        token, index = operand if type(operand) is tuple else (operand, 0)  # type: ignore[assignment]
        defined = self.values.get(token)
        if defined is not None:
            if index >= len(defined):
                raise SyntaxFault(f"{token} has {len(defined)} results, found #{index}", token)
            value: SSAValue = defined[index]
            if value.type is not type_ and value.type != type_:
                message = f"{token} has type {value.type}, expected {type_}"
                raise SyntaxFault(message, token, notes=[(f"{token} is defined here", location_of(value))])
            return value
        uses = self.forward.setdefault(str(token), {})
        if index in uses and token not in self.doubtful:
            if uses[index][0].type != type_:
                message = f"{token} is used with type {type_} and before with type {uses[index][0].type}"
                raise SyntaxFault(message, token)
            return uses[index][0]
        placeholder = Placeholder(type_)
        uses[index] = (placeholder, token)
        return placeholder

    def resolve_all(self, operands: Sequence[Operand], types: Sequence[Attribute]) -> list[SSAValue]:
        """Resolves operands with their types, of which there must be equally many."""
        if len(operands) != len(types):
            raise ValueError(f"has {len(operands)} operands, found {len(types)} types")
        return [self.resolve(o, t) for o, t in zip(operands, types)]

    def defined(self, operand: Operand) -> SSAValue:
        """The value an operand names, whatever its type; it must be defined before."""
        token: Token
        token, index = operand if type(operand) is tuple else (operand, 0)  # type: ignore[assignment]
        found = self.values.get(token)
        if found is None:
            raise self._undefined(token)
        return self.resolve(operand, found[min(index, len(found) - 1)].type)

    def define(self, token: Token, values: Sequence[SSAValue]) -> None:
        """Gives values a name in the current region."""
        known = self.values
        if token in known:
            self._shadow(token)
        elif self.scopes:
            self.scopes[-1].names.append(token)
        known[token] = values
        if self.forward and token in self.forward:
            self._define_forward(token, values)
        hint = self._hints.get(token, "")
        if hint == "":
            name = token[1:]
            hint = None if name[0].isdigit() or not SSAValue.is_valid_name(name) else name
            self._hints[str(token)] = hint
        if hint is not None:
            for value in values:
                value.name_hint = hint

    def _define_forward(self, token: Token, values: Sequence[SSAValue]) -> None:
        for index, (placeholder, use) in self.forward.pop(token).items():
            if index >= len(values):
                raise SyntaxFault(f"{token} has {len(values)} results, found #{index}", use)
            if values[index].type != placeholder.type:
                message = f"{token} has type {values[index].type}, expected {placeholder.type}"
                raise SyntaxFault(message, use, notes=[("defined here", token.pos)])
            if placeholder.first_use is None:
                # Its user is still being read: it is used in the header of the operation that defines it inside.
                raise SyntaxFault(f"use of undefined value {use}", use, notes=[("defined here", token.pos)])
            placeholder.replace_all_uses_with(values[index])

    def _shadow(self, token: Token) -> None:
        """A name of an outer region may be defined again in an isolated one; whether this one is, is seen later."""
        scopes = self.scopes
        if not scopes or token in scopes[-1].names:
            raise SyntaxFault(f"redefinition of value {token}", token)
        depth = next((i for i, s in enumerate(scopes) if token in s.names), -1)
        scopes[-1].shadows.append((token, depth + 1))
        scopes[-1].restore[str(token)] = self.values[token]
        scopes[-1].names.append(token)

    def _check_shadowing(self, op: Operation) -> None:
        for region in op.regions:
            for token, depth in self._shadowing.pop(region, ()):
                if op.has_trait(IsolatedFromAbove):
                    continue
                if depth >= len(self.scopes):
                    raise SyntaxFault(f"redefinition of value {token}", token)
                self.scopes[-1].shadows.append((token, depth))

    # ---- regions ----

    def enter_region(self, args: Sequence[tuple[Token | None, Attribute]] = ()) -> None:
        """The region that opens next has an entry block with these arguments, named by the operation's header."""
        self._entry = args

    def cancel_region(self) -> None:
        """The header was not followed by a region after all."""
        self._entry = None

    def region_open(self) -> None:
        """``{``."""
        scope = Scope()
        self.scopes.append(scope)
        entry = self._entry
        self._entry = None
        if entry is not None and not entry:
            scope.needs_block = True
        elif entry is not None:
            block = scope.block = Block(arg_types=[t for _, t in entry])
            scope.region.add_block(block)
            for (token, _), arg in zip(entry, block.args):
                if token is not None:
                    arg.location = self.location(token.pos)
                    self.define(token, (arg,))

    def block_operation(self, _: Any, op: Operation) -> None:
        """An operation at the end of the current block."""
        scope = self.scopes[-1]
        block = scope.block
        if block is None:
            block = scope.block = Block()
            scope.region.add_block(block)
        block.add_op(op)

    def successor(self, token: Token) -> Block:
        """``^bb1`` as a successor."""
        if not self.scopes:
            raise SyntaxFault("a successor outside of a region", token)
        return self._block(token)

    def _block(self, token: Token) -> Block:
        scope = self.scopes[-1]
        block = scope.blocks.get(token)
        if block is None:
            block = scope.blocks[str(token)] = Block()
            scope.forward[str(token)] = token
            name = token[1:]
            if Block.is_valid_name(name) and not Block.is_default_block_name(name):
                block.name_hint = name
        return block

    def block_head(self, token: Token, args: list[tuple[Any, ...]]) -> None:
        """``^bb1(%a: i32):``."""
        scope = self.scopes[-1]
        block = self._block(token)
        if scope.forward.pop(token, None) is None:
            raise SyntaxFault(f"redefinition of block {token}", token)
        for name, type_, *location in args:
            arg = block.insert_arg(type_, len(block.args))
            arg.location = location[0] if location else self.location(name.pos)
            self.define(name, (arg,))
        scope.region.add_block(block)
        scope.block = block

    def region_close(self, _open: None, _ops: None, _blocks: None) -> Region:
        """``}``."""
        scope = self.scopes.pop()
        for token in scope.forward.values():
            self.report(self._undefined(token, "reference to undefined block"))
        if scope.needs_block and not scope.region.blocks:
            scope.region.add_block(Block())
        self._leave(scope)
        if scope.shadows:
            self._shadowing[scope.region] = scope.shadows
        return scope.region

    def _leave(self, scope: Scope) -> None:
        """Names of a region end with it."""
        values = self.values
        for name in scope.names:
            values.pop(name, None)
        values.update(scope.restore)

    # ---- for the syntax of dialects ----

    def error(self, message: str, token: Token | None = None) -> Exception:
        """An error at a token, to be raised; ``ValueError`` points at the operation's name."""
        return ValueError(message) if token is None else SyntaxFault(message, token)

    def ensure_terminator(self, op: Operation) -> None:
        """Adds the implicit terminator that the operation's traits ask for."""
        for trait in op.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(op, trait)


def _file_location(file: StringAttr, line: int, column: int) -> LocationAttr:
    """A location without the checks of its constructor: there is one for every operation."""
    new, set_ = object.__new__, object.__setattr__
    made = new(FileLineColLoc)
    row, col = new(IntAttr), new(IntAttr)
    set_(row, "data", line)
    set_(col, "data", column)
    set_(made, "filename", file)
    set_(made, "line", row)
    set_(made, "column", col)
    return made


__all__ = ["UNKNOWN_LOC", "Builder", "Operand", "Placeholder", "UnregisteredOp"]
