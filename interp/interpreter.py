"""The reference interpreter: runs a module at any level with NumPy, to check what passes and targets do.

Ops are looked up by name in tables, one per dialect, loaded when an op of the dialect is first met. There are two
kinds of entries. A *value function* ``(op, *operands) -> result`` is enough for most ops. A *frame function*
``(frame, op, operands) -> results`` runs regions, calls functions or needs the values of symbolic dimensions.

A tensor is a NumPy array of its logical shape, whatever its layout. Symbols are bound by a function's arguments at
their first plain occurrence; every other occurrence is checked.

Elsewhere: control flow in ``control``, scalars in ``arith``, tensors in ``graph*``, te and loop levels in ``te``,
``loop``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from ..core.attributes import shape_exprs
from ..core.context import TilewrightContext, make_context
from ..core.diagnostics import emit_error
from ..core.symbolic import SymExpr
from .arith import numpy_dtype

Value = Any
ValueFunction = Callable[..., Value]
FrameFunction = Callable[["Frame", Operation, list[Value]], Sequence[Value]]

VALUE_TABLES: Mapping[str, str] = {
    "arith": "arith:SCALAR_OPS",
    "math": "arith:SCALAR_OPS",
    "vector": "arith:SCALAR_OPS",
    "builtin": "arith:SCALAR_OPS",
    "graph": "graph:VALUE_OPS",
}
"""Dialect name to ``module:table`` of value functions, relative to this package."""

FRAME_TABLES: Mapping[str, str] = {
    "func": "control:FRAME_OPS",
    "scf": "control:FRAME_OPS",
    "tensor": "control:FRAME_OPS",
    "graph": "graph_structure:FRAME_OPS",
    "te": "te:FRAME_OPS",
    "loop": "loop:FRAME_OPS",
    "vm": "vm:FRAME_OPS",
}
"""Dialect name to ``module:table`` of frame functions."""


@dataclass
class Frame:
    """Values of one isolated region: a function's body, a kernel, a recipe."""

    interpreter: Interpreter
    values: dict[SSAValue, Value] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, value: SSAValue) -> Value:
        return self.values[value]

    def isolated(self) -> Frame:
        """An empty frame of the same function, for a region that sees nothing but its arguments and the symbols."""
        return Frame(self.interpreter, {}, self.symbols)

    def evaluate(self, expr: SymExpr) -> int:
        """The value of a symbolic expression."""
        return expr.evaluate(self.symbols)

    def shape(self, type: Attribute) -> tuple[int, ...]:
        """The logical shape of a tensor type."""
        return tuple(self.evaluate(e) for e in shape_exprs(type))

    def run_block(self, block: Block, args: Sequence[Value]) -> tuple[Operation | None, list[Value]]:
        """Runs a block; gives its terminator and the terminator's operands."""
        for arg, value in zip(block.args, args, strict=True):
            self.values[arg] = value
        for op in block.ops:
            operands = [self.values[v] for v in op.operands]
            if op.has_trait(IsTerminator):
                return op, operands
            for result, value in zip(op.results, self.run_op(op, operands), strict=True):
                self.values[result] = value
        return None, []

    def run_op(self, op: Operation, operands: list[Value]) -> Sequence[Value]:
        """Results of one op."""
        value_function, frame_function = self.interpreter.lookup(op)
        if value_function is not None:
            return (value_function(op, *operands),)
        assert frame_function is not None
        return frame_function(self, op, operands)

    def bind(self, where: Operation, names: Sequence[str], types: Sequence[Attribute], args: Sequence[Value]) -> None:
        """Binds symbols by the shapes of arguments and checks arguments against their types."""
        tensors = [(n, t, np.shape(a)) for n, t, a in zip(names, types, args) if isinstance(t, TensorType)]
        for name, type, shape in tensors:
            dims = shape_exprs(type)
            if len(dims) != len(shape):
                emit_error(where, f"{name} has rank {len(shape)}, expected {len(dims)}")
            for dim, size in zip(dims, shape):
                if dim.kind == "sym":
                    self.symbols.setdefault(dim.name, size)
        for name, type, shape in tensors:
            for i, (dim, size) in enumerate(zip(shape_exprs(type), shape)):
                unknown = sorted(dim.symbols() - self.symbols.keys())
                if unknown:
                    emit_error(where, f"{name} has size {dim} in dimension {i}, but '{unknown[0]}' has no value")
                expected = self.evaluate(dim)
                if expected != size:
                    text = str(dim) if dim.is_const() else f"{dim} = {expected}"
                    emit_error(where, f"{name} has size {size} in dimension {i}, expected {text}")


