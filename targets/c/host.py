"""Public functions: a host program of the vm dialect becomes a function with a plain C interface.

    int32_t <model>_run(const float *image, float *scores, void *workspace, int64_t n)
    size_t <model>_workspace_size(int64_t n)

Parameters are the inputs, the outputs, the workspace if one is needed, and the dimensions of the inputs that are known
only at run time: called by their symbol where it occurs first, ``<input>_dim<k>`` elsewhere. The function returns 0, or
a code whose text ``<model>_error`` gives: 1 for a NULL pointer or a negative dimension, greater ones for dimensions
that disagree.

The program's storages lie in the workspace one after another. Nothing is allocated, there is no mutable global, so the
function may run in several threads at once with a workspace each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import FunctionType, IndexType, MemRefType, NoneType, i1, i32, i64
from xdsl.dialects.func import FuncOp as EntryOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...core.attributes import memref_shape_exprs
from ...core.diagnostics import emit_error
from ...core.symbolic import SymExpr, const, sym
from ...dialects.vm import ops as vm
from ...interp.arith import numpy_dtype
from ...passes.convert.graph_to_vm import input_names, output_names
from ...passes.vm.plan_memory import byte_size
from ...passes.vm.weights import WeightSection
from .build import UI8, Builder, erase_unused, pointer_type, storage_type
from .dialect import AddressOfOp, CallOp, CastOp, IsNullOp, LoadOp, LogicalNotOp, OffsetOp
from .lower import kernel_name
from .lower_index import IndexLowering
from .names import Names
from .structure import BreakOp, ForeverOp, FuncOp, IfOp, ReturnOp, TableOp
from .types import PointerType, SizeType

INVALID_ARGUMENT = 1
"""The code for a pointer that is NULL or a dimension that is negative; checks have the codes after it."""
_ALIGNMENT = 64
_VOID = PointerType(NoneType())


@dataclass
class HostProgram:
    """The functions and tables of a model's host programs, and what the codes after ``INVALID_ARGUMENT`` mean."""

    tables: dict[str, TableOp] = field(default_factory=dict)
    functions: list[FuncOp] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def public_name(entry: str) -> str:
    """What a public function is called after the model's prefix: ``main`` is ``run``."""
    return "run" if entry == "main" else Names().fresh(entry)


def lower_host(entries: Sequence[EntryOp], kernels: Mapping[str, EntryOp], weights: WeightSection) -> HostProgram:
    """The functions of all entries; ``kernels`` are the functions that they may call."""
    program = HostProgram()
    numbers = {(w.offset, w.op.result.type): number for number, w in enumerate(weights.weights)}
    for entry in entries:
        name = public_name(entry.sym_name.data)
        size_name = "workspace_size" if name == "run" else f"{name}_workspace_size"
        lowering = _Entry(entry, kernels, lambda op: numbers[weights.offset(op), op.result.type], program)
        if lowering.storages:
            program.functions.append(_WorkspaceSize(lowering.interface).lower(size_name))
        program.functions.append(lowering.lower(name, size_name))
    return program


class _Interface:
    """The parameters of one entry. Dynamic dimensions have names, by which expressions know them."""

    def __init__(self, entry: EntryOp) -> None:
        self.entry = entry
        names = Names(frozenset({"workspace"}))
        self.inputs = [names.fresh(name) for name in input_names(entry)]
        self.outputs = [names.fresh(name) for name in output_names(entry)]
        self.dims: dict[tuple[int, int], str] = {}
        known: set[str] = set()
        for number, argument in enumerate(entry.body.block.args):
            for dim, extent in enumerate(memref_shape_exprs(argument.type)):
                if extent.is_const():
                    continue
                plain = extent.kind == "sym" and extent.name not in known
                known |= {extent.name} if plain else set()
                self.dims[number, dim] = names.fresh(extent.name if plain else f"{self.inputs[number]}_dim{dim}")

    def describe(self) -> list[str]:
        """The parameters in words, one a line."""
        type = self.entry.function_type
        lines = [
            f"{name}: {_tensor(t)}, {what}"
            for what, names, types in (("input", self.inputs, type.inputs), ("output", self.outputs, type.outputs))
            for name, t in zip(names, types)
        ]
        for (number, dim), name in self.dims.items():
            extent = memref_shape_exprs(self.entry.body.block.args[number].type)[dim]
            must = "" if str(extent) == name else f", must be {extent}"
            lines.append(f"{name}: dimension {dim} of {self.inputs[number]}{must}")
        return lines


