"""Runs loop IR: each outermost loop or block becomes one Python function, compiled from source and called.

All stages of loop IR run the same way, from plain nests with blocks to vector code: every loop kind is executed in
order, a block binds its iterators, tests its ``where``, and runs its init region where all reduce iterators are 0.
Elements are NumPy scalars of the memref's type, vectors small arrays, so that arithmetic rounds and wraps as the
types say. New buffers are filled with a pattern (NaN, extreme integers), so that a read of what nothing wrote shows
in the result.

Indices outside of a memref are errors; NumPy itself would take negative ones from the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, StringAttr, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.test_value import create_ssa_value

from ..core.attributes import IndexMapAttr, memref_shape_exprs
from ..core.diagnostics import emit_error
from ..core.symbolic import SymExpr
from ..dialects.loop.ops import AllocOp, BlockOp, ForOp, IfOp, IndexOp, LanesOp, LoadOp, StoreOp
from .arith import SCALAR_OPS, constant_value, numpy_dtype
from .exprs import python_source
from .interpreter import Frame, FrameFunction, Value

Array = NDArray[Any]

_INFIX = {
    "arith.addf": "+",
    "arith.subf": "-",
    "arith.mulf": "*",
    "arith.divf": "/",
    "arith.muli": "*",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.xori": "^",
}
_MAX_NESTING = 15
"""Python allows 20 nested loops in one function; deeper ones go into a local function."""


def allocate(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A buffer with a recognisable pattern in place of uninitialised memory."""
    if dtype.kind in "iu":
        return np.full(shape, np.iinfo(dtype).max, dtype)
    return np.full(shape, True if dtype.kind == "b" else math.nan, dtype)


class OutOfBoundsError(Exception):
    """An access outside of a memref."""


def _in_bounds(index: Any, size: int) -> Any:
    if isinstance(index, np.ndarray) and index.ndim:
        if index.size and (index.min() < 0 or index.max() >= size):
            raise OutOfBoundsError(f"index {index} is outside of a dimension of size {size}")
        return index
    if not 0 <= index < size:
        raise OutOfBoundsError(f"index {index} is outside of a dimension of size {size}")
    return index


def _vector_load(array: Array, index: Sequence[Any], lanes: int) -> Array:
    return np.array(array[_vector_index(array, index, lanes)])


def _vector_store(array: Array, index: Sequence[Any], value: Any, lanes: int) -> None:
    array[_vector_index(array, index, lanes)] = value


def _vector_index(array: Array, index: Sequence[Any], lanes: int) -> tuple[Any, ...]:
    *outer, first = (_in_bounds(i, n) for i, n in zip(index, array.shape))
    _in_bounds(first + lanes - 1, array.shape[-1])
    return (*outer, slice(first, first + lanes))