class Interpreter:
    """Runs functions of a module: ``Interpreter(module, context).call("main", [x])`` gives the list of results."""

    def __init__(self, module: ModuleOp, context: Context | None = None) -> None:
        self.module = module
        self.context = context if isinstance(context, TilewrightContext) else make_context()
        self.recipes: dict[str, Value] = {}
        """Values of recipes that were evaluated already."""
        self._functions: dict[str, tuple[ValueFunction | None, FrameFunction | None]] = {}
        self._symbols: dict[str, Operation] = {}
        for op in module.body.block.ops:
            name = op.properties.get("sym_name")
            if isinstance(name, StringAttr):
                self._symbols[name.data] = op

    def call(self, name: str, args: Sequence[Value]) -> list[Value]:
        """Calls a function; tensors are arrays (converted to the argument's dtype only if they are Python values)."""
        function = self.find(name)
        if not isinstance(function, func.FuncOp):
            emit_error(self.module, f"has no function '{name}'")
        types = function.function_type.inputs.data
        if len(args) != len(types):
            emit_error(function, f"takes {len(types)} arguments, found {len(args)}")
        values = [_as_argument(function, i, a, t) for i, (a, t) in enumerate(zip(args, types))]
        return self.call_function(function, values)

    def call_function(
        self, function: func.FuncOp, args: Sequence[Value], symbols: dict[str, int] | None = None
    ) -> list[Value]:
        """Runs a function's body in a new frame, in which ``symbols`` are known."""
        if function.is_declaration:
            emit_error(function, "has no body to interpret")
        frame = Frame(self, symbols=dict(symbols or {}))
        types = function.function_type.inputs.data
        frame.bind(function, argument_names(function), types, args)
        return frame.run_block(function.body.block, args)[1]

    def find(self, name: str) -> Operation | None:
        """The module-level op of that symbol name."""
        return self._symbols.get(name)

    def lookup(self, op: Operation) -> tuple[ValueFunction | None, FrameFunction | None]:
        """The function that runs an op; a diagnostic when there is none."""
        found = self._functions.get(op.name)
        if found is None:
            dialect = op.name.split(".", 1)[0]
            value_function = _load(VALUE_TABLES, dialect).get(op.name)
            frame_function = None if value_function else _load(FRAME_TABLES, dialect).get(op.name)
            if value_function is None and frame_function is None:
                emit_error(op, "has no interpretation")
            found = self._functions[op.name] = (value_function, frame_function)
        return found


def evaluate_op(op: Operation, operands: Sequence[Value], context: Context | None = None) -> list[Value]:
    """Results of a single op without regions on constant operands; what constant folding uses."""
    return list(Frame(Interpreter(ModuleOp([]), context)).run_op(op, list(operands)))


def argument_names(function: func.FuncOp) -> list[str]:
    """Names of a function's arguments for messages: those of the model where it has them."""
    count = len(function.function_type.inputs.data)
    names = [f"argument {i}" for i in range(count)]
    attrs = function.arg_attrs.data if function.arg_attrs is not None else ()
    for i, entry in enumerate(attrs):
        name = entry.data.get("tw.name")
        if isinstance(name, StringAttr):
            names[i] = f"'{name.data}'"
    return names


def _as_argument(function: func.FuncOp, index: int, value: Value, type: Attribute) -> Value:
    if not isinstance(type, TensorType):
        return value
    dtype = numpy_dtype(type)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype != dtype:
            name = argument_names(function)[index]
            emit_error(function, f"{name} has element type {value.dtype}, expected {dtype}")
        return np.asarray(value)
    return np.asarray(value, dtype=dtype)


def _load(tables: Mapping[str, str], dialect: str) -> Mapping[str, Any]:
    entry = tables.get(dialect)
    if entry is None:
        return {}
    module, table = entry.split(":")
    try:
        loaded = importlib.import_module(f".{module}", __package__)
    except ModuleNotFoundError as problem:
        if problem.name != f"{__package__}.{module}":
            raise
        return {}
    return cast("Mapping[str, Any]", getattr(loaded, table, {}))