def _tensor(type: Attribute) -> str:
    assert isinstance(type, MemRefType)
    return f"{numpy_dtype(type).name}[{', '.join(map(str, memref_shape_exprs(type)))}]"


class _Program:
    """What lowering an entry's sizes takes: dimensions and index expressions."""

    def __init__(self, interface: _Interface) -> None:
        self.interface = interface
        self.entry = interface.entry
        self.storages = [op for op in self.entry.body.walk() if isinstance(op, vm.StorageOp)]
        self.used = const(0)
        """Bytes of the workspace that storages take so far."""

    def start(self, block: Block) -> None:
        """Begin the function; the block's last arguments are the dimensions."""
        self.block = block
        self.build = Builder(block, self.entry)
        self.index = IndexLowering(self.build)
        first = len(block.args) - len(self.interface.dims)
        for name, value in zip(self.interface.dims.values(), block.args[first:], strict=True):
            value.name_hint = name
            self.index.define(name, value, (0, None))

    def size_op(self, op: Operation) -> bool:
        """Bind what an operation on sizes gives; whether it was one."""
        if isinstance(op, vm.DimOp):
            number = list(self.entry.body.block.args).index(op.source)  # type: ignore[arg-type]
            dim = op.dim.value.data
            extent = memref_shape_exprs(op.source.type)[dim]
            name = self.interface.dims.get((number, dim))
            self.index.bind_expression(op.result, extent if name is None else sym(name))
        elif isinstance(op, vm.IndexOp):
            self.index.bind_expression(op.result, self.expression(op.map, op.args))
        else:
            return False
        return True

    def expression(self, map: Any, args: Sequence[SSAValue]) -> SymExpr:
        """The value of a one-result map."""
        return self.index.resolve(map, args)[0]

    def reserve(self, op: vm.StorageOp) -> SymExpr:
        """The place of a storage in the workspace."""
        place = self.used
        bytes = self.expression(op.bytes, op.args)
        self.used = place + (bytes + (_ALIGNMENT - 1)) // _ALIGNMENT * _ALIGNMENT
        return place


class _WorkspaceSize(_Program):
    """The function that says how much memory an entry needs."""

    def lower(self, name: str) -> FuncOp:
        block = Block(arg_types=[i64] * len(self.interface.dims))
        self.start(block)
        for op in self.entry.body.walk():
            if not self.size_op(op) and isinstance(op, vm.StorageOp):
                self.reserve(op)
        total = self.index.value(self.used)
        low, _ = self.index.bounds(self.used)
        if not self.used.is_const() or low is None:
            total = self.build.call("tw_max_i64", [total, self.build.integer(0)], i64)
        self.build.add(ReturnOp(self.build.cast(total, SizeType())))
        type = FunctionType.from_lists(block.arg_types, [SizeType()])
        doc = "Bytes of the workspace, which must be aligned as malloc aligns."
        return FuncOp(name, type, Region(block), False, list(self.interface.dims.values()), doc)


