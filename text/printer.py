"""Prints ``.ir`` text that ``parser.py`` reads back to the same IR.

An operation is printed in its pretty form only where the grammar has one for it (``grammar.op_syntax_of``: a fragment
or an ``assembly_format``, the very rules the parser uses), else in the generic form. xDSL's own ``print`` methods are
not used, as some of them lose attributes. :class:`Printer` is an xDSL printer, so that attributes and formats print
themselves with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, Block, BlockArgument, BuiltinAttribute, Operation, Region, SSAValue, TypeAttribute
from xdsl.printer import Printer as XdslPrinter
from xdsl.traits import IsTerminator

from .grammar import Syntax, attr_syntax_of, op_syntax_of
from .print_attrs import float_text, print_builtin, quote, quote_bytes
from .self_printing import says_all

if TYPE_CHECKING:
    from ..core.symbolic import SymExpr

_FRAMES_PER_LEVEL = 30
"""Python frames that one nested region may need."""
_MAX_LEVELS = 5_000
_POSITIONAL = re.compile(r"\bd(\d+)\b")
_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def print_module(
    op: Operation, *, generic: bool = False, locations: bool = False, stream: IO[str] | None = None
) -> str:
    """The text of an operation, ending in a newline; also written to ``stream``.

    ``generic`` prints every operation in the generic form, ``locations`` adds ``loc(...)``."""
    printer = Printer(generic=generic, locations=locations)
    with _deep_recursion(op):
        printer.print_op(op)
    text = printer.text() + "\n" + printer.resources()
    if stream is not None:
        stream.write(text)
    return text


def print_attribute(attr: Attribute) -> str:
    """The text of an attribute or type."""
    printer = Printer()
    printer.print_attribute(attr)
    return printer.text()


class _Chunks:
    """The stream behind a printer: a list of strings."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.write = self.parts.append


