"""``convert-graph-to-vm``: public functions of kernel calls become host programs.

Before::

    func.func @main(%x: tensor<?x784xf32, #tw.enc<dims = [n]>>) -> tensor<?x10xf32, #tw.enc<dims = [n]>> {
      %w = graph.constant dense_resource<w0> : tensor<784x10xf32>
      %0 = graph.call @dense(%x, %w) : (...) -> tensor<?x10xf32, #tw.enc<dims = [n]>>
      func.return %0 : tensor<?x10xf32, #tw.enc<dims = [n]>>
    }

After::

    func.func @main(%x: memref<?x784xf32, #tw.dims<[n]>>) -> memref<?x10xf32, #tw.dims<[n]>> {
      %n = vm.dim %x 0 : memref<?x784xf32, #tw.dims<[n]>>
      ...checks of the other dimensions...
      %w = vm.constant dense_resource<w0> : tensor<784x10xf32> packed <...> : memref<...>
      %o = vm.output 0(%n) : memref<?x10xf32, #tw.dims<[n]>>
      vm.call @dense(%x, %w, %o, %n) : ...
      vm.return %o : memref<?x10xf32, #tw.dims<[n]>>
    }

Expects kernels in their final form, on memrefs with attributes ``symbols``, ``num_inputs``, ``num_outputs``,
``num_workspaces`` and ``packed``. A constant is packed as each kernel asks; kernels that ask for the same
share it. ``scf.if`` and ``scf.while`` over tensors become the same over memory (``graph_to_vm_control.py``).
Kernels and recipes are left as they are. Memory is not planned yet: every tensor has its own
``vm.alloc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from ...core.attributes import (
    IndexMapAttr,
    layout_of,
    memref_shape_exprs,
    memref_type,
    physical_shape,
    shape_exprs,
)
from ...core.context import TilewrightContext
from ...core.diagnostics import emit_error
from ...core.passes import ModulePass
from ...dialects.graph.base import FusionKind, GraphOp
from ...dialects.graph.structure import CallOp as GraphCallOp
from ...dialects.graph.structure import ConstantOp as GraphConstantOp
from ...dialects.graph.structure import MatchShapeOp
from ...dialects.vm.ops import (
    AllocOp,
    ConstantOp,
    CopyOp,
    OutputOp,
    ViewOp,
    free_symbols,
)
from ...dialects.vm.ops import (
    ReturnOp as VmReturnOp,
)
from .symbol_binding import Emit, SymbolValues, bind_inputs, check_extent, require_sizes


@dataclass(frozen=True)
class ConvertGraphToVmPass(ModulePass):
    """Turns public functions of kernel calls into host programs.

    A function whose body holds anything but constants, kernel calls, views, ``graph.match_shape``, ``scf.if``,
    ``scf.while`` and ``tensor.extract`` is refused.
    """

    name = "convert-graph-to-vm"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for function in list(op.ops):
            if isinstance(function, FuncOp) and function.body.blocks and is_entry(function):
                HostConversion(op, function).run()


def is_entry(function: FuncOp) -> bool:
    """Public functions are entries of the model; kernels are private."""
    visibility = function.sym_visibility
    return visibility is None or visibility.data == "public"


def input_names(function: FuncOp) -> list[str]:
    """The model's names of the arguments, ``input0`` and so on where it has none."""
    return _names(function.arg_attrs, len(function.function_type.inputs), "input")


def output_names(function: FuncOp) -> list[str]:
    """The model's names of the results, ``output0`` and so on where it has none."""
    return _names(function.res_attrs, len(function.function_type.outputs), "output")


def _names(attrs: ArrayAttr[DictionaryAttr] | None, count: int, word: str) -> list[str]:
    found = [None] * count if attrs is None else [entry.data.get("tw.name") for entry in attrs]
    return [name.data if isinstance(name, StringAttr) else f"{word}{i}" for i, name in enumerate(found)]


def buffer_type(type: Attribute) -> Attribute:
    """The memref that holds a tensor: its physical shape."""
    assert isinstance(type, TensorType)
    return memref_type(type.element_type, physical_shape(type))


