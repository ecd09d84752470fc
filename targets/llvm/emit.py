"""A module of the `llvm` and `tllvm` dialects as LLVM IR text.

`emit_module` is driven by a table (`emit_rules.py`) that says for each operation how it is written and which
properties and discardable attributes it may carry. Whatever the table does not know - an operation, a property, an
attribute, a type - is refused with the operation's location, never dropped: a dropped flag is a wrong program.

The text is what `codegen.py` compiles and what kernels are compared and cached by, so it is deterministic: values and
blocks are numbered in order, functions keep their names, declarations and math functions are sorted.

Deliberately elsewhere: the words for types and constants (`emit_types.py`), the bodies of math functions (`math/`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...core.diagnostics import emit_error
from .emit_rules import LITERALS, RULES
from .emit_types import UnknownAttribute, constant_text, symbol_text, type_text
from .math import UnknownFunction
from .math_text import MathFunction


def emit_module(module: ModuleOp) -> str:
    """The module's globals, functions and whatever they call, as the text of one LLVM module."""
    emitter = ModuleEmitter()
    for op in module.ops:
        try:
            if isinstance(op, llvm.FuncOp):
                emitter.function(op)
            elif isinstance(op, llvm.GlobalOp):
                emitter.global_data(op)
            else:
                emit_error(op, "has no LLVM IR at module level")
        except UnknownAttribute as error:
            emit_error(op, str(error))
    return emitter.text()


