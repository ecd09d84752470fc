"""Operations of the ``vm`` dialect: the host program of one public function.

Why: kernels compute, something must give them memory and call them in order. That program is IR like
everything else: planned by ``passes/vm``, checked by an interpreter, and compiled to native code by a target.
A public function is a ``func.func`` on memrefs, one argument per input and one result per output; its body is
straight-line.

Values are memrefs (a pointer to contiguous row-major data, aligned to 64 bytes), ``!vm.storage`` (a run of
bytes that lives as long as the call) and ``index`` values, the sizes that are known only at run time. An op
whose type has symbolic extents takes one ``index`` operand per free symbol, in the order of their names, as
kernels do.

Elsewhere: how ``@main`` becomes this (``passes/convert/graph_to_vm.py``), where buffers go
(``passes/vm/plan_memory.py``), the meaning in NumPy (``interp/vm.py``), native code
(``targets/llvm/host.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, Pure, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import IndexMapAttr, memref_shape_exprs, shape_exprs

Buffer = MemRefType[Attribute]


@irdl_attr_definition
class StorageType(ParametrizedAttribute, TypeAttribute):
    """A run of bytes, aligned to 64, that lives until the function returns: ``!vm.storage``."""

    name = "vm.storage"


def free_symbols(type: Attribute) -> tuple[str, ...]:
    """The symbols in a memref's extents, sorted by name: what an op with this type takes as ``index``
    operands.
    """
    return tuple(sorted(set[str]().union(*(extent.symbols() for extent in memref_shape_exprs(type)))))


def _verify_symbols(args: Sequence[SSAValue], type: Attribute) -> None:
    symbols = free_symbols(type)
    if len(symbols) != len(args):
        raise VerifyException(
            f"takes {len(symbols)} sizes ({', '.join(symbols) or 'none'}) for {type}, found {len(args)}"
        )


def _verify_single(map: IndexMapAttr, args: Sequence[SSAValue]) -> None:
    if map.num_inputs != len(args) or len(map.results) != 1:
        raise VerifyException(f"expected one expression over {len(args)} arguments, found {map}")
    if any(name not in {f"d{i}" for i in range(len(args))} for name in map.results[0].symbols()):
        raise VerifyException(f"'{map.results[0]}' names something that is no argument")


@irdl_op_definition
class DimOp(IRDLOperation):
    """The size of one dimension of an argument of the function, as the caller passed it.

    Operand ``source``: a memref argument; ``dim``: which dimension. Result: ``index``.

    Example: ``%n = vm.dim %x 0 : memref<?x784xf32, #tw.dims<[n]>>``
    """

    name = "vm.dim"
    source = operand_def(MemRefType)
    dim = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$source $dim attr-dict `:` type($source)"

    def __init__(self, source: SSAValue, dim: int) -> None:
        super().__init__(
            operands=[source], properties={"dim": IntegerAttr(dim, i64)}, result_types=[IndexType()]
        )

    def verify_(self) -> None:
        rank = len(cast(Buffer, self.source.type).get_shape())
        if not 0 <= self.dim.value.data < rank:
            raise VerifyException(f"dimension {self.dim.value.data} of a memref of rank {rank}")
        if isinstance(self.source.owner, Operation):
            raise VerifyException("takes an argument of the function")


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The value of an index expression over ``args``; result ``index``.

    Example: ``%m = vm.index <(d0) -> (d0 * 2 + 1)>(%n)``
    """

    name = "vm.index"
    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$map `(` $args `)` attr-dict"

    def __init__(self, map: IndexMapAttr, args: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[args], properties={"map": map}, result_types=[IndexType()])

    def verify_(self) -> None:
        _verify_single(self.map, self.args)