@dataclass
class HostConversion:
    """The conversion of one function. ``buffers`` maps tensors to memrefs, constants are made where they are
    used.
    """

    module: ModuleOp
    function: FuncOp
    head: list[Operation] = field(default_factory=list)
    """Ops on sizes, constants and outputs, which come first."""
    top: list[Operation] = field(default_factory=list)
    """The function's own ops after the head. All memory is allocated here, also that of ops in regions."""
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict)
    constants: dict[tuple[Attribute, IndexMapAttr | None, Attribute], SSAValue] = field(default_factory=dict)
    destinations: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """For tensors that are outputs: the buffer of the output."""

    def __post_init__(self) -> None:
        self.body = self.top
        """Where ops go: the function's own or those of a region of control flow."""
        self.symbols = SymbolValues(self.head.append)

    def run(self) -> None:
        if len(self.function.body.blocks) != 1:
            emit_error(self.function, "has several blocks, expected one")
        old = self.function.body.block
        for type in (*self.function.function_type.inputs, *self.function.function_type.outputs):
            if not isinstance(type, TensorType):
                emit_error(self.function, f"is public and has {type} in its signature, expected tensors only")
        types = [buffer_type(arg.type) for arg in old.args]
        new = Block(arg_types=types)
        for before, after in zip(old.args, new.args):
            after.name_hint = before.name_hint
            self.buffers[before] = after
        named = zip(input_names(self.function), new.args, old.args)
        bind_inputs(
            self.function, [(n, after, shape_exprs(before.type)) for n, after, before in named], self.symbols
        )
        terminator = old.last_op
        if not isinstance(terminator, ReturnOp):
            emit_error(self.function, "must end in func.return")
        for op in old.ops:
            if isinstance(op, MatchShapeOp):
                self._bind_claim(op, self.head.append)
        outputs = self._outputs(terminator)
        for op in old.ops:
            self.convert(op)
        self._finish_outputs(terminator, outputs)
        self.top.append(VmReturnOp(outputs))
        new.add_ops([*self.head, *self.top])
        self._replace(new, types, [output.type for output in outputs])

    def _replace(self, new: Block, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> None:
        region = self.function.body
        old = region.detach_block(region.block)
        region.add_block(new)
        self.function.function_type = FunctionType.from_lists(inputs, outputs)
        old.drop_all_references()

    def convert_region(self, block: Block) -> list[Operation]:
        """The ops that a region's block becomes, its terminator left out; symbols bound in it are forgotten."""
        outer, known = self.body, self.symbols.snapshot()
        self.body = []
        for op in block.ops:
            if isinstance(op, MatchShapeOp):
                self._bind_claim(op, self.body.append)
            if op is not block.last_op:
                self.convert(op)
        converted, self.body = self.body, outer
        self.symbols.restore(known)
        return converted

    def convert(self, op: Operation) -> None:
        """Append what one op becomes."""
        from .graph_to_vm_calls import convert_call
        from .graph_to_vm_control import CONTROL

        if isinstance(op, GraphConstantOp | ReturnOp):
            return
        if (control := CONTROL.get(type(op))) is not None:
            control(self, op)
            return
        if isinstance(op, GraphCallOp):
            convert_call(self, op)
        elif isinstance(op, MatchShapeOp):
            self.buffers[op.result] = self.view(self.buffer(op.input), buffer_type(op.result.type), op)
        elif isinstance(op, GraphOp) and op.fusion_kind is FusionKind.VIEW:
            self._graph_view(op)
        elif isinstance(op, GraphOp):
            emit_error(op, "is not supported by native code: it is in no kernel")
        else:
            emit_error(op, "is not expected in a host program: only constants, kernel calls, views and control flow")

    # Outputs.

    def _outputs(self, terminator: ReturnOp) -> list[SSAValue]:
        """One ``vm.output`` per result; a kernel whose (viewed) result is returned once writes there
        directly.
        """
        outputs: list[SSAValue] = []
        for number, value in enumerate(terminator.arguments):
            type = buffer_type(value.type)
            names = self.known(terminator, free_symbols(type))
            require_sizes(memref_shape_exprs(type), self.symbols, self.head.append)
            op = OutputOp(number, self.symbols.sizes(names), type)
            self.head.append(op)
            outputs.append(op.result)
            root = self._root(value)
            if isinstance(root.owner, GraphCallOp) and root not in self.destinations:
                self.destinations[root] = op.result
        return outputs

    def _finish_outputs(self, terminator: ReturnOp, outputs: Sequence[SSAValue]) -> None:
        """Copy what no kernel wrote in place."""
        for value, output in zip(terminator.arguments, outputs):
            if self.destinations.get(self._root(value)) is not output:
                self.copy(self.buffer(value), output, terminator)

    def _root(self, value: SSAValue) -> SSAValue:
        """The tensor that a chain of views shows."""
        while isinstance(value, OpResult) and self._is_view(value.op):
            value = value.op.operands[0]
        return value

    def _is_view(self, op: Operation) -> bool:
        return isinstance(op, MatchShapeOp) or (isinstance(op, GraphOp) and op.fusion_kind is FusionKind.VIEW)

    # Views and constants.

    def _graph_view(self, op: GraphOp) -> None:
        if layout_of(op.operands[0].type) is not None or layout_of(op.results[0].type) is not None:
            emit_error(op, "of a tensor with a layout is no view, it belongs into a kernel")
        self.buffers[op.results[0]] = self.view(
            self.buffer(op.operands[0]), buffer_type(op.results[0].type), op
        )

    def view(self, source: SSAValue, type: Attribute, origin: Operation) -> SSAValue:
        if source.type == type:
            return source
        op = ViewOp(source, self.symbols.sizes(self.known(origin, free_symbols(type))), type)
        self.emit(op, origin)
        return op.result

    def buffer(self, value: SSAValue) -> SSAValue:
        """The memref of a tensor; a constant is taken as it is."""
        owner = value.owner
        if isinstance(owner, GraphConstantOp):
            return self.constant(owner, layout_of(value.type), buffer_type(value.type))
        return self.buffers[value]

    def constant(self, op: GraphConstantOp, packed: IndexMapAttr | None, type: Attribute) -> SSAValue:
        if packed is not None and packed.is_identity:
            packed = None
        key = (op.value, packed, type)
        found = self.constants.get(key)
        if found is None:
            constant = ConstantOp(op.value, type, packed)
            constant.location = op.location
            self.head.append(constant)
            found = self.constants[key] = constant.result
            found.name_hint = op.result.name_hint
        return found

    # Shapes claimed inside of the function.

    def _bind_claim(self, op: MatchShapeOp, check: Emit) -> None:
        """Bind the symbols that a ``graph.match_shape`` introduces and check the rest of its claim."""
        pairs = list(zip(shape_exprs(op.input.type), shape_exprs(op.result.type)))
        what = f"tensor '{op.result.name_hint}'" if op.result.name_hint else "a tensor"
        unbound = []
        for dim, (found, claimed) in enumerate(pairs):
            self.known(op, sorted(found.symbols()))
            if claimed.kind == "sym" and claimed.name not in self.symbols.values:
                self.symbols.bind(claimed.name, self.symbols.value(found), what, dim)
            else:
                unbound.append((dim, found, claimed))
        for dim, found, claimed in unbound:
            self.known(op, sorted(claimed.symbols()))
            if found != claimed:
                check_extent(what, dim, claimed, self.symbols.value(found), self.symbols, check)

    def known(self, op: Operation, names: Sequence[str]) -> Sequence[str]:
        """The names, if all of them are bound."""
        for name in names:
            if name not in self.symbols.values:
                emit_error(op, f"uses the symbol '{name}', which no input and no graph.match_shape binds")
        return names

    # What the parts of the conversion share.

    def allocate(self, type: Attribute, op: Operation) -> SSAValue:
        """Memory for a tensor of ``op``."""
        names = self.known(op, free_symbols(type))
        require_sizes(memref_shape_exprs(type), self.symbols, self.head.append)
        alloc = AllocOp(self.symbols.sizes(names), type)
        alloc.location = op.location
        self.top.append(alloc)
        return alloc.result

    def copy(self, source: SSAValue, target: SSAValue, op: Operation) -> None:
        """Copy a tensor."""
        sizes = self.symbols.sizes(free_symbols(target.type))
        self.emit(CopyOp(self.view(source, target.type, op), target, sizes), op)

    def emit(self, op: Operation, origin: Operation) -> None:
        """Append an op that ``origin`` became."""
        op.location = origin.location
        self.body.append(op)