class Printer(XdslPrinter):
    """Prints to a list of strings; see the module for what it guarantees."""

    def __init__(self, *, generic: bool = False, locations: bool = False) -> None:
        self._chunks = _Chunks()
        super().__init__(self._chunks, print_generic_format=generic, print_debuginfo=locations)  # type: ignore
        self._parts = self._chunks.parts
        self._attr_texts: dict[int, tuple[Attribute, str]] = {}
        self._used: set[str] = set()
        self._counter = 0
        self._suffixes: dict[str, int] = {}
        self._region_names: list[str] = []
        """Names of the values defined in the region being printed; they are free again after it."""
        self._syntaxes: dict[type[Operation], Syntax | None] = {}
        self._resource_names: dict[str, dict[str, None]] = {}

    def text(self) -> str:
        """Everything printed so far."""
        return "".join(self._parts)

    def resources(self) -> str:
        """The section with the contents of the named resources that were printed, if any has contents.

        Weights of models are not among them: they lie in a table of their own, beside the text."""
        if "builtin" not in self._resource_names:
            return ""
        interface = b.Builtin.get_interface(OpAsmDialectInterface)
        found = interface.build_resources(self._resource_names["builtin"]) if interface is not None else {}
        if not found:
            return ""
        names = ((name if _BARE.fullmatch(name) else quote(name), value) for name, value in sorted(found.items()))
        entries = ",\n".join(f"      {name}: {quote(value)}" for name, value in names)
        return f"\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{entries}\n    }}\n  }}\n#-}}\n"

    # ---- strings ----

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Prints text; a newline in it is followed by the indentation."""
        if "\n" in text:
            text = text.replace("\n", "\n" + "  " * (self._indent if indent is None else indent))
        self._parts.append(text)

    def print_content(self, text: str, *, indent: int | None = None) -> None:
        """Same as :meth:`print_string`."""
        self.print_string(text, indent=indent)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self._parts.append("\n" + "  " * (self._indent if indent is None else indent))

    def print_bytes_literal(self, bytestring: bytes) -> None:
        """A string literal of bytes."""
        self._parts.append(quote_bytes(bytestring))

    def print_string_literal(self, string: str) -> None:
        """A string literal."""
        self._parts.append(quote(string))

    def print_identifier_or_string_literal(self, string: str | b.StringAttr) -> None:
        """A name, in quotes if it is no identifier."""
        name = string.data if isinstance(string, b.StringAttr) else string
        self._parts.append(name if _BARE.fullmatch(name) else quote(name))

    def print_symbol_name(self, sym_name: str | b.StringAttr) -> None:
        """``@name``."""
        name = sym_name.data if isinstance(sym_name, b.StringAttr) else sym_name
        self._parts.append("@" + (name if _BARE.fullmatch(name) else quote(name)))

    def print_float(self, value: float, type: b.AnyFloat) -> None:
        """A float that reads back to the same bits."""
        self._parts.append(float_text(value, type))

    def print_resource_handle(self, dialect: str, handle: str) -> None:
        """A resource's name."""
        self._resource_names.setdefault(dialect, {})[handle] = None
        self.print_identifier_or_string_literal(handle)

    # ---- values ----

    def value_name(self, value: SSAValue) -> str:
        """``%name`` of a value, given at its first appearance."""
        name = self._ssa_values.get(value)
        if name is None:
            name = self._ssa_values[value] = "%" + self._new_name(value.name_hint)
        return name

    def _new_name(self, hint: str | None) -> str:
        used = self._used
        if hint is None:
            while (name := str(self._counter)) in used:
                self._counter += 1
            self._counter += 1
        elif hint not in used:
            name = hint
        else:
            count = self._suffixes.get(hint, 1)
            while (name := f"{hint}_{count}") in used:
                count += 1
            self._suffixes[hint] = count + 1
        used.add(name)
        return name

    def print_ssa_value(self, value: SSAValue) -> str:
        """``%name``."""
        name = self.value_name(value)
        self._parts.append(name)
        return name[1:]

    def print_operand(self, operand: SSAValue) -> None:
        """``%name``."""
        self._parts.append(self.value_name(operand))

    def print_values(self, values: Sequence[SSAValue]) -> None:
        """``%a, %b``."""
        self._parts.append(", ".join(map(self.value_name, values)))

    def index_exprs(self, exprs: Sequence[SymExpr], operands: Sequence[SSAValue]) -> str:
        """Index expressions with the names of the operands for ``d0, d1, ...``: ``%i * 16 + %j, %k``."""
        return ", ".join(self.index_expr(e, operands) for e in exprs)

    def index_expr(self, expr: SymExpr, operands: Sequence[SSAValue]) -> str:
        """One index expression; see :meth:`index_exprs`."""
        return _POSITIONAL.sub(lambda m: self.value_name(operands[int(m[1])]), str(expr))

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        """``%a: type``."""
        self._parts.append(self.value_name(arg))
        if print_type:
            self._parts.append(": ")
            self.print_attribute(arg.type)
            self.print_location(arg.location)

    def print_block_arguments(self, args: Sequence[SSAValue]) -> None:
        """``%a: i32, %b: f32``."""
        self.print_list(args, self.print_block_argument)  # type: ignore[arg-type]

    def print_location(self, location: Attribute) -> None:
        """`` loc(...)`` if locations are asked for."""
        if self.print_debuginfo:
            self._parts.append(" ")
            self.print_attribute(location)

    # ---- attributes ----

    def print_attribute(self, attribute: Attribute) -> None:
        """An attribute or type."""
        if self.printing_location:
            self._print_attribute(attribute)
            return
        known = self._attr_texts.get(id(attribute))
        if known is not None:
            self._parts.append(known[1])
            return
        parts = self._parts
        mark = len(parts)
        self._print_attribute(attribute)
        text = parts[mark] if len(parts) == mark + 1 else "".join(parts[mark:])
        parts[mark:] = [text]
        self._attr_texts[id(attribute)] = (attribute, text)

    def _print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, BuiltinAttribute):
            if not print_builtin(self, attribute):
                attribute.print_builtin(self)
            return
        syntax = attr_syntax_of(type(attribute))
        if syntax is None:
            super().print_attribute(attribute)
            return
        self._parts.append(("!" if isinstance(attribute, TypeAttribute) else "#") + attribute.name)
        syntax.print(self, attribute)

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        """``{a, b = 1}``, sorted by name as MLIR does: equal operations have equal text."""
        self._parts.append("{")
        for i, name in enumerate(sorted(attr_dict)):
            value = attr_dict[name]
            self._parts.append((", " if i else "") + (name if _BARE.fullmatch(name) else quote(name)))
            if not isinstance(value, b.UnitAttr):
                self._parts.append(" = ")
                self.print_attribute(value)
        self._parts.append("}")

    def types(self, values: Sequence[SSAValue]) -> str:
        """``f32, i32``: the types of values."""
        return ", ".join(self.attribute_text(v.type) for v in values)

    def attribute_text(self, attribute: Attribute) -> str:
        """Text of an attribute, without printing it."""
        mark = len(self._parts)
        self.print_attribute(attribute)
        text = "".join(self._parts[mark:])
        del self._parts[mark:]
        return text

    # ---- operations ----

    def print_op(self, op: Operation) -> None:
        """An operation, its results and regions."""
        if op.results:
            names = [self.value_name(r) for r in op.results]
            self._region_names += names
            self._parts.append(", ".join(names) + " = ")
        if not self.print_generic_format and self._print_pretty(op):
            self.print_location(op.location)
        else:
            self._print_generic(op)

    def _print_pretty(self, op: Operation) -> bool:
        """Prints the pretty form, or nothing and returns False where there is none for this operation."""
        cls = type(op)
        if cls not in self._syntaxes:
            self._syntaxes[cls] = None if isinstance(op, b.UnregisteredOp) else op_syntax_of(cls)
        syntax = self._syntaxes[cls]
        if syntax is None and not says_all(op):
            return False
        printable = getattr(syntax, "printable", None)
        mark, indent = len(self._parts), self._indent
        try:
            if printable is not None and not printable(op):
                return False
            self._parts.append(op.name)
            if syntax is None:
                op.print(self)
            else:
                syntax.print(self, op)
        except RecursionError:
            raise
        except Exception:
            # An operation that its pretty form cannot say (or that is invalid) is printed generically.
            del self._parts[mark:]
            self._indent = indent
            return False
        return True

    def _print_generic(self, op: Operation) -> None:
        attributes = op.attributes
        name = op.name
        if isinstance(op, b.UnregisteredOp):
            name = op.op_name.data
            attributes = {k: v for k, v in attributes.items() if k != "op_name__"}
        self._parts.append(f'"{name}"({", ".join(map(self.value_name, op.operands))})')
        self.print_successors(op.successors)
        self._print_op_properties(op.properties)
        self.print_regions(op.regions)
        self.print_op_attributes(attributes)
        self._parts.append(" : ")
        self.print_operation_type(op)

    # ---- regions ----

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        """``{ ... }``; without ``print_entry_block_args`` the operation's header names the entry block's
        arguments."""
        blocks = list(region.blocks)
        if not blocks:
            self._parts.append("{")
            self._print_new_line()
            self._parts.append("}")
            return
        self._name_blocks(blocks)
        outer, self._region_names = self._region_names, []
        entry = blocks[0]
        label = (bool(entry.args) and print_entry_block_args) or (entry.first_op is None and print_empty_block)
        label = label or entry.first_use is not None
        self._parts.append("{")
        for block in blocks:
            self.print_block(block, block is not entry or label, print_block_terminators)
        self._print_new_line()
        self._parts.append("}")
        for block in blocks:
            self._region_names += map(self.value_name, block.args)
        self._free_names(self._region_names)
        self._region_names = outer

    def _free_names(self, names: Sequence[str]) -> None:
        """Names of a region may be given again after it."""
        for name in names:
            bare = name[1:]
            self._used.discard(bare)
            base, _, suffix = bare.rpartition("_")
            if not base and bare.isdigit():
                self._counter = min(self._counter, int(bare))
            elif suffix.isdigit() and base in self._suffixes:
                self._suffixes[base] = min(self._suffixes[base], int(suffix))

    def _name_blocks(self, blocks: Sequence[Block]) -> None:
        used: set[str] = set()
        for i, block in enumerate(blocks):
            name = block.name_hint or f"bb{i}"
            count = 0
            base = name
            while name in used:
                count += 1
                name = f"{base}_{count}"
            used.add(name)
            self._blocks[block] = name

    def print_block(self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True) -> None:
        """``^bb0(%a: i32):`` and the operations."""
        if print_block_args:
            self._print_new_line()
            self._parts.append(f"^{self._get_block_name(block)}")
            if block.args:
                self._parts.append("(")
                self.print_block_arguments(block.args)
                self._parts.append(")")
            self._parts.append(":")
        self._indent += 1
        newline = "\n" + "  " * self._indent
        last = None if print_block_terminator else block.last_op
        if last is not None and not last.has_trait(IsTerminator, value_if_unregistered=False):
            last = None
        for op in block.ops:
            if op is last:
                continue
            self._parts.append(newline)
            self.print_op(op)
        self._indent -= 1

    def print_operation(self, op: Operation) -> None:
        """Same as :meth:`print_op`."""
        self.print_op(op)


@contextmanager
def _deep_recursion(op: Operation) -> Iterator[None]:
    """Room on Python's stack for the depth of this operation."""
    depth = _depth(op)
    if depth > _MAX_LEVELS:
        from ..core.diagnostics import emit_error

        emit_error(op, f"has {depth} nested regions, more than {_MAX_LEVELS} cannot be printed")
    before = sys.getrecursionlimit()
    needed = _frames() + 1500 + depth * _FRAMES_PER_LEVEL
    if needed > before:
        sys.setrecursionlimit(needed)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _depth(op: Operation) -> int:
    deepest = 0
    pending: list[tuple[Operation, int]] = [(op, 0)]
    while pending:
        current, depth = pending.pop()
        deepest = max(deepest, depth)
        for region in current.regions:
            for block in region.blocks:
                pending += [(inner, depth + 1) for inner in block.ops if inner.regions]
    return deepest + 1


def _frames() -> int:
    count = 0
    frame: Any = sys._getframe()
    while frame is not None:
        count += 1
        frame = frame.f_back
    return count
