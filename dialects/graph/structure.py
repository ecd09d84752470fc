"""Ops that hold programs together: constants and recipes, fused kernels, calls, casts of shapes and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FlatSymbolRefAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import IndexMapAttr, layout_of, shape_exprs, tensor_type
from ...core.symbolic import ExprLike
from .base import FusionKind, GraphOp, Tensor, require_same_tensor, tensor_of


@irdl_op_definition
class ConstantOp(GraphOp):
    """A constant tensor: ``value`` is ``dense<...>`` (small ones), ``dense_resource<name>`` (an array of the context's
    resource table) or ``@name`` of a ``graph.recipe`` (a derived weight).

    ``graph.constant dense<1.0> : tensor<4xf32>``, ``graph.constant @w7 : tensor<64x3x7x7xf32>``
    """

    name = "graph.constant"
    value = prop_def()
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.OPAQUE
    traits = traits_def(Pure())

    def __init__(self, value: Attribute | str, type: Attribute | None = None) -> None:
        if isinstance(value, str):
            value = FlatSymbolRefAttr(value)
        if type is None:
            assert isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr)
            type = value.type
        IRDLOperation.__init__(self, properties={"value": value}, result_types=[type])

    @property
    def recipe(self) -> str | None:
        """Name of the recipe that computes the value, if there is one."""
        return self.value.root_reference.data if isinstance(self.value, SymbolRefAttr) else None

    @property
    def resource(self) -> str | None:
        """Name of the resource that holds the value, if there is one."""
        return self.value.resource_handle.data if isinstance(self.value, DenseResourceAttr) else None

    def verify_(self) -> None:
        type = tensor_of(self.result)
        if isinstance(self.value, SymbolRefAttr):
            return
        if not isinstance(self.value, DenseIntOrFPElementsAttr | DenseResourceAttr):
            raise VerifyException(f"value is {self.value}, expected dense<>, dense_resource<> or a symbol")
        if not isinstance(self.value.type, TensorType):
            raise VerifyException(f"value has type {self.value.type}, expected a tensor")
        require_same_tensor(type, cast(Tensor, self.value.type))


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the region of a kernel or a recipe with its results: ``graph.yield %v : tensor<4xf32>``."""

    name = "graph.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue) -> None:
        super().__init__(operands=[values])