@dataclass
class _Source:
    """Python source under construction, and the objects it names."""

    lines: list[str] = field(default_factory=list)
    names: dict[SSAValue, str] = field(default_factory=dict)
    captured: dict[SSAValue, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    counters: set[SSAValue] = field(default_factory=set)
    """Index values that are never negative: an access by sums of them needs no check below."""
    indent: int = 1
    loops: int = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def define(self, value: SSAValue) -> str:
        name = self.names[value] = f"v{len(self.names)}"
        return name

    def use(self, value: SSAValue) -> str:
        """The name of a value; one defined outside becomes a parameter of the function."""
        found = self.names.get(value)
        if found is None:
            found = self.captured[value] = self.define(value)
        return found

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def count_up(self, args: Sequence[SSAValue]) -> bool:
        """Whether no value is ever negative: loop variables, symbols, block iterators bound to sums of these."""
        return all(
            a in self.counters or (isinstance(a.owner, Block) and isinstance(a.owner.parent_op(), FuncOp))
            for a in args
        )

    # Expressions.

    def exprs(self, map_: IndexMapAttr, args: Sequence[SSAValue]) -> list[str]:
        names = {f"d{k}": self.use(arg) for k, arg in enumerate(args)}
        names.update({name: str(value) for name, value in self.symbols.items()})
        arrays = any(isinstance(a.type, VectorType) for a in args)
        return [python_source(e, names, arrays) for e in map_.results]

    def condition(self, where: IndexMapAttr | None, args: Sequence[SSAValue]) -> str:
        if where is None or not where.results:
            return "True"
        parts = self.exprs(where, args)
        return " and ".join(f"{a} < {b}" for a, b in zip(parts[::2], parts[1::2]))

    # Statements.

    def block(self, block: Block) -> None:
        if not block.ops:
            self.line("pass")
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        handler = _HANDLERS.get(op.name)
        if handler is not None:
            handler(self, op)
        elif op.name == "arith.constant":
            self.line(f"{self.define(op.results[0])} = {self.constant(constant_value(op))}")
        elif op.name in _INFIX:
            a, b = (self.use(v) for v in op.operands)
            self.line(f"{self.define(op.results[0])} = {a} {_INFIX[op.name]} {b}")
        elif op.name in SCALAR_OPS:
            call = f"{self.constant(SCALAR_OPS[op.name])}({self.constant(op)}, "
            operands = ", ".join(self.use(v) for v in op.operands)
            self.line(f"{self.define(op.results[0])} = {call}{operands})")
        else:
            emit_error(op, "has no interpretation inside of loops")

    def guarded(self, condition: str, body: Callable[[], None]) -> None:
        if condition == "True":
            body()
            return
        self.line(f"if {condition}:")
        self.indent += 1
        body()
        self.indent -= 1


def _for(source: _Source, op: Operation) -> None:
    loop = cast(ForOp, op)
    (extent,) = source.exprs(loop.extent, loop.args)
    nested = source.loops == _MAX_NESTING
    outer = source.loops
    if nested:
        source.line("def inner():")
        source.indent += 1
        source.loops = 0
    source.counters.add(loop.var)
    source.line(f"for {source.define(loop.var)} in range({extent}):")
    source.indent += 1
    source.loops += 1
    source.block(loop.body.block)
    source.indent -= 1
    source.loops = outer
    if nested:
        source.indent -= 1
        source.line("inner()")


def _block(source: _Source, op: Operation) -> None:
    block = cast(BlockOp, op)

    def body() -> None:
        iters = [source.define(arg) for arg in block.body.block.args]
        for name, binding in zip(iters, source.exprs(block.bindings, block.args)):
            source.line(f"{name} = {binding}")
        if source.count_up(block.args):
            bound = zip(block.bindings.results, block.body.block.args)
            source.counters.update(arg for binding, arg in bound if _never_negative(binding))
        if block.init is not None and block.init.blocks:
            for arg, other, name in zip(block.init.block.args, block.body.block.args, iters):
                source.names[arg] = name
                if other in source.counters:
                    source.counters.add(arg)
            first = [f"{n} == 0" for n, kind in zip(iters, block.iter_kinds) if kind == "reduce"]
            init = block.init.block
            source.guarded(" and ".join(first) or "True", lambda: source.block(init))
        source.block(block.body.block)

    source.guarded(source.condition(block.where, block.args), body)


def _access(source: _Source, memref: SSAValue, map_: IndexMapAttr, args: Sequence[SSAValue]) -> tuple[str, str]:
    array, indices = source.use(memref), source.exprs(map_, args)
    checked = [
        text if _never_negative(e) and source.count_up(args) else f"_in_bounds({text}, {array}.shape[{k}])"
        for k, (text, e) in enumerate(zip(indices, map_.results))
    ]
    return array, "(" + "".join(f"{c}, " for c in checked) + ")"


def _never_negative(expr: SymExpr) -> bool:
    """No subtraction anywhere: not negative for operands that are not."""
    kind = expr.kind
    if kind == "const":
        return expr.const_value() >= 0
    return kind == "sym" or all(_never_negative(a) for a in expr.args)


def _load(source: _Source, op: Operation) -> None:
    load = cast(LoadOp, op)
    array, index = _access(source, load.memref, load.map, load.args)
    type_ = load.result.type
    lanes = type_.get_shape()[-1] if isinstance(type_, VectorType) else 0
    text = f"_vector_load({array}, {index}, {lanes})" if lanes else f"{array}[{index}]"
    if load.where is not None and load.default is not None:
        default = source.use(load.default)
        text = f"({text} if {source.condition(load.where, load.args)} else {default})"
    source.line(f"{source.define(load.result)} = {text}")


def _store(source: _Source, op: Operation) -> None:
    store = cast(StoreOp, op)
    array, index = _access(source, store.memref, store.map, store.args)
    value, type_ = source.use(store.value), store.value.type
    if isinstance(type_, VectorType):
        text = f"_vector_store({array}, {index}, {value}, {type_.get_shape()[-1]})"
    else:
        text = f"{array}[{index}] = {value}"
    source.guarded(source.condition(store.where, store.args), lambda: source.line(text))


def _index(source: _Source, op: Operation) -> None:
    index = cast(IndexOp, op)
    (text,) = source.exprs(index.map, index.args)
    type_ = index.result.type
    if isinstance(type_, VectorType) and not any(isinstance(a.type, VectorType) for a in index.args):
        text = f"{text} + np.arange({type_.get_shape()[-1]})"
    source.line(f"{source.define(index.result)} = {text}")


def _if(source: _Source, op: Operation) -> None:
    branch = cast(IfOp, op)
    source.line(f"if {source.condition(branch.where, branch.args)}:")
    source.indent += 1
    source.block(branch.body.block)
    source.indent -= 1
    if branch.orelse is not None and branch.orelse.blocks:
        source.line("else:")
        source.indent += 1
        source.block(branch.orelse.block)
        source.indent -= 1


def _alloc(source: _Source, op: Operation) -> None:
    alloc = cast(AllocOp, op)
    shape = [e.evaluate(source.symbols) for e in memref_shape_exprs(alloc.result.type)]
    make = source.constant(lambda: allocate(shape, numpy_dtype(alloc.result.type)))
    source.line(f"{source.define(alloc.result)} = {make}()")


def _lanes(source: _Source, op: Operation) -> None:
    """The scalar op of each lane, on whole vectors."""
    lanes = cast(LanesOp, op)
    scalars = [create_ssa_value(a.type.get_element_type()) for a in lanes.args]  # type: ignore[attr-defined]
    function, proxy = SCALAR_OPS[lanes.scalar.data], lanes.scalar_op(scalars)
    operands = ", ".join(source.use(a) for a in lanes.args)
    call = f"{source.constant(function)}({source.constant(proxy)}, {operands})"
    source.line(f"{source.define(lanes.result)} = {call}")


_HANDLERS: dict[str, Callable[[_Source, Operation], None]] = {
    "loop.for": _for,
    "loop.block": _block,
    "loop.load": _load,
    "loop.store": _store,
    "loop.index": _index,
    "loop.if": _if,
    "loop.alloc": _alloc,
    "loop.lanes": _lanes,
}


def compile_nest(op: Operation, symbols: dict[str, int]) -> tuple[Callable[..., list[Any]], list[SSAValue]]:
    """A Python function that runs ``op``, its parameters' values, which are defined outside; it returns the results."""
    source = _Source(symbols=symbols)
    source.operation(op)
    results = ", ".join(source.names[r] for r in op.results)
    source.line(f"return [{results}]")
    text = "\n".join([f"def nest({', '.join(source.captured.values())}):", *source.lines])
    scope: dict[str, Any] = {
        "np": np,
        "_in_bounds": _in_bounds,
        "_vector_load": _vector_load,
        "_vector_store": _vector_store,
        **source.constants,
    }
    exec(compile(text, f"<{op.name}>", "exec"), scope)
    return scope["nest"], list(source.captured)


def kernel_symbols(frame: Frame, op: Operation) -> dict[str, int]:
    """Values of the symbols of the function around ``op``: its trailing arguments, by the names in ``symbols``."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    names = parent.attributes.get("symbols") if parent is not None else None
    if parent is None or not isinstance(names, ArrayAttr):
        return dict(frame.symbols)
    arguments = parent.body.block.args[len(parent.body.block.args) - len(names.data) :]
    known = {cast(StringAttr, n).data: int(frame[a]) for n, a in zip(names.data, arguments)}
    return {**frame.symbols, **known}


def _run(frame: Frame, op: Operation, operands: list[Value]) -> Sequence[Value]:
    function, parameters = compile_nest(op, kernel_symbols(frame, op))
    try:
        with np.errstate(all="ignore"):
            return function(*(_plain(frame[value]) for value in parameters))
    except (OutOfBoundsError, IndexError) as problem:
        emit_error(op, f"accesses memory out of bounds: {problem}")


def _plain(value: Value) -> Value:
    """Index values are Python's integers, which do not overflow."""
    return int(value) if isinstance(value, np.integer) else value


FRAME_OPS: dict[str, FrameFunction] = dict.fromkeys(_HANDLERS, _run)
"""Frame functions of the loop dialect: each op outside of any loop is compiled and called."""
