"""Rules and builders from ``assembly_format``: every declaratively formatted operation gets its pretty form for free.

An operation's format is a sequence of directives (operands, types, attributes, keywords, optional groups). It becomes
a *shape*, the sequence of grammar symbols, and a *plan*, which says where each child goes. Operations of one shape
share a rule and a terminal. xDSL's own machinery then infers the types and builds the operation, so both agree on
what a format means.

A format may be ambiguous where an optional part is absent (``$operands`` at the end, before an operation with
results). LALR takes the optional part; :func:`FormatSyntax.printable` refuses the pretty form of just those
operations whose text would be read otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import chain
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i64,
)
from xdsl.dialects.utils.bit_enum_attribute import BitEnumAttribute
from xdsl.dialects.utils.dynamic_index_list import DynamicIndexList
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, OptionalDef, ParsePropInAttrDict, VarIRConstruct
from xdsl.irdl import declarative_assembly_format as f
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import ParseError, VerifyException

from .ambiguity import FOLLOW_OPERATION, FOLLOW_TERMINATOR, Groups, Items, guards
from .dense import pack_elements
from .driver import SyntaxFault, Token, describe
from .fragment import AttrSyntax, fragment_of
from .mlir_formats import FORMATS
from .reduce_attrs import UNIT, unquote

Setter = Callable[[Any, f.ParsingState, Any], None]
"""``set(builder, state, child)``."""


class Unsupported(Exception):
    """The format uses something that has no rule."""


@dataclass(eq=False)
class Shape:
    """A shape and its plan."""

    symbols: list[str] = field(default_factory=list)
    plan: list[tuple[int, Setter]] = field(default_factory=list)
    """(position of the child, or -1 for none; setter)."""
    directives: Items = field(default_factory=list)
    """The directive behind each symbol, for the check of ambiguity."""

    def add(self, directive: f.Directive, symbol: str, setter: Setter | None = None) -> None:
        """One more symbol."""
        if setter is not None:
            self.plan.append((sum(not s.startswith('"') for s in self.symbols), setter))
        self.symbols.append(symbol)
        self.directives.append((symbol, directive))


@dataclass(frozen=True, eq=False)
class FormatSyntax:
    """Pretty form of an operation with an ``assembly_format``."""

    op: type[IRDLOperation]
    rule: str
    helpers: tuple[str, ...]
    """Rules that the shape uses."""
    sequence: Shape
    program: f.FormatProgram
    printed: f.FormatProgram
    """The same for printing."""
    guards: tuple[Callable[[Any], bool], ...]
    """Conditions on an operation under which its text reads back as printed."""
    guards_inside: tuple[Callable[[Any], bool], ...]
    """The same where another operation follows in the block."""
    spellings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self.op.name

    def build(self, builder: Any, *children: Any) -> Operation:
        """The operation, from the children of its rule."""
        op_def = self.op.get_irdl_definition()
        state = f.ParsingState(self.op)
        run_plan(self.sequence, builder, state, children)
        self.program.resolve_constraint_variables(state, op_def)
        operand_types = self.program.resolve_operand_types(state, op_def)
        result_types = self.program.resolve_result_types(state, op_def)
        operands = [
            builder.resolve_all(cast(Any, unresolved), types)
            for unresolved, types in zip(state.operands, operand_types)
        ]
        if all(isinstance(option, ParsePropInAttrDict) for option in op_def.options):
            # No segment sizes to compute: the general constructor would cost as much as all the rest.
            return self.op.create(
                operands=list(chain.from_iterable(operands)),
                result_types=list(chain.from_iterable(result_types)),
                attributes=state.attributes,
                properties=state.properties,
                regions=list(chain.from_iterable(cast(Any, state.regions))),
                successors=list(chain.from_iterable(cast(Any, state.successors))),
            )
        return self.op.build(
            result_types=result_types,
            operands=operands,
            attributes=state.attributes,
            properties=state.properties,
            regions=cast(Any, state.regions),
            successors=cast(Any, state.successors),
        )

    def print(self, printer: Any, op: Any) -> None:
        """Prints what stands after the name."""
        self.printed.print(printer, op)

    def printable(self, op: Any) -> bool:
        """Whether the text of this very operation is read back as printed."""
        if op.attributes and not op.attributes.keys().isdisjoint(self.op.get_irdl_definition().properties):
            return False
        guards = self.guards if op.next_op is None else self.guards_inside
        return all(guard(op) for guard in guards)


def run_plan(sequence: Shape, builder: Any, state: f.ParsingState, children: Sequence[Any]) -> None:
    """Puts the children of a shape where they belong."""
    for position, setter in sequence.plan:
        setter(builder, state, None if position < 0 else children[position])


def format_syntax(cls: type[Operation]) -> FormatSyntax | str:
    """The syntax that an operation's ``assembly_format`` gives, or why it gives none."""
    return _format_syntax(cls)