@dataclass
class ModuleEmitter:
    """The parts of the module under construction."""

    globals: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    declarations: dict[str, str] = field(default_factory=dict)
    math: dict[str, str] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The whole module."""
        declared = [text for name, text in sorted(self.declarations.items()) if name not in self.defined]
        math = [text for _, text in sorted(self.math.items())]
        return "\n".join([*self.globals, *self.functions, *math, *declared, *self.loops, ""])

    def declare(self, symbol: str, result: str, arguments: str) -> None:
        """A function that is called; dropped if the module defines it."""
        self.declarations[symbol] = f"declare {result} {symbol}({arguments})"

    def add_math(self, function: MathFunction) -> None:
        """A math function that is called, with what it calls."""
        self.math.update(function.definitions)
        for symbol, result, arguments in function.declarations:
            self.declare(symbol, result, arguments)

    def loop_metadata(self, unroll: str) -> str:
        """The name of a new loop node, each loop has its own."""
        name = f"!{len(self.loops)}"
        self.loops.append(f'{name} = distinct !{{{name}, !{{!"llvm.loop.unroll.{unroll}"}}}}')
        return name

    def global_data(self, op: llvm.GlobalOp) -> None:
        """A constant in the data section."""
        _check(op, _GLOBAL_PROPERTIES, frozenset())
        if op.constant is None or op.value is None or op.body.blocks or op.addr_space.value.data:
            emit_error(op, "must be constant with a value: emitted code has no mutable globals")
        align = f", align {op.alignment.value.data}" if op.alignment is not None else ""
        value = f"{type_text(op.global_type)} {constant_text(op.value, op.global_type)}"
        name = symbol_text(op.sym_name.data)
        self.globals.append(f"@{name} = {_linkage(op)}{_unnamed(op)}constant {value}{align}")

    def function(self, op: llvm.FuncOp) -> None:
        """A function, defined or only declared."""
        _check(op, _FUNCTION_PROPERTIES, _EITHER)
        if op.CConv.cconv_name != "ccc" or op.visibility_.value.data or op.function_type.is_variadic:
            emit_error(op, "must have the C calling convention, default visibility, fixed arguments")
        output = op.function_type.output
        result = "void" if isinstance(output, llvm.LLVMVoidType) else type_text(output)
        symbol = f"@{symbol_text(op.sym_name.data)}"
        parameters = [
            f"{type_text(type)}{attributes}"
            for type, attributes in zip(op.function_type.inputs, _argument_attributes(op), strict=True)
        ]
        if not op.body.blocks:
            self.declare(symbol, result, ", ".join(parameters))
            return
        self.defined.add(symbol)
        body = FunctionEmitter(self, op)
        named = ", ".join(
            f"{parameter} {body.name(argument)}"
            for parameter, argument in zip(parameters, op.body.blocks[0].args, strict=True)
        )
        body.write()
        head = f"define {_linkage(op)}{result} {symbol}({named}){_function_attributes(op)} {{"
        self.functions.append("\n".join([head, *body.lines, "}"]))


class FunctionEmitter:
    """The lines of one function and the names of its values; what the rules write to."""

    def __init__(self, module: ModuleEmitter, op: llvm.FuncOp) -> None:
        self.module = module
        self.lines: list[str] = []
        self._op = op
        self._names: dict[SSAValue, str] = {}
        self._labels: dict[Block, str] = {}
        self._incoming: dict[Block, list[tuple[Operation, tuple[SSAValue, ...]]]] = {}
        self._count = 0

    def name(self, value: SSAValue) -> str:
        """How the value is written as an operand; numbers it when first asked."""
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = self.fresh()
        return name

    def fresh(self) -> str:
        """A new value name, for instructions that an operation needs besides its result."""
        self._count += 1
        return f"%v{self._count - 1}"

    def typed(self, value: SSAValue) -> str:
        """The operand with its type."""
        return f"{type_text(value.type)} {self.name(value)}"

    def line(self, text: str) -> None:
        """Append one instruction."""
        self.lines.append("  " + text)

    def define(self, op: Operation, text: str) -> None:
        """Append the instruction that gives the operation's result."""
        self.lines.append(f"  {self.name(op.results[0])} = {text}")

    def label(self, block: Block) -> str:
        """The block as a branch target."""
        return f"%{self._labels[block]}"

    def write(self) -> None:
        """Write the whole body."""
        self._prepare()
        for number, block in enumerate(self._op.body.blocks):
            self.lines.append(f"{self._labels[block]}:")
            if number:
                self._phis(block)
            for op in block.ops:
                if type(op) not in LITERALS:
                    self._write(op)

    def _prepare(self) -> None:
        """Number the blocks, note constants, which are written in place, and what flows into each block."""
        for number, block in enumerate(self._op.body.blocks):
            self._labels[block] = f"b{number}"
            for op in block.ops:
                literal = LITERALS.get(type(op))
                if literal is not None:
                    write, properties = literal
                    _check(op, properties, frozenset())
                    self._names[op.results[0]] = _guarded(op, write)
            last = block.last_op
            if isinstance(last, llvm.BrOp):
                self._flow(last, last.successor, tuple(last.arguments))
            elif isinstance(last, llvm.CondBrOp):
                self._flow(last, last.then_block, tuple(last.then_arguments))
                self._flow(last, last.else_block, tuple(last.else_arguments))

    def _write(self, op: Operation) -> None:
        rule = RULES.get(type(op))
        if rule is None:
            emit_error(op, "has no LLVM IR")
        _check(op, rule.properties, rule.attributes)
        try:
            rule.write(self, op)
        except (UnknownAttribute, UnknownFunction) as error:
            emit_error(op, str(error))

    def _flow(self, branch: Operation, block: Block, values: tuple[SSAValue, ...]) -> None:
        self._incoming.setdefault(block, []).append((branch, values))

    def _phis(self, block: Block) -> None:
        if not block.args:
            return
        incoming = self._incoming.get(block, [])
        sources = [branch.parent_block() for branch, _ in incoming]
        if len({id(source) for source in sources}) != len(sources):
            emit_error(incoming[0][0], "goes twice to one block with arguments")
        for index, argument in enumerate(block.args):
            name = self.name(argument)
            pairs = ", ".join(
                f"[ {self.name(values[index])}, {self.label(source)} ]"
                for source, (_, values) in zip(sources, incoming, strict=True)
                if source is not None
            )
            self.line(f"{name} = phi {type_text(argument.type)} {pairs}")


def _guarded(op: Operation, write: object) -> str:
    try:
        assert callable(write)
        return str(write(op))
    except UnknownAttribute as error:
        emit_error(op, str(error))


