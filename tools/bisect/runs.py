"""Running an entry in the reference interpreter, and comparing what comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, ShapedType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import IndexMapAttr
from ...core.context import TilewrightContext
from ...interp import Interpreter
from ...interp.arith import numpy_dtype
from ...interp.interpreter import Frame, FrameFunction, Value, ValueFunction
from ...interp.loop import allocate
from ...interp.packing import pack
from ...testing.check_pass import TOLERANCES
from .program import Array, Inputs, entry_function, shape_of

FRESH_BUFFERS = ("vm.alloc", "vm.output", "vm.storage")


def _spoil(buffer: Array) -> None:
    """Fill new memory with what shows in a result that reads it: NaN, the largest integer."""
    buffer[...] = allocate(buffer.shape, buffer.dtype)


@dataclass
class Run:
    """One execution: the results, then what memrefs among the arguments hold afterwards; and how it got there."""

    outputs: list[Array]
    trace: list[tuple[Operation, list[Array]]] = field(default_factory=list)


class Tracer(Interpreter):
    """Keeps what every operation gave, in order; says where a value is not what its type claims."""

    def __init__(self, module: ModuleOp, context: TilewrightContext) -> None:
        super().__init__(module, context)
        self.trace: list[tuple[Operation, list[Array]]] = []
        self.false_claim: str | None = None
        self._inputs: int | None = None
        """How many arguments of the kernel that is about to be called come from the caller; the rest is new memory."""

    def call_function(
        self, function: FuncOp, args: Sequence[Value], symbols: dict[str, int] | None = None
    ) -> list[Value]:
        given, self._inputs = self._inputs, None
        for value in () if given is None else args[given:]:
            if isinstance(value, np.ndarray):
                _spoil(value)
        return super().call_function(function, args, symbols)

    def lookup(self, op: Operation) -> tuple[ValueFunction | None, FrameFunction | None]:
        value_function, frame_function = super().lookup(op)

        def traced(frame: Frame, inner: Operation, operands: list[Value]) -> Sequence[Value]:
            self._inputs = len(operands) if inner.name == "graph.call" else None
            if value_function is not None:
                results: Sequence[Value] = (value_function(inner, *operands),)
            else:
                assert frame_function is not None
                results = frame_function(frame, inner, operands)
            if inner.name in FRESH_BUFFERS:
                _spoil(results[0])
            self._keep(frame, inner, operands, results)
            return results

        return None, traced

    def _keep(self, frame: Frame, op: Operation, operands: list[Value], results: Sequence[Value]) -> None:
        arrays = [np.asarray(r) for r in results if isinstance(r, np.ndarray)]
        if op.name == "vm.call":
            arrays = [np.array(a) for a in self._written(op, operands)]
        if arrays:
            self.trace.append((op, arrays))
        for value, result in zip(results, op.results):
            if isinstance(result.type, TensorType) and np.shape(value) != frame.shape(result.type):
                self.false_claim = f"'{op.name}' gives shape {np.shape(value)} for {result.type}"

    def _written(self, op: Operation, operands: list[Value]) -> list[Value]:
        kernel = self.find(op.properties["kernel"].root_reference.data)  # type: ignore[attr-defined]
        assert kernel is not None
        first, count = (kernel.attributes[n].value.data for n in ("num_inputs", "num_outputs"))  # type: ignore[attr-defined]
        return operands[first : first + count]


def execute(module: ModuleOp, context: TilewrightContext, entry: str, args: Sequence[Any]) -> Run:
    """Call ``entry`` on copies of ``args``; any failure is an exception."""
    tracer = Tracer(module, context)
    arrays = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    function = entry_function(module, entry)
    with np.errstate(all="ignore"):
        results = tracer.call(entry, arrays)
    written = [a for a, arg in zip(arrays, function.body.block.args) if isinstance(arg.type, MemRefType)]
    if tracer.false_claim is not None:
        raise VerifyException(tracer.false_claim)
    return Run([np.asarray(r) for r in (*results, *written)], tracer.trace)


def arguments_after(function: FuncOp, args: Sequence[Any], inputs: Inputs) -> list[Any]:
    """The arguments of an entry that a pass has changed: the same arrays in order, buffers for workspaces between."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    scalars = [a for a in args if not isinstance(a, np.ndarray)]
    made = inputs.make(function)
    packed = _packed(function)
    result: list[Any] = []
    for index, (arg, default) in enumerate(zip(function.body.block.args, made)):
        if not isinstance(arg.type, ShapedType):
            result.append(scalars.pop(0) if scalars else default)
        elif arrays:
            array = arrays.pop(0)
            if index in packed:
                array = pack(array, packed[index], [e.const_value() for e in shape_of(arg.type)])
            result.append(array)
        else:
            result.append(allocate(np.shape(default), numpy_dtype(arg.type)))
    return result


def _packed(function: FuncOp) -> dict[int, IndexMapAttr]:
    entries = function.attributes.get("packed")
    found: dict[int, IndexMapAttr] = {}
    for entry in entries.data if isinstance(entries, ArrayAttr) else ():
        index, layout = entry.data
        found[index.value.data] = layout
    return found


@dataclass(frozen=True)
class Difference:
    """Two results that should be equal: where, and how far beyond the tolerance (1 is at its edge)."""

    message: str
    ratio: float

    def __str__(self) -> str:
        return self.message


def difference(found: Sequence[Array], expected: Sequence[Array], names: Sequence[str] = ()) -> Difference | None:
    """The first departure among the results; those that ``found`` has beyond ``expected`` do not count."""
    if len(found) < len(expected):
        return Difference(f"{len(found)} results, expected {len(expected)}", math.inf)
    for index, (left, right) in enumerate(zip(found, expected)):
        name = f"'{names[index]}'" if index < len(names) else f"{index}"
        departure = array_difference(left, right, f"result {name}")
        if departure is not None:
            return departure
    return None


def array_difference(found: Array, expected: Array, what: str = "value") -> Difference | None:
    """Where two arrays differ in shape, type, or by more than the tolerance of the type."""
    if found.shape != expected.shape:
        return Difference(f"{what} has shape {list(found.shape)}, expected {list(expected.shape)}", math.inf)
    if found.dtype != expected.dtype:
        return Difference(f"{what} has type {found.dtype}, expected {expected.dtype}", math.inf)
    if not found.size:
        return None
    ratios = _ratios(found, expected)
    worst = np.unravel_index(int(np.argmax(ratios)), ratios.shape)
    if ratios[worst] <= 1.0:
        return None
    count = int((ratios > 1.0).sum())
    place = "" if not found.shape else f" at {[int(i) for i in worst]}"
    share = "" if found.size == 1 else f" ({count} of {found.size} elements differ)"
    return Difference(f"{what} is {found[worst]}{place}, expected {expected[worst]}{share}", float(ratios[worst]))


def _ratios(found: Array, expected: Array) -> Array:
    """By element: the error as a multiple of what is tolerated; infinite for exact types and for NaN."""
    tolerance = TOLERANCES.get(expected.dtype.name)
    if tolerance is None:
        return np.where(np.asarray(found != expected), math.inf, 0.0)
    left, right = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        ratios = np.abs(left - right) / (tolerance[1] + tolerance[0] * np.abs(right))
    equal = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.where(equal, 0.0, np.where(np.isnan(ratios), math.inf, ratios))