class _Entry(_Program):
    """The lowering of one entry. ``values`` maps memrefs and storages to pointers."""

    def __init__(
        self,
        entry: EntryOp,
        kernels: Mapping[str, EntryOp],
        weight_number: Callable[[vm.ConstantOp], int],
        program: HostProgram,
    ) -> None:
        super().__init__(_Interface(entry))
        self.kernels = kernels
        self.weight_number = weight_number
        self.program = program
        self.values: dict[SSAValue, SSAValue] = {}
        self.places: dict[SSAValue, SymExpr] = {}

    def lower(self, name: str, size_name: str) -> FuncOp:
        """The function."""
        entry, interface = self.entry, self.interface
        types: list[Attribute] = [
            *(pointer_type(type, entry, const=True) for type in entry.function_type.inputs),
            *(pointer_type(type, entry) for type in entry.function_type.outputs),
            *([_VOID] if self.storages else []),
            *[i64] * len(interface.dims),
        ]
        names = [
            *interface.inputs,
            *interface.outputs,
            *(["workspace"] if self.storages else []),
            *interface.dims.values(),
        ]
        block = Block(arg_types=types)
        self.start(block)
        for parameter, value in zip(names, block.args, strict=True):
            value.name_hint = parameter
        self.arguments = dict(zip(names, block.args, strict=True))
        self.values.update(zip(entry.body.block.args, block.args))
        self._check_arguments()
        self.ops(entry.body.block)
        signature = FunctionType.from_lists(types, [i32])
        function = FuncOp(name, signature, Region(block), False, names, self._doc(size_name))
        erase_unused(function)
        return function

    def ops(self, block: Block) -> None:
        """Lower the operations of a block, one after the other."""
        for op in block.ops:
            self.build.location = op.location
            lower = _LOWERINGS.get(type(op))
            if lower is not None:
                lower(self, op)
            elif not self.size_op(op):
                emit_error(op, "has no code in a host program in C")

    def _doc(self, size_name: str) -> str:
        lines = ["Runs the model; arrays are dense and row-major. Returns 0 or a code for ?_error.", ""]
        lines += self.interface.describe()
        if self.storages:
            lines.append(f"workspace: at least ?_{size_name}({', '.join(self.interface.dims.values())}) bytes")
        return "\n".join(lines)

    def _check_arguments(self) -> None:
        bad: SSAValue | None = None
        for value in self.block.args:
            if value.type == i64:
                test = self.build.compare(value, "<", self.build.integer(0))
            else:
                test = self.build.value(IsNullOp(value))
            bad = test if bad is None else self.build.plain(bad, "||", test)
        if bad is not None:
            self.leave_if(bad, INVALID_ARGUMENT)

    def leave_if(self, condition: SSAValue, code: int) -> None:
        """Return the code where the condition holds."""
        leaving = IfOp(condition)
        self.build.add(leaving)
        with self.build.inside(leaving.body.block):
            self.build.add(ReturnOp(self.build.integer(code, i32)))

    def bytes_of(self, type: Attribute, sizes: Sequence[SSAValue]) -> SymExpr:
        """The bytes of a memref whose symbols have these values."""
        symbols = {name: self.index.expression_of(size) for name, size in zip(vm.free_symbols(type), sizes)}
        return byte_size(type).subs(symbols)


def _check(entry: _Entry, op: vm.CheckOp) -> None:
    found, expected = entry.index.expression_of(op.found), entry.index.expression_of(op.expected)
    if found == expected:
        return
    operator = "!="
    if (least := _at_least(found, expected)) is not None:
        operator, expected = "<", least
    entry.program.messages.append(op.message.data.format(a=found, b=expected))
    differ = entry.build.compare(entry.index.value(found), operator, entry.index.value(expected))
    entry.leave_if(differ, INVALID_ARGUMENT + len(entry.program.messages))


def _at_least(found: SymExpr, expected: SymExpr) -> SymExpr | None:
    """The other operand where ``found`` must be the larger one of itself and something."""
    if expected.kind != "max" or found not in expected.args or len(expected.args) != 2:
        return None
    return next(arg for arg in expected.args if arg != found)


def _constant(entry: _Entry, op: vm.ConstantOp) -> None:
    type = cast("MemRefType[Attribute]", op.result.type)
    element = storage_type(type.element_type, op)
    number = entry.weight_number(op)
    count = const(1)
    for extent in memref_shape_exprs(type):
        count = count * extent
    table = TableOp(f"weight_{number}", count.const_value(), element, number)
    table.location = op.location
    entry.program.tables.setdefault(table.sym_name.data, table)
    entry.values[op.result] = entry.build.value(AddressOfOp(table.sym_name.data, element))


