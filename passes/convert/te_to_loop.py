"""The pass ``convert-te-to-loop``: kernels of ``te.compute`` become destination-passing functions of plain loop nests.

One compute becomes one nest with one ``loop.block``; order, placement, vectors and threads are left to schedules.
This is where layouts are applied: memrefs have the physical shape, and the spatial loops of a nest run over the
physical dimensions of its result. What stands inside a block is in ``te_to_loop_body``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...core.attributes import (
    ExprListAttr,
    IndexMapAttr,
    layout_of,
    memref_type,
    physical_shape,
    shape_exprs,
)
from ...core.context import TilewrightContext
from ...core.diagnostics import emit_error
from ...core.passes import ModulePass
from ...core.symbolic import SymExpr, as_expr, bounds
from ...dialects.loop.ops import AllocOp, BlockOp, ForOp
from ...dialects.te.ops import ComputeOp
from ..loop.index import IndexSpace
from ..loop.nest import all_blocks
from ..loop.primitives.decompose_reduction import decompose_reduction, reduction_loops
from .index_scope import IndexScope
from .te_to_loop_body import Buffer, emit_block_body, emit_copy_body, emit_identities

Exprs = tuple[SymExpr, ...]
_SERIAL = StringAttr("serial")


@dataclass(frozen=True)
class ConvertTeToLoopPass(ModulePass):
    """Rewrites every function marked ``tw.kernel`` that still works on tensors.

    ::

        func.func private @k(%x: tensor<8xf32>) -> tensor<8xf32> attributes {tw.kernel} {
          %0 = te.compute "exp" (%x as %a) [%i] in [8] -> tensor<8xf32> { ... }
          func.return %0 : tensor<8xf32>
        }
        -->
        func.func private @k(%x: memref<8xf32>, %out: memref<8xf32>)
            attributes {tw.kernel, symbols = [], num_inputs = 1, num_outputs = 1} {
          loop.for %i = 0 to 8 {
            loop.block "exp" spatial(%vi in 8 = %i) { ... loop.load ... loop.store ... }
          }
          func.return
        }

    Arguments are inputs, outputs, then one ``index`` for each symbol, sorted by name. Intermediate tensors are
    allocated at the head of the function. A reduction over a dimension of constant size 0 stores the identity; one
    over a dimension that may be 0 at run time (``n - 2``; symbols themselves are at least 1) stores the identity in a
    nest of its own first, since the loop that starts the reduction might not run. A layout whose blocks do not
    divide the shape, or that is no split and permutation of dimensions, is refused.
    """

    name: ClassVar[str] = "convert-te-to-loop"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, func.FuncOp) and "tw.kernel" in kernel.attributes and _is_on_tensors(kernel):
                convert_kernel(kernel)


def _is_on_tensors(kernel: func.FuncOp) -> bool:
    types = (*kernel.function_type.inputs.data, *kernel.function_type.outputs.data)
    return any(isinstance(t, TensorType) for t in types)


def convert_kernel(kernel: func.FuncOp) -> None:
    """Rewrites one kernel in place."""
    _KernelConversion(kernel).run()


def free_symbols(kernel: func.FuncOp) -> list[str]:
    """Names of the symbolic dimensions that a kernel on tensors uses, sorted."""
    names: set[str] = set()
    types: list[Attribute] = [*kernel.function_type.inputs.data, *kernel.function_type.outputs.data]
    for op in kernel.body.walk():
        types += [r.type for r in op.results]
        for attr in op.properties.values():
            if isinstance(attr, ExprListAttr):
                names.update(*(e.symbols() for e in attr.exprs))
            elif isinstance(attr, IndexMapAttr):
                inputs = {f"d{k}" for k in range(attr.num_inputs)}
                names.update(*(e.symbols() - inputs for e in attr.results))
    for type_ in types:
        if isinstance(type_, TensorType):
            names.update(*(e.symbols() for e in shape_exprs(type_)))
    return sorted(names)


@dataclass
class _KernelConversion:
    kernel: func.FuncOp
    buffers: dict[SSAValue, Buffer] = field(default_factory=dict)

    def run(self) -> None:
        kernel, old = self.kernel, self.kernel.body.block
        terminator = old.last_op
        assert isinstance(terminator, func.ReturnOp)
        inputs, outputs = [a.type for a in old.args], [v.type for v in terminator.operands]
        symbols = free_symbols(kernel)
        types = [*(_memref(t, kernel) for t in (*inputs, *outputs)), *([IndexType()] * len(symbols))]
        self.block = Block(arg_types=types)
        self.symbols: dict[str, SSAValue] = dict(zip(symbols, self.block.args[len(inputs) + len(outputs) :]))
        for arg, new in zip(old.args, self.block.args):
            self._bind(arg, new)
            new.name_hint = arg.name_hint
        self._name_arguments(len(inputs), len(outputs))
        copies = self._assign_outputs(terminator, self.block.args[len(inputs) : len(inputs) + len(outputs)])
        for op in old.ops:
            if isinstance(op, ComputeOp):
                self._convert_compute(op)
            elif op is not terminator:
                emit_error(op, "cannot become loops, a kernel holds te.compute only")
        for source, out in copies:
            self._convert_copy(terminator, source, out)
        returned = func.ReturnOp()
        returned.location = terminator.location
        self.block.add_op(returned)
        self._replace_body(types, symbols, len(inputs), len(outputs))
        _separate_inits(kernel)

    def _name_arguments(self, inputs: int, outputs: int) -> None:
        for position, arg in enumerate(self.block.args[inputs : inputs + outputs]):
            arg.name_hint = "out" if outputs == 1 else f"out{position}"
        for name, value in self.symbols.items():
            value.name_hint = name

    def _bind(self, tensor: SSAValue, memref: SSAValue) -> Buffer:
        layout = layout_of(tensor.type) or IndexMapAttr.identity(len(shape_exprs(tensor.type)))
        buffer = Buffer(memref, shape_exprs(tensor.type), layout)
        self.buffers[tensor] = buffer
        return buffer

    def _assign_outputs(
        self, terminator: func.ReturnOp, outs: Sequence[SSAValue]
    ) -> list[tuple[SSAValue, SSAValue]]:
        """Computes write returned values where they belong; (value, output) where that needs a copy."""
        copies: list[tuple[SSAValue, SSAValue]] = []
        for value, out in zip(terminator.operands, outs):
            if value in self.buffers or not isinstance(value.owner, ComputeOp):
                copies.append((value, out))
            else:
                self._bind(value, out)
        return copies

    def _convert_compute(self, op: ComputeOp) -> None:
        name = "compute" if op.block_name is None else op.block_name.data
        layout = layout_of(op.results_[0].type)
        for position, result in enumerate(op.results_):
            if layout_of(result.type) != layout:
                emit_error(op, "results have different layouts, expected one")
            if result not in self.buffers:
                self._allocate(op, result, name if len(op.results_) == 1 else f"{name}_{position}")
        is_empty = any(extent == 0 for extent in op.reduce_extents.exprs)
        depths = () if is_empty else op.reduce_extents.exprs
        nest = _Nest(op, name, op.results_[0].type, depths, self.symbols)
        inputs = {arg: self.buffers[value] for arg, value in zip(op.input_args, op.inputs)}
        outputs = [self.buffers[result] for result in op.results_]
        if is_empty:
            emit_identities(op, nest.block, outputs, nest.scope, nest.logical)
        else:
            emit_block_body(op, nest.block, inputs, outputs, nest.scope, nest.logical, nest.reduce)
        self.block.add_op(nest.outermost)

    def _convert_copy(self, where: Operation, source: SSAValue, out: SSAValue) -> None:
        nest = _Nest(where, "copy", source.type, (), self.symbols)
        buffer = self.buffers[source]
        emit_copy_body(nest.block, buffer, Buffer(out, buffer.shape, buffer.layout), nest.scope, nest.logical)
        self.block.add_op(nest.outermost)

    def _allocate(self, op: Operation, result: SSAValue, name: str) -> None:
        alloc = AllocOp(name, cast(MemRefType, _memref(result.type, op)))
        alloc.location = op.location
        alloc.result.name_hint = result.name_hint
        first = next((o for o in self.block.ops if not isinstance(o, AllocOp)), None)
        if first is None:
            self.block.add_op(alloc)
        else:
            self.block.insert_op_before(alloc, first)
        self._bind(result, alloc.result)

    def _replace_body(
        self, types: Sequence[Attribute], symbols: Sequence[str], inputs: int, outputs: int
    ) -> None:
        kernel = self.kernel
        region = kernel.body
        old = region.detach_block(0)
        old.drop_all_references()
        old.erase(safe_erase=False)
        region.add_block(self.block)
        kernel.properties["function_type"] = FunctionType.from_lists(list(types), [])
        kernel.properties.pop("arg_attrs", None)
        kernel.properties.pop("res_attrs", None)
        kernel.attributes["symbols"] = ArrayAttr([StringAttr(s) for s in symbols])
        kernel.attributes["num_inputs"] = IntegerAttr(inputs, i64)
        kernel.attributes["num_outputs"] = IntegerAttr(outputs, i64)


def _separate_inits(kernel: func.FuncOp) -> None:
    """Reductions that may be empty start in a block of their own."""
    space = IndexSpace(kernel)
    for block in list(all_blocks(kernel)):
        if block.init is not None:
            loops = reduction_loops(space, block)
            if any(_may_be_empty(space.extent(loop)) for loop in loops):
                decompose_reduction(space, block, loops[0])


def _may_be_empty(extent: SymExpr) -> bool:
    least, _ = bounds(extent, dict.fromkeys(extent.symbols(), (1, None)))
    return least is None or least < 1


def _memref(type_: Attribute, where: Operation) -> Attribute:
    if not isinstance(type_, TensorType):
        emit_error(where, f"has a value of type {type_}, a kernel works on tensors")
    try:
        return memref_type(type_.element_type, physical_shape(type_))
    except ValueError as problem:
        emit_error(where, f"layout of {type_} cannot be applied: {problem}")


class _Nest:
    """The loops and the empty block of one compute."""

    def __init__(
        self, op: Operation, name: str, type_: Attribute, reduce: Exprs, symbols: dict[str, SSAValue]
    ) -> None:
        self.location = op.location
        shape, physical = shape_exprs(type_), physical_shape(type_)
        self._check_no_padding(op, type_, shape, physical)
        extents = (*physical, *reduce)
        kinds = ["spatial"] * len(physical) + ["reduce"] * len(reduce)
        loops = self._make_loops(extents, symbols)
        variables = [loop.var for loop in loops]
        self.block = self._make_block(name, kinds, variables, extents, symbols, bool(reduce))
        innermost = loops[-1].body.block if loops else None
        if innermost is not None:
            innermost.add_op(self.block)
        self.outermost: Operation = loops[0] if loops else self.block
        self.scope, iters = self._make_scope(extents, symbols)
        self.physical, self.reduce = iters[: len(physical)], iters[len(physical) :]
        self.logical = self._logical_index(op, type_, shape)

    def _check_no_padding(self, op: Operation, type_: Attribute, shape: Exprs, physical: Exprs) -> None:
        if _count(shape) != _count(physical):
            emit_error(op, f"layout of {type_} has padding lanes, its blocks must divide the shape")

    def _make_loops(self, extents: Exprs, symbols: dict[str, SSAValue]) -> list[ForOp]:
        scope = IndexScope()
        for name, value in symbols.items():
            scope.bind(name, value)
        loops: list[ForOp] = []
        for position, extent in enumerate(extents):
            args, map_ = scope.operands([extent])
            loop = ForOp.create(
                operands=args,
                properties={"extent": map_, "kind": _SERIAL},
                regions=[Region(Block(arg_types=[IndexType()]))],
                location=self.location,
            )
            loop.var.name_hint = f"i{position}"
            if loops:
                loops[-1].body.block.add_op(loop)
            loops.append(loop)
        return loops

    def _make_block(
        self,
        name: str,
        kinds: Sequence[str],
        variables: Sequence[SSAValue],
        extents: Exprs,
        symbols: dict[str, SSAValue],
        is_reduction: bool,
    ) -> BlockOp:
        scope = IndexScope()
        bindings = [scope.add("i", v) for v in variables]
        for symbol, value in symbols.items():
            scope.bind(symbol, value)
        args, both = scope.operands((*bindings, *extents))
        count = len(variables)
        index = [IndexType()] * count
        block = BlockOp(
            name,
            kinds,
            args,
            IndexMapAttr(both.num_inputs, both.results[:count]),
            IndexMapAttr(both.num_inputs, both.results[count:]),
            Region(Block(arg_types=index)),
            Region(Block(arg_types=index)) if is_reduction else None,
        )
        block.location = self.location
        return block

    def _make_scope(self, extents: Exprs, symbols: dict[str, SSAValue]) -> tuple[IndexScope, Exprs]:
        scope = IndexScope()
        iters = []
        for position, (arg, extent) in enumerate(zip(self.block.body.block.args, extents)):
            arg.name_hint = f"v{position}"
            iters.append(scope.add_index("i", arg, extent))
        for name, value in symbols.items():
            scope.bind(name, value)
        return scope, tuple(iters)

    def _logical_index(self, op: Operation, type_: Attribute, shape: Exprs) -> Exprs:
        """The logical index of the element that the physical iterators stand on."""
        layout = layout_of(type_)
        if layout is None:
            return self.physical
        try:
            return layout.inverse(shape).apply(self.physical)
        except ValueError as problem:
            emit_error(op, f"layout of {type_} cannot be iterated: {problem}")


def _count(shape: Exprs) -> SymExpr:
    count = as_expr(1)
    for extent in shape:
        count = count * extent
    return count