@irdl_op_definition
class RecipeOp(IRDLOperation):
    """A derived weight: module-level ops over constants, evaluated once when the artefact is written.

    Isolated, without arguments; ends in a ``graph.yield`` of one value of ``type``. A recipe may use other recipes
    through its constants, without cycles.

    Example::

        graph.recipe @w7 : tensor<8xf32> {
          %a = graph.constant dense_resource<scale> : tensor<8xf32>
          %r = graph.rsqrt %a : (tensor<8xf32>) -> tensor<8xf32>
          graph.yield %r : tensor<8xf32>
        }
    """

    name = "graph.recipe"
    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = "$sym_name `:` $type attr-dict-with-keyword $body"

    def __init__(self, name: str, type: Attribute, body: Region) -> None:
        super().__init__(properties={"sym_name": StringAttr(name), "type": type}, regions=[body])

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException(f"region has {len(self.body.block.args)} arguments, expected none")
        verify_yield(self.body, [self.type])


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A fused group: an isolated region that will be compiled as one kernel. Operands ``inputs``, one result or more.

    The region's arguments are the operands; it ends in a ``graph.yield`` of the results. ``kernel_name`` names the
    kernel for people and profiles, it need not be unique.

    Example::

        %y = graph.kernel "add_relu" (%x, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
        ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
          %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          %3 = graph.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
          graph.yield %3 : tensor<4xf32>
        }
    """

    name = "graph.kernel"
    inputs = var_operand_def(TensorType)
    kernel_name = prop_def(StringAttr)
    results_ = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), Pure())
    assembly_format = "$kernel_name `(` $inputs `)` attr-dict `:` functional-type(operands, results) $body"

    def __init__(self, name: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], body: Region) -> None:
        super().__init__(
            operands=[inputs],
            properties={"kernel_name": StringAttr(name)},
            result_types=[result_types],
            regions=[body],
        )

    def verify_(self) -> None:
        args = self.body.block.args
        if len(args) != len(self.inputs):
            raise VerifyException(f"region has {len(args)} arguments, expected {len(self.inputs)}")
        for value, arg in zip(self.inputs, args):
            if value.type != arg.type:
                raise VerifyException(f"region argument has type {arg.type}, expected {value.type}")
        if not self.results_:
            raise VerifyException("has no result, expected at least one")
        verify_yield(self.body, [result.type for result in self.results_])


def verify_yield(body: Region, types: Sequence[Attribute]) -> None:
    """The region ends in a ``graph.yield`` of exactly these types."""
    terminator = body.block.last_op
    if not isinstance(terminator, YieldOp):
        raise VerifyException("region must end in graph.yield")
    found = [value.type for value in terminator.values]
    if found != list(types):
        raise VerifyException(
            f"graph.yield has types ({', '.join(map(str, found))}), expected ({', '.join(map(str, types))})"
        )


@irdl_op_definition
class CallOp(IRDLOperation):
    """Calls an outlined kernel on tensors: ``%y = graph.call @k(%x, %w) : (tensor<4xf32>, tensor<4xf32>) ->
    tensor<4xf32>``.

    The callee may already be in destination-passing form on memrefs: operands are its inputs, results its outputs.
    """

    name = "graph.call"
    callee = prop_def(FlatSymbolRefAttr)
    arguments = var_operand_def()
    results_ = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type(operands, results)"

    def __init__(self, callee: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[arguments],
            properties={"callee": FlatSymbolRefAttr(callee)},
            result_types=[result_types],
        )


@irdl_op_definition
class RelayoutOp(GraphOp):
    """The same tensor in another physical layout: only the encoding's ``layout`` of the result differs.

    ``graph.relayout %x : (tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32, #tw.enc<layout =
    (d0, d1, d2, d3) -> (d0, d1 floordiv 16, d2, d3, d1 mod 16)>>``
    """

    name = "graph.relayout"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, layout: IndexMapAttr | None) -> None:
        type = tensor_of(input)
        result = tensor_type(type.element_type, shape_exprs(type), layout)
        IRDLOperation.__init__(self, operands=[input], result_types=[result])

    def verify_(self) -> None:
        require_same_tensor(tensor_of(self.result), tensor_of(self.input))


@irdl_op_definition
class MatchShapeOp(GraphOp):
    """Claims that a tensor has the result's shape, where inference cannot see it; checked at run time.

    Symbols in the result type that were unknown before are bound here by their first plain occurrence as a
    dimension, all others are checked. Rejects ranks, constants or element types that cannot agree.

    ``graph.match_shape %x : (tensor<?x8xf32, #tw.enc<dims = [n]>>) -> tensor<?x8xf32, #tw.enc<dims = [m * 2]>>``
    """

    name = "graph.match_shape"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.OPAQUE
    traits = traits_def(RecursiveMemoryEffect())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, shape: Sequence[ExprLike]) -> None:
        type = tensor_of(input)
        result = tensor_type(type.element_type, shape, layout_of(type))
        IRDLOperation.__init__(self, operands=[input], result_types=[result])

    def verify_(self) -> None:
        found, claimed = tensor_of(self.input), tensor_of(self.result)
        if found.element_type != claimed.element_type:
            raise VerifyException(f"element types differ: {found.element_type} and {claimed.element_type}")
        if found.get_num_dims() != claimed.get_num_dims():
            raise VerifyException(f"ranks differ: {found.get_num_dims()} and {claimed.get_num_dims()}")
        for a, b in zip(shape_exprs(found), shape_exprs(claimed)):
            if a.is_const() and b.is_const() and a != b:
                raise VerifyException(f"dimensions differ: {a} and {b}")
        if layout_of(found) != layout_of(claimed):
            raise VerifyException("layouts differ, use graph.relayout to change them")


STRUCTURE_OPS: tuple[type[IRDLOperation], ...] = (
    ConstantOp, YieldOp, RecipeOp, KernelOp, CallOp, RelayoutOp, MatchShapeOp,
)  # fmt: skip
