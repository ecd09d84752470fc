"""Composes the grammar of a text from the generic form and the pretty forms of the dialects that occur in it.

A :class:`Language` is what the words of one text mean: which class of operations or attributes a name stands for, how
it is built, and which parse tables read it. The grammar is ``core.lark``, the fragments of the dialects, and one rule
for each *shape* of an operation, in a fixed order: its text is the key of the cached tables (``tables.py``).
Operations of one shape share a terminal, so an operation of a known shape changes no table.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredAttr, UnregisteredOp
from xdsl.ir import Attribute, BuiltinAttribute, Operation, TypeAttribute

from .driver import FOREIGN, Driver
from .formats import FormatSyntax, attr_body_rule, format_syntax, short_hash
from .fragment import AttrSyntax, Fragment, OpSyntax, fragment_of
from .reduce_attrs import attr_class_terminal
from .tables import GrammarError, load_tables

if TYPE_CHECKING:
    from xdsl.parser import Parser

    from .builder import Builder

Syntax = OpSyntax | FormatSyntax

ALLOWED_CONFLICTS: frozenset[str] = frozenset()
"""Shift/reduce conflicts of in-tree fragments that are known and right as resolved (shift)."""


@cache
def core_grammar() -> str:
    """Text of ``core.lark``."""
    return (Path(__file__).parent / "core.lark").read_text()


def op_syntax_of(cls: type[Operation]) -> Syntax | None:
    """The pretty form of an operation: its fragment's, else its ``assembly_format``'s, else None."""
    fragment = fragment_of(cls)
    if fragment is not None and is_accepted(fragment):
        syntax = fragment.op_syntax(cls)
        if syntax is not None:
            return syntax
    found = format_syntax(cls)
    return None if isinstance(found, str) else found


def attr_syntax_of(cls: type[Attribute]) -> AttrSyntax | None:
    """The syntax that a fragment gives an attribute or type, if any."""
    fragment = fragment_of(cls)
    return fragment.attr_syntax(cls) if fragment is not None and is_accepted(fragment) else None


@cache
def is_accepted(fragment: Fragment) -> bool:
    """Whether a fragment's rules are unambiguous; otherwise warns, once, and its operations stay generic.

    The package's own fragments are checked by its tests; others are checked here against the generic form."""
    if _is_own(fragment):
        return True
    problem = fragment_problem(fragment)
    if problem is not None:
        names = ", ".join([s.op.name for s in fragment.ops] + [s.attr.name for s in fragment.attributes])
        warnings.warn(f"syntax of {names} is refused, the generic form is used: {problem}", stacklevel=2)
    return problem is None


def fragment_problem(fragment: Fragment) -> str | None:
    """What is wrong with a fragment: Lark's message, or its conflicts."""
    grammar, _ = compose([fragment], list(fragment.ops), list(fragment.attributes))
    try:
        conflicts = set(load_tables(grammar).conflicts) - ALLOWED_CONFLICTS
    except GrammarError as error:
        return str(error).strip().splitlines()[0]
    return f"ambiguous after {sorted(conflicts)[0]}" if conflicts else None


def _is_own(fragment: Fragment) -> bool:
    root = __name__.partition(".")[0] + "."
    owners = [s.build.__module__ for s in fragment.ops] + [s.build.__module__ for s in fragment.attributes]
    return bool(owners) and all(owner.startswith(root) for owner in owners)


# ---- the text of a grammar ----


def op_terminal(syntax: Syntax) -> str:
    """Terminal that stands for the names of all operations of one rule."""
    return f"OP_{short_hash(syntax.rule).upper()}"


def attr_terminal(syntax: AttrSyntax) -> str:
    """Terminal that stands for the names of all attributes (or types) of one rule."""
    kind = "SYNTAX_TYPE" if issubclass(syntax.attr, TypeAttribute) else "SYNTAX_ATTR"
    return f"{kind}_{short_hash(syntax.rule).upper()}"