def _check(op: Operation, properties: frozenset[str], attributes: frozenset[str]) -> None:
    if not op.properties.keys() <= properties:
        unknown = ", ".join(sorted(op.properties.keys() - properties))
        emit_error(op, f"has properties that the emitter does not know: {unknown}")
    if op.attributes and not op.attributes.keys() <= attributes:
        unknown = ", ".join(sorted(op.attributes.keys() - attributes))
        emit_error(op, f"has attributes that the emitter does not know: {unknown}")


def _linkage(op: llvm.FuncOp | llvm.GlobalOp) -> str:
    linkage = op.linkage.linkage.data
    if linkage not in _LINKAGES:
        emit_error(op, f"has linkage '{linkage}', expected one of {', '.join(_LINKAGES)}")
    return "" if linkage == "external" else f"{linkage} "


def _unnamed(op: llvm.FuncOp | llvm.GlobalOp) -> str:
    return _UNNAMED_ADDRESS[0 if op.unnamed_addr is None else op.unnamed_addr.value.data]


def _argument_attributes(op: llvm.FuncOp) -> list[str]:
    count = len(op.function_type.inputs)
    if op.arg_attrs is None:
        return [""] * count
    texts = []
    for attributes in op.arg_attrs:
        words = []
        for name, value in sorted(attributes.data.items()):
            write = _ARGUMENT_ATTRIBUTES.get(name)
            if write is None or isinstance(value, UnitAttr) != write.endswith(name.removeprefix("llvm.")):
                emit_error(op, f"has argument attribute '{name}' that the emitter does not know")
            number = value.value.data if isinstance(value, IntegerAttr) else ""
            words.append(f" {write}".replace("#", str(number)))
        texts.append("".join(words))
    return texts


def _function_attributes(op: llvm.FuncOp) -> str:
    words = [_unnamed(op).strip()] if _unnamed(op) else []
    # Where xDSL's pretty form of a function has been parsed, some of its properties are attributes.
    known = {**op.attributes, **op.properties}
    words += [word for name, word in _UNIT_ATTRIBUTES.items() if name in known]
    passthrough = known.get("passthrough", ArrayAttr([]))
    assert isinstance(passthrough, ArrayAttr)
    words += [_passthrough(op, item) for item in passthrough]
    return "".join(f" {word}" for word in words)


def _passthrough(op: llvm.FuncOp, item: Attribute) -> str:
    if isinstance(item, StringAttr) and item.data in _PASSTHROUGH_WORDS:
        return item.data
    if isinstance(item, ArrayAttr) and len(item) == 2 and all(isinstance(part, StringAttr) for part in item):
        name, value = (part.data for part in item if isinstance(part, StringAttr))
        if name in _PASSTHROUGH_PAIRS:
            return f'"{name}"="{value}"'
    emit_error(op, f"has passthrough attribute {item} that the emitter does not know")


_LINKAGES = ("external", "internal", "private")
_UNNAMED_ADDRESS = {0: "", 1: "local_unnamed_addr ", 2: "unnamed_addr "}
_UNIT_ATTRIBUTES = {"no_inline": "noinline", "no_unwind": "nounwind"}
_PASSTHROUGH_WORDS = ("alwaysinline", "cold", "hot", "norecurse", "willreturn")
_PASSTHROUGH_PAIRS = ("prefer-vector-width",)
_ARGUMENT_ATTRIBUTES = {
    "llvm.noalias": "noalias",
    "llvm.nonnull": "nonnull",
    "llvm.noundef": "noundef",
    "llvm.readonly": "readonly",
    "llvm.writeonly": "writeonly",
    "llvm.align": "align #",
    "llvm.dereferenceable": "dereferenceable(#)",
}
_GLOBAL_PROPERTIES = frozenset(
    {"global_type", "sym_name", "linkage", "addr_space", "constant", "value", "alignment", "unnamed_addr"}
)
_EITHER = frozenset({"passthrough", *_UNIT_ATTRIBUTES})
_FUNCTION_PROPERTIES = _EITHER | {
    *("sym_name", "function_type", "CConv", "linkage", "visibility_", "unnamed_addr", "arg_attrs")
}
