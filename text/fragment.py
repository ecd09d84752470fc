"""Pretty syntax of a dialect that ``assembly_format`` cannot express: a *fragment* of the grammar.

First try ``assembly_format``: it needs nothing from here. A fragment is for index expressions, regions whose arguments
are named in the operation's header, lists of pairs, and the like. It has three parts per operation: a rule (what stands
after the operation's name), a function that builds the operation from the rule's children, and a function that prints
it.

A complete example, the file ``mydialect/syntax.py``::

    from tilewright.text.fragment import AttrSyntax, Fragment, OpSyntax
    from .ops import ForOp, LoadOp, RangeAttr

    # loop.load %A[%i * 16 + %j, %k] {attributes} : memref<128x64xf32>
    def build_load(b, memref, indices, attributes, type):
        exprs, operands = b.index_exprs(indices)          # (d0 * 16 + d1, d2), [%i, %j, %k]
        op = LoadOp(b.resolve(memref, type), operands, IndexMapAttr(len(operands), exprs))
        op.attributes.update(attributes)
        return op

    def print_load(p, op):
        p.print_string(" ")
        p.print_ssa_value(op.memref)
        p.print_string(f"[{p.index_exprs(op.map.results, op.args)}]")
        p.print_op_attributes(op.attributes)
        p.print_string(" : ")
        p.print_attribute(op.memref.type)

    # loop.for %i = 0 to %n * 2 { ... }: the header is a rule of its own, reduced before the region opens
    def for_head(b, var, zero, extent):
        exprs, operands = b.index_exprs([extent])
        b.enter_region([(var, IndexType())])              # the region's entry arguments: (name, type)
        return exprs, operands

    def build_for(b, head, body, attributes):
        exprs, operands = head
        return ForOp(IndexMapAttr(len(operands), exprs), operands, body)

    def print_for(p, op):
        p.print_string(" ")
        p.print_ssa_value(op.body.block.args[0])
        p.print_string(f" = 0 to {p.index_exprs(op.extent.results, op.args)} ")
        p.print_region(op.body, print_entry_block_args=False)
        p.print_op_attributes(op.attributes, print_keyword=True)

    # #loop.range<[0, 16)>
    def build_range(b, low, high):
        return RangeAttr(low, high)

    def print_range(p, attr):
        p.print_string(f"<[{attr.low}, {attr.high})>")

    FRAGMENT = Fragment(
        ops=(
            OpSyntax(LoadOp, 'operand "[" exprs_opt "]" attr_dict_opt ":" type', build_load, print_load),
            OpSyntax(ForOp, "loop_for_head region attr_dict_kw", build_for, print_for),
        ),
        attributes=(AttrSyntax(RangeAttr, '"<" "[" integer "," integer ")" ">"', build_range, print_range),),
        rules='''
            loop_for_head: PCT_ID "=" INT "to" expr -> loop_for_head
        ''',
        actions={"loop_for_head": for_head},
    )

It is found, lazily, through a module-level string in the module that defines the classes or in any package around it::

    SYNTAX = "mydialect.syntax:FRAGMENT"     # in mydialect/__init__.py or mydialect/ops.py; or the Fragment itself

Rules are Lark's (https://lark-parser.readthedocs.io), LALR(1). A function gets the builder and then the rule's children
in order, *without* literals such as ``"["``; named terminals come as :class:`~tilewright.text.driver.Token` (a ``str``
with ``.pos``), an absent ``[optional]`` as None, and ``x*`` spliced in. Every alternative with other than one child
needs ``-> action``; names of rules and actions begin with the dialect's name. A word is a keyword only where a rule
asks for it.

Ready-made rules, and what they give:

===================================  =================================================================================
``operand``, ``operands[_opt]``      unresolved operand(s); give to ``b.resolve(operand, type)`` / ``b.resolve_all``
``operand_opt``                      unresolved operand or None
``type``, ``types[_opt]``            attribute / list; ``type_opt`` or None; ``fn_sig``: ``(a, b) -> c``, two lists
``attr``, ``attrs``, ``attr_opt``    attribute / list / or None
``attr_dict_opt``                    ``{a = 1}`` or nothing: dict. Not before a region (both begin with ``{``)
``attr_dict_kw``                     ``attributes {a = 1}`` or nothing: dict
``region``, ``region_opt``           Region; entry arguments named by a header: ``b.enter_region``
``symbol``, ``symbol_opt``           ``@name``: str; ``symbol_ref``: SymbolRefAttr
``string``, ``name``, ``integer``    str, Token, int; ``integers_opt`` list; ``int_list``: ``[1, 2]``
``number``, ``number_list``          int, float or bits; give to ``b.number_attr(number, type)``
``PCT_ID``, ``value_names``          names to be defined: Token, list
``block_args``, ``typed_args_opt``   ``%a: i32, %b: f32``: list of (Token, type)
``successor``, ``successors_opt``    Block(s)
``expr``, ``exprs``, ``exprs_opt``   trees over ``%values`` (``b.index_exprs(list)``) or names (``b.named_expr(tree)``)
``index_map``                        ``(d0, d1) -> (d0, d1 floordiv 16)``: ``b.index_map_exprs`` gives (inputs, exprs)
``index_list``                       ``[1, %x, 3]``: list of int and unresolved operands
===================================  =================================================================================

An error at a token: ``raise b.error("message", token)``. Any other exception of a build function (``ValueError``,
``VerifyException``...) becomes an error at the operation's name. The location is set by the caller.

A printer prints what its rule reads, every attribute included; ``print_module`` falls back to the generic form where a
print function raises. A fragment with an ambiguous rule is refused with a warning, and its operations stay generic.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from xdsl.ir import Attribute, Operation

Build = Callable[..., Any]
"""``build(builder, *children)``."""
Print = Callable[[Any, Any], None]
"""``print(printer, operation or attribute)``."""


@dataclass(frozen=True)
class OpSyntax:
    """Pretty form of one operation: ``rule`` is one sequence, what stands after the operation's name.

    ``spellings`` are other names that are read for it (``module`` for ``builtin.module``)."""

    op: type[Operation]
    rule: str
    build: Build
    print: Print
    spellings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self.op.name


@dataclass(frozen=True)
class AttrSyntax:
    """Syntax of one attribute or type: ``rule`` is what stands after ``#dialect.name``, angle brackets included."""

    attr: type[Attribute]
    rule: str
    build: Build
    print: Print