@cache
def _format_syntax(cls: type[Operation]) -> FormatSyntax | str:
    if not issubclass(cls, IRDLOperation) or _format(cls) is None:
        return "it has no assembly format"
    program = _program(cls)
    maker = _ShapeMaker(cls)
    try:
        sequence = maker.sequence(program.stmts)
    except Unsupported as reason:
        return str(reason)
    follow = FOLLOW_TERMINATOR if cls.has_trait(IsTerminator) else FOLLOW_OPERATION
    return FormatSyntax(
        op=cls,
        rule=" ".join(sequence.symbols),
        helpers=tuple(maker.helpers.values()),
        sequence=sequence,
        program=program,
        printed=f.FormatProgram(tuple(map(_explicit, program.stmts))),
        guards=tuple(guards(sequence.directives, follow, maker.groups)),
        guards_inside=tuple(guards(sequence.directives, FOLLOW_OPERATION, maker.groups)),
    )


def _program(cls: type[IRDLOperation]) -> f.FormatProgram:
    """The parsed format. xDSL keeps it in the closure of the print function it makes; parsing it again costs .3
    ms."""
    for cell in getattr(cls.print, "__closure__", None) or ():
        if isinstance(cell.cell_contents, f.FormatProgram):
            return cell.cell_contents
    return f.FormatProgram.from_str(cast(str, _format(cls)), cls.get_irdl_definition())


def _format(cls: type[IRDLOperation]) -> str | None:
    declared = cls.get_irdl_definition().assembly_format
    if declared is None and cls.__module__.startswith("xdsl."):
        return FORMATS.get(cls.name)
    return declared


class _FullDictionary(f.AttrDictDirective):
    """Prints optional properties that are there with their default value: xDSL leaves them out, and they get lost."""

    def print(self, printer: Any, state: f.PrintingState, op: IRDLOperation) -> None:
        """The dictionary."""
        if not op.attributes.keys().isdisjoint(self.expected_properties):
            raise ValueError("an attribute bears the name of a property")
        op_def = op.get_irdl_definition()
        shown = op.attributes | {k: v for k, v in op.properties.items() if k in self.expected_properties}
        defs = {k: op_def.properties[k] for k in self.expected_properties} | op_def.attributes
        said = {
            k
            for k, d in defs.items()
            if not isinstance(d, OptionalDef) and d.default_value is not None and shown.get(k) == d.default_value
        }
        printed = printer.print_op_attributes(
            shown, reserved_attr_names=self.reserved_attr_names | said, print_keyword=self.with_keyword
        )
        if printed:
            state.last_was_punctuation = False
            state.should_emit_space = True


def _explicit(directive: f.FormatDirective) -> f.FormatDirective:
    if not isinstance(directive, f.AttrDictDirective):
        return directive
    return _FullDictionary(**{field.name: getattr(directive, field.name) for field in fields(directive)})


# ---- directives to symbols ----