def compose(
    fragments: Iterable[Fragment], ops: Iterable[Syntax], attrs: Iterable[AttrSyntax]
) -> tuple[str, dict[str, Callable[..., Any]]]:
    """Text of a grammar, and the functions that its fragments name."""
    declared: set[str] = set()
    op_rules: set[str] = set()
    attr_rules: set[str] = set()
    type_rules: set[str] = set()
    helpers: dict[str, str] = {}
    for op in ops:
        terminal = op_terminal(op)
        declared.add(terminal)
        op_rules.add(f"{terminal} {op.rule} -> pretty_op")
        for helper in op.helpers if isinstance(op, FormatSyntax) else ():
            helpers[helper.partition(":")[0]] = helper
    for attr in attrs:
        terminal = attr_terminal(attr)
        name, rule = attr_body_rule(attr)
        declared.add(terminal)
        helpers[name] = rule
        (type_rules if terminal.startswith("SYNTAX_TYPE") else attr_rules).add(f"{terminal} {name} -> pretty_attr")
    parts = [core_grammar()]
    actions: dict[str, Callable[..., Any]] = {}
    for fragment in fragments:
        if fragment.rules.strip():
            parts.append(_dedent(fragment.rules))
        actions.update(fragment.actions)
    if declared:
        parts.append("%declare " + " ".join(sorted(declared)))
    for origin, rules in (("op_body", op_rules), ("hash_attr", attr_rules), ("bang_type", type_rules)):
        if rules:
            parts.append(f"%extend {origin}: " + "\n    | ".join(sorted(rules)))
    parts += [helpers[name] for name in sorted(helpers)]
    return "\n".join(parts) + "\n", actions


def _dedent(rules: str) -> str:
    """Rules begin in the first column, alternatives are indented, as Lark wants it."""
    lines = [line.strip() for line in rules.strip().splitlines()]
    return "\n".join(f"    {line}" if line.startswith("|") else line for line in lines)


@lru_cache(maxsize=64)
def _driver(grammar: str, fragments: tuple[Fragment, ...]) -> Driver:
    from .builder import Builder

    functions: dict[str, Callable[..., Any]] = {}
    for fragment in fragments:
        functions.update(fragment.actions)

    def resolve(name: str) -> Callable[..., Any]:
        found = functions.get(name) or getattr(Builder, name, None)
        if found is None:
            raise GrammarError(f"no function for the action '{name}'")
        return found

    return Driver(load_tables(grammar), resolve)


# ---- what the words of a text mean ----

_NO_PARSE = Operation.parse.__func__  # type: ignore[attr-defined]

_LAST_WORD = re.compile(r"[a-zA-Z_]\w*\Z", re.ASCII)
_OPAQUE = re.compile(r"[#!]([a-zA-Z_]\w*)<", re.ASCII)
_LONGEST_NAME = 80
_LONGEST_ATTRIBUTE = 100_000
"""Characters in which an attribute must end that reads on after its brackets."""


def dialects_in(text: str) -> set[str]:
    """Names that may be dialects in a text: every word before a dot, and ``#name<``."""
    found = {"builtin", "func", *_OPAQUE.findall(text)}
    for tail in {piece[-_LONGEST_NAME:] for piece in text.split(".")}:
        word = _LAST_WORD.search(tail)
        if word is not None:
            found.add(word[0])
    return found