@dataclass(frozen=True, eq=False)
class Fragment:
    """Syntax of a dialect, or of a part of it."""

    ops: tuple[OpSyntax, ...] = ()
    attributes: tuple[AttrSyntax, ...] = ()
    rules: str = ""
    """More rules (and terminals), in Lark's notation."""
    actions: Mapping[str, Build] = field(default_factory=dict)
    """Functions named by ``-> action`` in ``rules``."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other names that are read for operations with an ``assembly_format``: ``{"return": "func.return"}``."""

    def op_syntax(self, cls: type[Operation]) -> OpSyntax | None:
        """Syntax of an operation, if it has one here."""
        return next((s for s in self.ops if s.op is cls), None)

    def attr_syntax(self, cls: type[Attribute]) -> AttrSyntax | None:
        """Syntax of an attribute, if it has one here."""
        return next((s for s in self.attributes if s.attr is cls), None)


def fragment_of(cls: type[Operation] | type[Attribute]) -> Fragment | None:
    """The fragment that the class's module, or a package around it, names in ``SYNTAX``; None if there is none."""
    return _fragment_of_module(cls.__module__)


@cache
def _fragment_of_module(module: str) -> Fragment | None:
    name = module
    while name:
        found = XDSL_FRAGMENTS.get(name) or getattr(sys.modules.get(name), "SYNTAX", None)
        if isinstance(found, Fragment):
            return found
        if found is not None:
            return load_fragment(found)
        name = name.rpartition(".")[0]
    return None


def load_fragment(entry: str) -> Fragment:
    """The fragment of an entry ``module:name``."""
    module, _, name = entry.partition(":")
    found = getattr(import_module(module), name)
    if not isinstance(found, Fragment):
        raise TypeError(f"{entry} is not a Fragment")
    return found


XDSL_FRAGMENTS: Mapping[str, str] = {
    f"xdsl.dialects.{name}": f"{__package__}.syntax.{name}:FRAGMENT"
    for name in ("builtin", "func", "scf", "arith", "memref", "llvm")
}
"""Fragments for xDSL's own dialects, by module."""