@irdl_op_definition
class CheckOp(IRDLOperation):
    """Ends the call with an error unless two sizes are equal.

    ``message`` is what the caller is told; ``{a}`` and ``{b}`` in it stand for the two values (other braces
    are doubled).

    Example: ``vm.check %a equals %b, "input 'y' has {a} in dimension 0, input 'x' has {b}: both are 'n'"``
    """

    name = "vm.check"
    found = operand_def(IndexType)
    expected = operand_def(IndexType)
    message = prop_def(StringAttr)
    assembly_format = "$found `equals` $expected `,` $message attr-dict"

    def __init__(self, found: SSAValue, expected: SSAValue, message: str) -> None:
        super().__init__(operands=[found, expected], properties={"message": StringAttr(message)})

    def verify_(self) -> None:
        try:
            self.message.data.format(a=0, b=0)
        except (KeyError, IndexError, ValueError):
            raise VerifyException("message may hold {a} and {b}, other braces doubled") from None


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A weight, as it lies in the artefact. Read-only.

    ``value``: ``dense<...>``, ``dense_resource<name>`` or the symbol of a ``graph.recipe``. ``packed`` maps an
    index of the value to an index of the memref, which holds the map's image and may be larger; elements that
    the map does not reach are zero. Without ``packed`` both have the same shape.

    Example: ``%w = vm.constant dense_resource<w0> : tensor<10x100xf32> packed <(d0, d1) -> (d1 floordiv 16,
    d0, d1 mod 16)> : memref<7x10x16xf32>``
    """

    name = "vm.constant"
    value = prop_def(AnyAttr())
    packed = opt_prop_def(IndexMapAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "$value (`packed` $packed^)? attr-dict `:` type($result)"

    def __init__(self, value: Attribute, type: Attribute, packed: IndexMapAttr | None = None) -> None:
        super().__init__(properties={"value": value, "packed": packed}, result_types=[type])

    def verify_(self) -> None:
        if free_symbols(self.result.type):
            raise VerifyException(f"a constant cannot have the symbolic type {self.result.type}")
        value = self.value
        if isinstance(value, SymbolRefAttr):
            return
        if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
            raise VerifyException(
                f"value is {value}, expected dense, dense_resource or the symbol of a recipe"
            )
        type = value.get_type() if isinstance(value, DenseIntOrFPElementsAttr) else value.type
        _verify_packing(cast(TensorType[Attribute], type), self.packed, cast(Buffer, self.result.type))


def _verify_packing(source: TensorType[Attribute], packed: IndexMapAttr | None, result: Buffer) -> None:
    if source.element_type != result.element_type:
        raise VerifyException(f"element types differ: {source.element_type} and {result.element_type}")
    shape = shape_exprs(source)
    if packed is not None and packed.num_inputs != len(shape):
        raise VerifyException(f"packed takes {packed.num_inputs} indices, the value has rank {len(shape)}")
    found = memref_shape_exprs(result)
    if packed is None and found != shape:
        raise VerifyException(f"value of shape {list(map(str, shape))} cannot be {result}")
    if packed is not None:
        image = packed.image_shape(shape)
        if len(image) != len(found) or any(a.const_value() > b.const_value() for a, b in zip(image, found)):
            raise VerifyException(f"packed value of shape {list(map(str, image))} does not fit into {result}")


@irdl_op_definition
class AllocOp(IRDLOperation):
    """Memory for a tensor that lives inside the call; where it lies is for ``vm-plan-memory`` to decide.

    Operands: one size per free symbol of the type.

    Example: ``%a = vm.alloc(%n) : memref<?x10xf32, #tw.dims<[n]>>``
    """

    name = "vm.alloc"
    sizes = var_operand_def(IndexType)
    result = result_def(MemRefType)
    assembly_format = "`(` $sizes `)` attr-dict `:` type($result)"

    def __init__(self, sizes: Sequence[SSAValue], type: Attribute) -> None:
        super().__init__(operands=[sizes], result_types=[type])

    def verify_(self) -> None:
        _verify_symbols(self.sizes, self.result.type)


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The memory of output number ``number``: the caller's, or newly allocated for the caller. Also reports
    its shape.

    Operands: one size per free symbol of the type.

    Example: ``%o = vm.output 0(%n) : memref<?x10xf32, #tw.dims<[n]>>``
    """

    name = "vm.output"
    sizes = var_operand_def(IndexType)
    number = prop_def(IntegerAttr.constr(i64))
    result = result_def(MemRefType)
    assembly_format = "$number `(` $sizes `)` attr-dict `:` type($result)"

    def __init__(self, number: int, sizes: Sequence[SSAValue], type: Attribute) -> None:
        super().__init__(
            operands=[sizes], properties={"number": IntegerAttr(number, i64)}, result_types=[type]
        )

    def verify_(self) -> None:
        _verify_symbols(self.sizes, self.result.type)


@irdl_op_definition
class StorageOp(IRDLOperation):
    """One block of memory for the whole call, of ``bytes`` (an expression over ``args``).

    Example: ``%s = vm.storage <(d0) -> (d0 * 3136 + 640)>(%n)``
    """

    name = "vm.storage"
    args = var_operand_def(IndexType)
    bytes = prop_def(IndexMapAttr)
    result = result_def(StorageType)
    assembly_format = "$bytes `(` $args `)` attr-dict"

    def __init__(self, bytes: IndexMapAttr, args: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[args], properties={"bytes": bytes}, result_types=[StorageType()])

    def verify_(self) -> None:
        _verify_single(self.bytes, self.args)