class Language:
    """Vocabulary and parse tables for the dialects that occur in a text."""

    def __init__(self, context: Context, names: Iterable[str]) -> None:
        self.context = context
        self._ops: dict[str, Syntax] = {}
        self._op_terminals: dict[str, str] = {}
        self._attrs: dict[tuple[str, bool], AttrSyntax] = {}
        self._attr_terminals: dict[tuple[str, bool], str | None] = {}
        self._fragments: dict[Fragment, None] = {}
        self._complete: dict[str, bool] = {}
        self._dialects = {*names, "builtin"}
        for name in sorted(self._dialects):
            context.get_optional_dialect(name)
        self._add_operations()
        self._add_attributes()
        self.driver = self._make_driver()

    def _add_operations(self) -> None:
        for cls in self.context.loaded_ops:
            if cls.name.partition(".")[0] not in self._dialects or issubclass(cls, UnregisteredOp):
                continue
            syntax = op_syntax_of(cls)
            if syntax is None:
                if getattr(cls.parse, "__func__", None) is not _NO_PARSE:
                    self._op_terminals[cls.name] = FOREIGN
                continue
            fragment = fragment_of(cls)
            if fragment is not None and isinstance(syntax, OpSyntax):
                self._fragments[fragment] = None
            others = () if fragment is None else (s for s, n in fragment.spellings.items() if n == cls.name)
            for spelling in (cls.name, *syntax.spellings, *others):
                self._ops[spelling] = syntax
                self._op_terminals[spelling] = f"${op_terminal(syntax)}"

    def _add_attributes(self) -> None:
        for cls in (*self.context.loaded_attrs, *self.context.loaded_types):
            if issubclass(cls, BuiltinAttribute) or cls.name.partition(".")[0] not in self._dialects:
                continue
            syntax = attr_syntax_of(cls)
            if syntax is None:
                continue
            fragment = fragment_of(cls)
            if fragment is not None:
                self._fragments[fragment] = None
            key = (cls.name, issubclass(cls, TypeAttribute))
            self._attrs[key] = syntax
            self._attr_terminals[key] = f"${attr_terminal(syntax)}"

    def _make_driver(self) -> Driver:
        fragments = sorted(self._fragments, key=_fragment_key)
        try:
            return self._build_driver(fragments)
        except GrammarError as error:
            own = [f for f in fragments if _is_own(f)]
            if len(own) == len(fragments):
                raise
            warnings.warn(f"the syntax of plugins is refused, the generic form is used: {error}", stacklevel=2)
            for fragment in fragments:
                if fragment not in own:
                    self._drop(fragment)
            return self._build_driver(own)

    def _build_driver(self, fragments: list[Fragment]) -> Driver:
        attrs: dict[AttrSyntax, None] = dict.fromkeys(self._attrs.values())
        grammar, _ = compose(fragments, dict.fromkeys(self._ops.values()), attrs)
        return _driver(grammar, tuple(fragments))

    def _drop(self, fragment: Fragment) -> None:
        self._ops = {n: s for n, s in self._ops.items() if s not in fragment.ops}
        self._op_terminals = {n: t for n, t in self._op_terminals.items() if n in self._ops or t == FOREIGN}
        self._attrs = {k: s for k, s in self._attrs.items() if s not in fragment.attributes}
        self._attr_terminals.clear()

    # ---- Vocabulary ----

    def op_terminal(self, name: str) -> str | None:
        """Terminal of an operation's pretty form."""
        return self._op_terminals.get(name)

    def attr_terminal(self, name: str, is_type: bool) -> str | None:
        """Terminal of an attribute's or type's class."""
        key = (name, is_type)
        if key not in self._attr_terminals:
            get = self.context.get_optional_type if is_type else self.context.get_optional_attr
            cls = get(name)
            self._attr_terminals[key] = None if cls is None else attr_class_terminal(cls)
        return self._attr_terminals[key]

    def op_syntax(self, name: str) -> Syntax:
        """How an operation in its pretty form is built."""
        return self._ops[name]

    def attr_syntax(self, name: str, is_type: bool) -> AttrSyntax:
        """How an attribute or type of a fragment is built."""
        return self._attrs[name, is_type]

    def attr_end(self, text: str, start: int, stop: int) -> int:
        """Where an attribute ends that parses itself: some read ``: type`` after their brackets."""
        source = text[start:stop]
        if source not in self._complete:
            self._complete[source] = _reads(self.context, source) is not None
        if self._complete[source]:
            return stop
        end = _reads(self.context, text[start : start + _LONGEST_ATTRIBUTE])
        return stop if end is None else start + len(text[start : start + end].rstrip())

    # ---- messages ----

    def unknown_op(self, name: str) -> str:
        """Message for an operation that has no class, or no pretty form."""
        if self.context.get_optional_op(name) is not None if "." in name else False:
            cls = self.context.get_op(name)
            reason = format_syntax(cls)
            why = f": {reason}" if isinstance(reason, str) else ""
            return f"operation '{name}' has no pretty form{why}; write it in the generic form, \"{name}\"(...)"
        dialect = name.partition(".")[0]
        if "." in name and self.context.get_optional_dialect(dialect) is None:
            near = did_you_mean(dialect, self.context.registered_dialect_names)
            return f"unknown operation '{name}': there is no dialect '{dialect}'{near}"
        known = {op.name for op in self.context.loaded_ops} | self._ops.keys()
        return f"unknown operation '{name}'{did_you_mean(name, known)}"

    def unknown_attr(self, name: str, is_type: bool) -> str:
        """Message for an attribute or type that has no class."""
        loaded = self.context.loaded_types if is_type else self.context.loaded_attrs
        known = {a.name for a in loaded if not issubclass(a, UnregisteredAttr)}
        return f"unknown {'type' if is_type else 'attribute'} '{name}'{did_you_mean(name, known)}"

    def attribute_parser(self, builder: Builder, text: str) -> Parser:
        """xDSL's attribute parser over a slice of the text; it reads nested attributes of ours as well."""
        from .slices import SliceParser

        return SliceParser(builder, text)


def _reads(context: Context, text: str) -> int | None:
    """Where the attribute ends that a text begins with, None if it is malformed."""
    from xdsl.parser import Parser

    from .slices import read_with_linear_lexer

    parser = Parser(context, "")
    try:
        read_with_linear_lexer(parser, text)
        parser.parse_attribute()
    except Exception:
        return None
    return parser.pos


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean '...'?`` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, sorted(known), 1, 0.7)
    return f"; did you mean '{near[0]}'?" if near else ""


def _fragment_key(fragment: Fragment) -> str:
    names = [s.op.name for s in fragment.ops] + [s.attr.name for s in fragment.attributes]
    return min(names, default="")
