"""Kernel calls of a host program: which buffers a kernel gets, and what its symbols are.

    %0 = graph.call @k(%x, %w) : (...) -> tensor<?x4xf32, #tw.enc<dims = [n]>>
    -->
    %0 = vm.alloc(%n) : memref<?x4xf32, #tw.dims<[n]>>
    %ws = vm.alloc(%n) : memref<?xf32, #tw.dims<[n]>>
    vm.call @k(%x, %w, %0, %ws, %n) : ...

Outputs that the function returns go to the caller's memory directly. Constants are packed as the kernel's
``packed`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import SymbolTable

from ...core.attributes import IndexMapAttr, layout_of, memref_shape_exprs, memref_type
from ...core.diagnostics import emit_error
from ...core.symbolic import SymExpr, sym
from ...dialects.graph.structure import CallOp as GraphCallOp
from ...dialects.graph.structure import ConstantOp as GraphConstantOp
from ...dialects.vm.ops import CallOp
from .graph_to_vm import HostConversion, buffer_type


def convert_call(to: HostConversion, op: GraphCallOp) -> None:
    """Allocate what the kernel writes and call it."""
    kernel = SymbolTable.lookup_symbol(to.module, op.callee)
    if not isinstance(kernel, FuncOp):
        emit_error(op, f"calls {op.callee}, which is no function of the module")
    expected = list(kernel.function_type.inputs)
    num_inputs, num_outputs = _count(kernel, "num_inputs"), _count(kernel, "num_outputs")
    workspaces, symbols = _count(kernel, "num_workspaces"), _symbols(kernel)
    if num_inputs + num_outputs + workspaces + len(symbols) != len(expected):
        emit_error(kernel, f"has {len(expected)} arguments, which its attributes do not account for")
    if num_inputs != len(op.arguments) or num_outputs != len(op.results):
        emit_error(op, f"has {len(op.arguments)} inputs, kernel {op.callee} takes {num_inputs}")
    args = _inputs(to, op, kernel, expected[:num_inputs])
    args += [_destination(to, result, op) for result in op.results]
    values = _solve(to, op, symbols, expected, args)
    for type in expected[num_inputs + num_outputs : num_inputs + num_outputs + workspaces]:
        args.append(_workspace(to, type, values, op))
    args += [to.symbols.value(values[name]) for name in symbols]
    to.emit(CallOp(op.callee.root_reference.data, args), op)


def _inputs(
    to: HostConversion, op: GraphCallOp, kernel: FuncOp, expected: Sequence[Attribute]
) -> list[SSAValue]:
    packed = _packed(kernel)
    args: list[SSAValue] = []
    for number, (value, type) in enumerate(zip(op.arguments, expected)):
        map = packed.get(number)
        owner = value.owner
        if map is None:
            args.append(to.buffer(value))
        elif isinstance(owner, GraphConstantOp):
            layout = layout_of(value.type)
            args.append(to.constant(owner, map if layout is None else map.compose(layout), type))
        else:
            emit_error(op, f"argument {number} must be a constant: kernel {op.callee} wants it packed")
    return args


def _destination(to: HostConversion, result: SSAValue, op: Operation) -> SSAValue:
    type = buffer_type(result.type)
    output = to.destinations.get(result)
    if output is not None:
        to.buffers[result] = to.view(output, type, op)
    else:
        to.buffers[result] = to.allocate(type, op)
        to.buffers[result].name_hint = result.name_hint
    return to.buffers[result]


def _workspace(to: HostConversion, type: Attribute, values: dict[str, SymExpr], op: Operation) -> SSAValue:
    shape = [extent.subs(values) for extent in memref_shape_exprs(type)]
    return to.allocate(memref_type(cast("MemRefType[Attribute]", type).element_type, shape), op)


def _solve(
    to: HostConversion,
    op: GraphCallOp,
    symbols: Sequence[str],
    expected: Sequence[Attribute],
    args: Sequence[SSAValue],
) -> dict[str, SymExpr]:
    """What each symbol of the kernel is for the caller: the same one, or whatever makes the shapes agree."""
    pairs = [(memref_shape_exprs(wanted), memref_shape_exprs(given.type)) for wanted, given in zip(expected, args)]
    values: dict[str, SymExpr] = {name: sym(name) for name in symbols}
    if any(theirs != ours for theirs, ours in pairs):
        values = _matched([pair for shapes in pairs for pair in zip(*shapes)])
    for name in symbols:
        if name not in values:
            emit_error(op, f"cannot tell the symbol '{name}' of kernel {op.callee} from the arguments")
        to.known(op, sorted(values[name].symbols()))
    for number, (theirs, ours) in enumerate(pairs):
        if tuple(extent.subs(values) for extent in theirs) != ours:
            found = f"{expected[number]}, found {args[number].type}"
            emit_error(op, f"argument {number} of kernel {op.callee} is {found}")
    return values


def _matched(pairs: Sequence[tuple[SymExpr, SymExpr]]) -> dict[str, SymExpr]:
    """Values of the symbols on the left of which both sides are equal, as far as extents linear in one symbol tell."""
    values: dict[str, SymExpr] = {}
    for theirs, ours in sorted(pairs, key=lambda pair: pair[0].kind != "sym"):
        unknown = theirs.symbols() - values.keys()
        name = next(iter(unknown)) if len(unknown) == 1 else ""
        factor = theirs.coefficient(name) if name else None
        if factor:
            values[name] = (ours - theirs.subs({**values, name: 0})) // factor
    return values


def _count(kernel: FuncOp, name: str) -> int:
    value = kernel.attributes.get(name)
    return value.value.data if isinstance(value, IntegerAttr) else 0


def _symbols(kernel: FuncOp) -> list[str]:
    value = kernel.attributes.get("symbols")
    return (
        [name.data for name in value if isinstance(name, StringAttr)] if isinstance(value, ArrayAttr) else []
    )


def _packed(kernel: FuncOp) -> dict[int, IndexMapAttr]:
    """The kernel's ``packed`` attribute: argument number to the map that packs it."""
    value = kernel.attributes.get("packed")
    packed: dict[int, IndexMapAttr] = {}
    for entry in value if isinstance(value, ArrayAttr) else ():
        number, map = cast("tuple[IntegerAttr, IndexMapAttr]", tuple(cast("ArrayAttr[Attribute]", entry)))
        packed[number.value.data] = map
    return packed
