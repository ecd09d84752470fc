"""The ``c`` dialect as C99 text: a source file and the header with the model's interface.

A value that is used once, in the block where it is made, is written where it is used; others become variables. So the
text reads like C that somebody wrote. What the emitter does not know, operation, type, attribute or function, is an
error: nothing is left out silently.

Elsewhere: expressions and their precedence (``emit_exprs.py``), names (``names.py``), the functions that may be called
(``library.py``), weights as tables (``tables.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from ...core.diagnostics import emit_error
from .dialect import ArrayOp, CallOp, ConstantOp, LoadOp, StoreOp
from .emit_exprs import EXPRESSIONS, Expression, Expressions, declaration, type_name
from .library import LIBRARY, helper
from .names import RESERVED, Names, comment, string_literal
from .structure import BreakOp, ForeverOp, ForOp, FuncOp, IfOp, ReturnOp, TableOp
from .tables import table_text
from .types import Pointer, SizeType

MESSAGES_ATTRIBUTE = "c.messages"
"""Of the module: what the codes that public functions return mean, from code 1 on."""
_PARALLEL_LOOP = "TW_PARALLEL_LOOP"
_LONGEST = 100
"""Expressions that are longer become variables."""
_LINE = 100
"""Heads of functions that are longer have a line for each parameter."""


class ModuleEmitter:
    """Writes one module of the ``c`` dialect; ``prefix`` is the beginning of all public names."""

    def __init__(self, module: ModuleOp, prefix: str) -> None:
        self.module = module
        self.prefix = prefix
        self.functions = [op for op in module.ops if isinstance(op, FuncOp)]
        self.tables = [op for op in module.ops if isinstance(op, TableOp)]
        for op in module.ops:
            if not isinstance(op, FuncOp | TableOp):
                emit_error(op, "has no meaning at the top of a C file")
        names = Names(RESERVED)
        symbols = [op.sym_name.data for op in self.tables]
        symbols += [op.sym_name.data for op in self.functions if op.static is not None]
        self.names = {symbol: names.fresh(symbol) for symbol in symbols}
        self.names.update({op.sym_name.data: f"{prefix}_{op.sym_name.data}" for op in self._public()})
        self.helpers: dict[str, str] = {}
        self.headers: set[str] = set()
        self.parallel = False

    def _public(self) -> list[FuncOp]:
        return [op for op in self.functions if op.static is None]

    def _messages(self) -> list[str]:
        found = self.module.attributes.get(MESSAGES_ATTRIBUTE)
        return [m.data for m in found if isinstance(m, StringAttr)] if isinstance(found, ArrayAttr) else []

    def callee(self, op: CallOp) -> str:
        """The name of the function called, which is in the file or will be."""
        name = op.callee.root_reference.data
        if name in self.names:
            return self.names[name]
        if name in LIBRARY:
            self.headers.add(LIBRARY[name])
            return name
        text = helper(name)
        if text is None:
            emit_error(op, f"calls '{name}', which neither the module nor C's library has")
        if "memcpy" in text:
            self.headers.add("string.h")
        self.helpers[name] = text
        return name

    # The two files.

    def header(self) -> str:
        """The interface of the model."""
        guard = f"{self.prefix.upper()}_H"
        lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "#include <stdint.h>", ""]
        lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
        for op in self._public():
            lines += self._doc(op)
            if (size := constant_result(op)) is not None:
                lines += [f"#define {self.names[op.sym_name.data].upper()} {size}"]
            lines += [f"{self.signature(op, in_header=True)};", ""]
        messages = self._messages()
        if messages:
            lines += [
                "/* What a code means that a function returned; NULL for a code that none returns.",
                " *",
                " * 0: done",
            ]
            lines += [f" * {number}: {comment(text)}" for number, text in enumerate(messages, 1)]
            lines += [" */", f"const char *{self.prefix}_error(int32_t code);", ""]
        lines += ["#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */"]
        return "\n".join(lines) + "\n"

    def source(self, header: str, weights: Iterable[bytes | memoryview]) -> Iterator[str]:
        """The source file in pieces; ``weights`` gives the bytes of each weight in order."""
        functions = [self._function(op) for op in self.functions]
        includes = [f"#include <{name}>" for name in sorted({"math.h", "stdbool.h"} | self.headers)]
        yield "\n".join([f'#include "{header}"', "", *includes, ""]) + "\n"
        if self.parallel:
            yield (
                '/* Stands before loops whose iterations are independent, such as _Pragma("omp parallel for"). */\n'
                f"#ifndef {_PARALLEL_LOOP}\n#define {_PARALLEL_LOOP}\n#endif\n\n"
            )
        for text in self.helpers.values():
            yield f"{text}\n"
        numbers = {op.weight.value.data: op for op in self.tables}
        for number, data in enumerate(weights):
            if number in numbers:
                op = numbers.pop(number)
                yield from table_text(op, self.names[op.sym_name.data], data)
        for op in numbers.values():
            emit_error(op, f"is weight {op.weight.value.data}, which the module lacks")
        for text in functions:
            yield f"{text}\n"
        if self._messages():
            yield self._error_function()

    def _doc(self, op: FuncOp) -> list[str]:
        if op.doc is None:
            return []
        first, *more = comment(op.doc.data).replace("?_", f"{self.prefix}_").split("\n")
        lines = [f"/* {first}", *(f" * {line}".rstrip() for line in more)]
        return [f"{lines[0]} */"] if not more else [*lines, " */"]

    def signature(self, op: FuncOp, names: Sequence[str] | None = None, in_header: bool = False) -> str:
        """The head of a function. The header leaves ``restrict`` out, which C++ lacks."""
        if names is None:
            names = [p.data for p in op.parameters or ()]
        restrict = op.may_alias is None and not in_header
        parts = [
            declaration(a.type, name, op, restrict=restrict and isinstance(a.type, Pointer))
            for name, a in zip(names, op.body.block.args, strict=True)
        ]
        outputs = op.function_type.outputs.data
        result = type_name(outputs[0], op) if outputs else "void"
        head = f"{'static ' if op.static is not None else ''}{result} {self.names[op.sym_name.data]}"
        line = f"{head}({', '.join(parts) or 'void'})"
        return line if len(line) <= _LINE else f"{head}(\n    " + ",\n    ".join(parts) + ")"

    def _function(self, op: FuncOp) -> str:
        return FunctionEmitter(self, op).text()

    def _error_function(self) -> str:
        lines = [f"const char *{self.prefix}_error(int32_t code) {{", "  switch (code) {"]
        for number, text in enumerate(["done", *self._messages()]):
            lines += [f"  case {number}:", f"    return {string_literal(text)};"]
        return "\n".join([*lines, "  default:", "    return NULL;", "  }", "}"]) + "\n"


def constant_result(op: FuncOp) -> int | None:
    """What a function of no arguments that just returns a size returns; None for any other."""
    value = op.body.block.last_op
    if op.body.block.args or not isinstance(value, ReturnOp) or value.value is None:
        return None
    cast = value.value.owner
    if not isinstance(value.value.type, SizeType) or not isinstance(cast, Operation):
        return None
    source = cast.operands[0].owner
    constant = source.value if isinstance(source, ConstantOp) else None
    return None if constant is None else int(constant.value.data)


class FunctionEmitter:
    """Writes one function."""

    def __init__(self, module: ModuleEmitter, function: FuncOp) -> None:
        self.module = module
        self.function = function
        self.names = Names(RESERVED | frozenset(module.names.values()))
        self.expressions = Expressions(module.names, module.callee)
        self.lines: list[str] = []
        self.depth = 1

    def text(self) -> str:
        """The definition."""
        op = self.function
        self._known_attributes(op)
        hints = [p.data for p in op.parameters] if op.parameters is not None else None
        names = [
            self.names.fresh(hints[number] if hints else argument.name_hint or "a")
            for number, argument in enumerate(op.body.block.args)
        ]
        if hints is not None and names != hints:
            emit_error(op, f"has parameters {', '.join(hints)}, which are no names of C")
        for name, argument in zip(names, op.body.block.args):
            self.expressions.name(argument, name)
            if not argument.uses:
                self._line(f"(void){name};")
        self._block(op.body.block)
        return "\n".join([f"{self.module.signature(op, names)} {{", *self.lines, "}"]) + "\n"

    def _line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _known_attributes(self, op: Operation) -> None:
        for name in op.attributes:
            emit_error(op, f"has the attribute '{name}', which C has no meaning for")

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._known_attributes(op)
            if (statement := _STATEMENTS.get(type(op))) is not None:
                statement(self, op)
            elif type(op) in EXPRESSIONS:
                self._expression(op, self.expressions.of(op))
            else:
                emit_error(op, "is no operation of C")

    def _expression(self, op: Operation, found: Expression) -> None:
        """Keep the text of a value for its use, or make it a variable."""
        result = op.results[0]
        if not result.uses:
            return
        uses = list(result.uses)
        free = op.has_trait(Pure) or isinstance(op, CallOp)
        once = len(uses) == 1 and uses[0].operation.parent is op.parent and len(found.text) <= _LONGEST
        if isinstance(op, ConstantOp) or found.is_name or (free and once):
            self.expressions.keep(result, found)
            return
        default = "v" if isinstance(op, LoadOp) else "t"
        self._line(f"{self._declared(result, op, default)} = {found.text};")

    def _declared(self, value: SSAValue, op: Operation, default: str) -> str:
        name = self.names.fresh(value.name_hint or default)
        self.expressions.name(value, name)
        return declaration(value.type, name, op, constant=True)

    # Statements.

    def _call(self, op: CallOp) -> None:
        found = self.expressions.of(op)
        if op.result is None:
            self._line(f"{found.text};")
        else:
            self._expression(op, found)

    def _array(self, op: ArrayOp) -> None:
        if op.result.uses:
            name = self.names.fresh(op.result.name_hint or "buffer")
            self.expressions.name(op.result, name)
            element = type_name(op.result.type.element, op)
            self._line(f"{element} {name}[{op.count.value.data}];")

    def _store(self, op: StoreOp) -> None:
        target = self.expressions.element(op.pointer, op.index)
        self._line(f"{target} = {self.expressions.text(op.value)};")

    def _return(self, op: ReturnOp) -> None:
        self._line("return;" if op.value is None else f"return {self.expressions.text(op.value)};")

    def _for(self, op: ForOp) -> None:
        if op.parallel is not None:
            self.module.parallel = True
            self._line(_PARALLEL_LOOP)
        count = self.expressions.operand(op.count, 4)
        self.names.push()
        variable = op.body.block.args[0]
        name = self.names.fresh(variable.name_hint or "i")
        self.expressions.name(variable, name)
        self._line(f"for (int64_t {name} = 0; {name} < {count}; ++{name}) {{")
        self._inside(op.body)
        self.names.pop()
        self._line("}")

    def _if(self, op: IfOp) -> None:
        self._line(f"if ({self.expressions.text(op.condition)}) {{")
        for region in (op.body, op.orelse):
            if region is None:
                continue
            if region is op.orelse:
                self._line("} else {")
            self.names.push()
            self._inside(region)
            self.names.pop()
        self._line("}")

    def _forever(self, op: ForeverOp) -> None:
        self._line("for (;;) {")
        self.names.push()
        self._inside(op.body)
        self.names.pop()
        self._line("}")

    def _break(self, op: BreakOp) -> None:
        self._line("break;")

    def _inside(self, region: Region) -> None:
        self.depth += 1
        self._block(region.block)
        self.depth -= 1


_STATEMENTS: dict[type[Operation], Callable[[FunctionEmitter, Any], None]] = {
    CallOp: FunctionEmitter._call,
    ArrayOp: FunctionEmitter._array,
    StoreOp: FunctionEmitter._store,
    ReturnOp: FunctionEmitter._return,
    ForOp: FunctionEmitter._for,
    IfOp: FunctionEmitter._if,
    ForeverOp: FunctionEmitter._forever,
    BreakOp: FunctionEmitter._break,
}