@irdl_op_definition
class PlaceOp(IRDLOperation):
    """A tensor at byte ``offset`` (an expression over ``args``, a multiple of 64) of a storage.

    ``sizes``: one per free symbol of the type.

    Example: ``%a = vm.place %s at <(d0) -> (d0 * 640)>(%n) sizes(%n) : memref<?x10xf32, #tw.dims<[n]>>``
    """

    name = "vm.place"
    storage = operand_def(StorageType)
    args = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    offset = prop_def(IndexMapAttr)
    result = result_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$storage `at` $offset `(` $args `)` (`sizes` `(` $sizes^ `)`)? attr-dict `:` type($result)"
    )

    def __init__(
        self,
        storage: SSAValue,
        offset: IndexMapAttr,
        args: Sequence[SSAValue],
        sizes: Sequence[SSAValue],
        type: Attribute,
    ) -> None:
        super().__init__(
            operands=[storage, args, sizes], properties={"offset": offset}, result_types=[type]
        )

    def verify_(self) -> None:
        _verify_single(self.offset, self.args)
        _verify_symbols(self.sizes, self.result.type)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same memory with another shape of as many elements.

    ``sizes``: one per free symbol of the result's type.

    Example: ``%b = vm.view %a sizes(%n) : memref<?x28x28xf32, #tw.dims<[n]>> to memref<?x784xf32, #tw.dims<[n]>>``
    """

    name = "vm.view"
    source = operand_def(MemRefType)
    sizes = var_operand_def(IndexType)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "$source (`sizes` `(` $sizes^ `)`)? attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, sizes: Sequence[SSAValue], type: Attribute) -> None:
        super().__init__(operands=[source, sizes], result_types=[type])

    def verify_(self) -> None:
        source, result = cast(Buffer, self.source.type), cast(Buffer, self.result.type)
        if source.element_type != result.element_type:
            raise VerifyException(f"element types differ: {source.element_type} and {result.element_type}")
        _verify_symbols(self.sizes, result)


@irdl_op_definition
class LoadOp(IRDLOperation):
    """The element of a memref of rank 0, for conditions: ``%c = vm.load %a : memref<i1>``; result: the element type."""

    name = "vm.load"
    source = operand_def(MemRefType)
    result = result_def()
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue) -> None:
        super().__init__(operands=[source], result_types=[cast(Buffer, source.type).element_type])

    def verify_(self) -> None:
        type = cast(Buffer, self.source.type)
        if type.get_shape() or type.element_type != self.result.type:
            raise VerifyException(f"loads {self.result.type} from {type}, expected a memref of rank 0 of that type")


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copies all elements: ``vm.copy %a to %b(%n) : memref<?xf32, #tw.dims<[n]>>, ...``. Sizes as for
    ``vm.alloc``.
    """

    name = "vm.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    sizes = var_operand_def(IndexType)
    assembly_format = "$source `to` $target `(` $sizes `)` attr-dict `:` type($source) `,` type($target)"

    def __init__(self, source: SSAValue, target: SSAValue, sizes: Sequence[SSAValue]) -> None:
        super().__init__(operands=[source, target, sizes])

    def verify_(self) -> None:
        if self.source.type != self.target.type:
            raise VerifyException(f"types differ: {self.source.type} and {self.target.type}")
        _verify_symbols(self.sizes, self.source.type)


class _CallUse(SymbolUserOpInterface):
    """A kernel that is in the module must take what the call passes."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp)
        kernel = SymbolTable.lookup_symbol(op, op.kernel)
        if not isinstance(kernel, FuncOp):
            raise VerifyException(f"kernel {op.kernel} is not a function of the module")
        expected = tuple(kernel.function_type.inputs)
        found = tuple(operand.type for operand in op.args)
        if len(expected) != len(found):
            raise VerifyException(f"kernel {op.kernel} takes {len(expected)} arguments, found {len(found)}")
        for number, (wanted, given) in enumerate(zip(expected, found)):
            if wanted != given:
                raise VerifyException(f"argument {number} of kernel {op.kernel} is {wanted}, found {given}")


@irdl_op_definition
class CallOp(IRDLOperation):
    """Runs a kernel on buffers: inputs, outputs, workspaces, then the values of its symbols, as its signature
    says.

    Example: ``vm.call @matmul(%x, %w, %y, %n) : memref<...>, memref<...>, memref<...>, index``
    """

    name = "vm.call"
    kernel = prop_def(FlatSymbolRefAttrConstr)
    args = var_operand_def()
    traits = traits_def(_CallUse())
    assembly_format = "$kernel `(` $args `)` attr-dict `:` type($args)"

    def __init__(self, kernel: str, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[args], properties={"kernel": SymbolRefAttr(kernel)})


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends the function; every value comes from ``vm.output``: ``vm.return %o : memref<10xf32>``."""

    name = "vm.return"
    values = var_operand_def(MemRefType)
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"

    def __init__(self, values: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[values])

    def verify_(self) -> None:
        for number, value in enumerate(self.values):
            owner = value.owner
            if not isinstance(owner, OutputOp) or owner.number.value.data != number:
                raise VerifyException(f"value {number} is not made by vm.output {number}")
        parent = self.parent_op()
        if isinstance(parent, FuncOp):
            expected = tuple(parent.function_type.outputs)
            found = tuple(value.type for value in self.values)
            if expected != found:
                raise VerifyException(
                    f"returns {_types(found)}, the function's results are {_types(expected)}"
                )


def _types(types: Sequence[Any]) -> str:
    return ", ".join(map(str, types)) or "nothing"


VM = Dialect(
    "vm",
    [
        DimOp,
        IndexOp,
        CheckOp,
        ConstantOp,
        AllocOp,
        OutputOp,
        StorageOp,
        PlaceOp,
        ViewOp,
        LoadOp,
        CopyOp,
        CallOp,
        ReturnOp,
    ],
    [StorageType],
)