def _output(entry: _Entry, op: vm.OutputOp) -> None:
    entry.values[op.result] = entry.arguments[entry.interface.outputs[op.number.value.data]]


def _storage(entry: _Entry, op: vm.StorageOp) -> None:
    entry.places[op.result] = entry.reserve(op)


def _place(entry: _Entry, op: vm.PlaceOp) -> None:
    build = entry.build
    offset = entry.places[op.storage] + entry.expression(op.offset, op.args)
    pointer = build.cast(entry.arguments["workspace"], PointerType(UI8))
    if offset != 0:
        pointer = build.value(OffsetOp(pointer, entry.index.value(offset)))
    value = build.value(CastOp(pointer, pointer_type(op.result.type, op)))
    value.name_hint = op.result.name_hint
    entry.values[op.result] = value


def _view(entry: _Entry, op: vm.ViewOp) -> None:
    entry.values[op.result] = entry.values[op.source]


def _load(entry: _Entry, op: vm.LoadOp) -> None:
    """A boolean is a byte in memory."""
    if op.result.type != i1:
        emit_error(op, f"loads a value of type {op.result.type}, expected i1")
    byte = entry.build.value(LoadOp(entry.values[op.source], entry.build.integer(0)))
    entry.values[op.result] = entry.build.compare(byte, "!=", entry.build.integer(0, byte.type))


def _if(entry: _Entry, op: scf.IfOp) -> None:
    made = IfOp(entry.values[op.cond], orelse=Region(Block()) if op.false_region.blocks else None)
    entry.build.add(made)
    for old, new in ((op.true_region, made.body), (op.false_region, made.orelse)):
        if new is not None:
            with entry.build.inside(new.block):
                entry.ops(old.block)


def _while(entry: _Entry, op: scf.WhileOp) -> None:
    made = ForeverOp()
    entry.build.add(made)
    condition = op.before_region.block.last_op
    assert isinstance(condition, scf.ConditionOp)
    with entry.build.inside(made.body.block):
        entry.ops(op.before_region.block)
        leaving = IfOp(entry.build.value(LogicalNotOp(entry.values[condition.condition])))
        entry.build.add(leaving)
        with entry.build.inside(leaving.body.block):
            entry.build.add(BreakOp())
        entry.ops(op.after_region.block)


def _end_of_region(entry: _Entry, op: Operation) -> None:
    """What follows is for the op around the region."""
    if op.operands[1:] or (op.operands and isinstance(op, scf.YieldOp)):
        emit_error(op, "passes values on, expected control flow over memory only")


def _copy(entry: _Entry, op: vm.CopyOp) -> None:
    bytes = entry.build.cast(entry.index.value(entry.bytes_of(op.source.type, op.sizes)), SizeType())
    entry.build.add(CallOp("memcpy", [entry.values[op.target], entry.values[op.source], bytes]))


def _call(entry: _Entry, op: vm.CallOp) -> None:
    name = op.kernel.root_reference.data
    if name not in entry.kernels:
        emit_error(op, f"calls @{name}, for which there is no code")
    arguments = [entry.index.value_of(arg) if isinstance(arg.type, IndexType) else entry.values[arg] for arg in op.args]
    entry.build.add(CallOp(kernel_name(name), arguments))


def _return(entry: _Entry, op: vm.ReturnOp) -> None:
    entry.build.add(ReturnOp(entry.build.integer(0, i32)))


def _unplanned(entry: _Entry, op: Operation) -> None:
    emit_error(op, "has no place yet: run vm-plan-memory first")


_LOWERINGS: dict[type[Operation], Callable[[_Entry, Any], None]] = {
    vm.CheckOp: _check,
    vm.ConstantOp: _constant,
    vm.OutputOp: _output,
    vm.StorageOp: _storage,
    vm.PlaceOp: _place,
    vm.ViewOp: _view,
    vm.CopyOp: _copy,
    vm.CallOp: _call,
    vm.ReturnOp: _return,
    vm.AllocOp: _unplanned,
    vm.LoadOp: _load,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.YieldOp: _end_of_region,
    scf.ConditionOp: _end_of_region,
}