class _ShapeMaker:
    """Collects the helper rules (optional groups, bodies of attributes) that one format needs."""

    def __init__(self, cls: type[IRDLOperation]) -> None:
        definition = cls.get_irdl_definition()
        members = (*definition.properties.items(), *definition.attributes.items())
        self.strings = {name for name, d in members if d.constr.get_bases() == {StringAttr}}
        self.strings |= {n for n, real in definition.accessor_names.items() if real[0] in self.strings}
        self.helpers: dict[str, str] = {}
        self.present: set[str] = set()
        """Variables that are there wherever the optional group around is."""
        self.groups: Groups = {}

    def sequence(self, directives: Sequence[f.FormatDirective], present: bool = False) -> Shape:
        """Shape of directives; ``present``: the first one is not absent (it stands first in an optional group)."""
        out = Shape()
        for directive in directives:
            if isinstance(directive, f.WhitespaceDirective):
                continue
            if isinstance(directive, f.OptionalGroupDirective):
                self._group(out, directive)
            else:
                self._directive(out, directive, present)
            present = False
        return out

    def _group(self, out: Shape, group: f.OptionalGroupDirective) -> None:
        outer, self.present = self.present, self.present | _names(group.anchor)
        then = self.sequence([group.then_first, *group.then_elements], present=True)
        self.present = outer
        other = self.sequence(group.else_elements)
        if not then.symbols:
            raise Unsupported("an optional group without syntax")
        body = f"{' '.join(then.symbols)} -> group_then\n    | {' '.join(other.symbols)} -> group_else"
        name = f"group_{short_hash(body)}"
        self.helpers[name] = f"{name}: {body}"
        self.groups[name] = (then.directives, other.directives)

        def set_group(builder: Any, state: f.ParsingState, child: tuple[bool, tuple[Any, ...]]) -> None:
            taken, children = child
            chosen, skipped = (
                (then, group.else_elements) if taken else (other, (group.then_first, *group.then_elements))
            )
            for directive in skipped:
                directive.set_empty(state)
            run_plan(chosen, builder, state, children)

        out.add(group, name, set_group)

    def _directive(self, out: Shape, d: f.FormatDirective, present: bool) -> None:
        opt = "" if present or self.present & _names(d) else "_opt"
        match d:
            case f.PunctuationDirective():
                out.add(d, _literal(d.punctuation))
            case f.KeywordDirective():
                out.add(d, _literal(d.keyword))
            case f.OptionalUnitAttrVariable():
                out.plan.append((-1, lambda b, s, v: d.set(s, UNIT)))
            case f.OptionalOperandVariable():
                out.add(d, f"operand{opt}", lambda b, s, v: _put(s.operands, d.index, _optional(v)))
            case f.VariadicOperandVariable():
                out.add(d, f"operands{opt}", lambda b, s, v: _put(s.operands, d.index, v))
            case f.OperandVariable():
                out.add(d, "operand", lambda b, s, v: _put(s.operands, d.index, (v,)))
            case f.OperandsDirective():
                out.add(d, f"operands{opt}", lambda b, s, v: _set_operands(d, s, v))
            case f.TypeDirective():
                self._type(out, d, opt)
            case f.FunctionalTypeDirective():
                out.add(d, "fn_sig", lambda b, s, v: _set_signature(d, s, v))
            case f.AttrDictDirective():
                symbol = "attr_dict_kw" if d.with_keyword else "attr_dict_opt"
                out.add(d, symbol, lambda b, s, v: _set_dictionary(d, s, v))
            case f.OptionalRegionVariable():
                out.add(d, f"region{opt}", lambda b, s, v: _put(s.regions, d.index, _optional(v)))
            case f.VariadicRegionVariable():
                out.add(d, f"regions{opt}", lambda b, s, v: _put(s.regions, d.index, v))
            case f.RegionVariable():
                out.add(d, "region", lambda b, s, v: _put(s.regions, d.index, (v,)))
            case f.OptionalSuccessorVariable():
                out.add(d, f"successor{opt}", lambda b, s, v: _put(s.successors, d.index, _optional(v)))
            case f.VariadicSuccessorVariable():
                out.add(d, f"successors{opt}", lambda b, s, v: _put(s.successors, d.index, v))
            case f.SuccessorVariable():
                out.add(d, "successor", lambda b, s, v: _put(s.successors, d.index, (v,)))
            case DynamicIndexList():
                out.add(d, "index_list", lambda b, s, v: _set_indices(d, s, v))
            case f.AttributeVariable():
                self._attribute(out, d, present)
            case _:
                raise Unsupported(f"directive {type(d).__name__} has no rule")

    def _type(self, out: Shape, d: f.TypeDirective, opt: str) -> None:
        inner = d.inner
        if isinstance(inner, f.VariadicOperandVariable | f.VariadicResultVariable | f.OperandsOrResultDirective):
            out.add(d, f"types{opt}", lambda b, s, v: inner.set_types(s, v))
        elif isinstance(inner, f.OptionalOperandVariable | f.OptionalResultVariable):
            out.add(d, f"type{opt}", lambda b, s, v: inner.set_types(s, _optional(v)))
        else:
            out.add(d, "type", lambda b, s, v: inner.set_types(s, (v,)))

    def _attribute(self, out: Shape, d: f.AttributeVariable, present: bool) -> None:
        opt = d.is_optional and not present and d.name not in self.present
        match d:
            case f.SymbolNameAttributeVariable():
                out.add(d, "symbol_opt" if opt else "symbol", lambda b, s, v: _set(d, s, v and StringAttr(v)))
            case f.DenseArrayAttributeVariable():
                element = d.elt_type
                symbol = self._optional("number_list") if opt else "number_list"
                out.add(d, symbol, lambda b, s, v: _set(d, s, None if v is None else _dense_array(element, v)))
            case f.TypedAttributeVariable():
                self._typed(out, d, opt)
            case f.UniqueBaseAttributeVariable():
                body, make = self._body(d.unique_base)
                symbol = self._optional(body) if opt else body
                out.add(d, symbol, lambda b, s, v: _set(d, s, None if v is None else make(b, v)))
            case _ if d.name in self.strings:
                # Read as a plain string: a type that follows it is the format's.
                symbol = self._optional("string") if opt else "string"
                out.add(d, symbol, lambda b, s, v: _set(d, s, None if v is None else StringAttr(v)))
            case _:
                out.add(d, "attr_opt" if opt else "attr", lambda b, s, v: _set(d, s, v))

    def _typed(self, out: Shape, d: f.TypedAttributeVariable, opt: bool) -> None:
        type_ = d.unique_type
        if d.unique_base is not IntegerAttr and d.unique_base is not FloatAttr:
            raise Unsupported(f"a typed attribute of class {d.unique_base.__name__}")
        base = "array_item" if type_ == i1 else "number"
        symbol = self._optional(base) if opt else base

        def set_number(b: Any, s: f.ParsingState, v: Any) -> None:
            _set(d, s, None if v is None else b.number_attr(int(v) if type(v) is bool else v, type_))

        out.add(d, symbol, set_number)

    def _optional(self, symbol: str) -> str:
        name = f"optional_{symbol}"
        self.helpers[name] = f"{name}: -> nothing\n    | {symbol}"
        return name

    def _body(self, cls: type[Attribute]) -> tuple[str, Callable[[Any, Any], Attribute]]:
        """Symbol for an attribute written without ``#dialect.name``, and what makes the attribute of its child."""
        fragment = fragment_of(cls)
        syntax = fragment and fragment.attr_syntax(cls)
        if fragment is not None and syntax:
            name, rule = attr_body_rule(syntax)
            self.helpers[name] = rule
            return name, lambda b, v: cast(Attribute, syntax.build(b, *v))
        if issubclass(cls, BitEnumAttribute):
            return "angle_body", lambda b, v: _parse_body(b, cls, v)
        if issubclass(cls, EnumAttribute) and _method(cls) is _method(EnumAttribute):
            return "enum_word", lambda b, v: _enum(cls, v)
        if issubclass(cls, ParametrizedAttribute) and not cls.get_irdl_definition().parameters:
            raise Unsupported(f"attribute {cls.name} has no parameters")
        if not _in_brackets(cls):
            raise Unsupported(f"attribute {cls.name} does not begin with '<'")
        return "angle_body", lambda b, v: _parse_body(b, cls, v)


def _in_brackets(cls: type[Attribute]) -> bool:
    """Whether a class's own parse method reads ``<...>``: if it does not name the bracket, xDSL has to parse it."""
    if issubclass(cls, ParametrizedAttribute) and _method(cls) is _method(ParametrizedAttribute):
        return True
    code = _method(cls).__code__
    return "<" in code.co_consts or not {"in_angle_brackets", "ANGLE"}.isdisjoint(code.co_names)


def _method(cls: Any) -> Any:
    """The function with which a class reads its parameters."""
    return (cls.parse_parameters if issubclass(cls, ParametrizedAttribute) else cls.parse_parameter).__func__


def attr_body_rule(syntax: AttrSyntax) -> tuple[str, str]:
    """Name and text of the rule for what stands after ``#dialect.name``."""
    name = f"body_{short_hash(syntax.rule)}"
    return name, f"{name}: {syntax.rule} -> tuple_of"


def short_hash(text: str) -> str:
    """Eight hexadecimal digits that name a rule by its text."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _names(directive: f.Directive) -> set[str]:
    """The variable that a directive reads or writes the type of."""
    inner: Any = directive.inner if isinstance(directive, f.TypeDirective) else directive
    named = isinstance(inner, f.VariadicVariable | f.OptionalVariable | f.AttributeVariable)
    return {inner.name} if named else set()


# ---- setters ----


def _put(slots: list[Any], index: int, value: Any) -> None:
    slots[index] = value


def _optional(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def _set(d: f.AttributeVariable, state: f.ParsingState, value: Attribute | None) -> None:
    if value is not None:
        d.set(state, value)


def _set_operands(d: f.OperandsDirective, state: f.ParsingState, value: Any) -> None:
    d._set_using_variadic_index(state.op_type, state.operands, VarIRConstruct.OPERAND, "operand", value)
    for i, found in enumerate(state.operands):
        # An operand is a string or (string, index), so xDSL takes a single one for a list of them.
        pair: Any = found
        if isinstance(pair, Token) or (type(pair) is tuple and len(pair) == 2 and type(pair[1]) is int):
            state.operands[i] = (cast(Any, found),)


def _set_signature(d: f.FunctionalTypeDirective, state: f.ParsingState, value: Any) -> None:
    d.operand_typeable_directive.set_types(state, value[0])
    d.result_typeable_directive.set_types(state, value[1])


def _set_dictionary(d: f.AttrDictDirective, state: f.ParsingState, value: dict[str, Attribute]) -> None:
    if not value:
        return
    reserved = d.reserved_attr_names & value.keys()
    if reserved:
        raise VerifyException(f"attribute '{min(reserved)}' has its own place and cannot stand in the dictionary")
    for key in d.expected_properties & value.keys():
        state.properties[key] = value.pop(key)
    state.attributes |= value


def _set_indices(d: DynamicIndexList, state: f.ParsingState, items: list[Any]) -> None:
    static = [DYNAMIC_INDEX if isinstance(i, tuple | Token) else i for i in items]
    d.static_position.set(state, DenseArrayBase.from_list(i64, static))
    cast(Any, d.dynamic_position).set(state, [i for i in items if isinstance(i, tuple | Token)])


def _dense_array(element: Any, values: list[Any]) -> Attribute:
    from xdsl.dialects.builtin import BytesAttr

    return DenseArrayBase(element, BytesAttr(pack_elements(element, values, Token(""))))


def _enum(cls: type[EnumAttribute[Any]], token: Token) -> Attribute:
    word = unquote(token) if token[0] == '"' else str(token)
    try:
        return cast(Attribute, cls.new(cls.enum_type(word)))
    except ValueError as error:
        names = ", ".join(e.value for e in cls.enum_type)
        raise VerifyException(f"unknown value '{word}', expected one of {names}") from error


def _parse_body(builder: Any, cls: type[Attribute], token: Token) -> Attribute:
    """An attribute's parameters, read by the class's own parser."""
    key = (cls, str(token))
    found = builder.memo.get(key)
    if found is None:
        parser = builder.vocabulary.attribute_parser(builder, token)
        try:
            if issubclass(cls, ParametrizedAttribute):
                found = cls.new(cls.parse_parameters(parser))
            else:
                found = cast(type[Data[Any]], cls).new(cast(type[Data[Any]], cls).parse_parameter(parser))
        except ParseError as error:
            raise SyntaxFault(describe(error), token.pos + error.span.start) from error
        except Exception as error:
            raise SyntaxFault(describe(error), token) from error
        builder.memo[key] = found
    return cast(Attribute, found)


__all__ = ["FormatSyntax", "UnitAttr", "attr_body_rule", "format_syntax", "short_hash"]
