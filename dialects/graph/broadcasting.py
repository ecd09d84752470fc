"""Elementwise ops of several operands, with NumPy broadcasting.

Shapes are aligned at the last dimension; in each dimension sizes are equal or 1. A symbolic dimension broadcasts only
with an equal expression or with the constant 1: ``n`` with ``m`` needs a ``graph.match_shape`` first. Element types
are equal; importers insert casts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, TensorType, i1
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import shape_exprs
from .base import (
    FusionKind,
    GraphOp,
    Properties,
    Tensor,
    broadcast_type,
    require_integer,
    require_same_element,
    tensor_of,
)


class BroadcastingOp(GraphOp):
    """Base: fuses as elementwise when no operand is really broadcast."""

    FUSION_KIND: ClassVar[FusionKind] = FusionKind.BROADCAST

    @property
    def fusion_kind(self) -> FusionKind:
        shape = shape_exprs(tensor_of(self.results[0]))
        if all(shape_exprs(tensor_of(value)) == shape for value in self.operands):
            return FusionKind.ELEMENTWISE
        return FusionKind.BROADCAST


class BinaryOp(BroadcastingOp):
    """Base: ``lhs: tensor<S x T>, rhs: tensor<R x T>`` give ``tensor<broadcast(S, R) x T>``."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue) -> None:
        self.init_inferred([lhs, rhs])

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        """Refuse element types that the op has no meaning for."""
        if type.element_type == i1:
            raise VerifyException("element type is i1, expected a number")

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        element = require_same_element(operand_types)
        cls.check_element(operand_types[0])
        return [broadcast_type(operand_types, element)]


class BitwiseOp(BinaryOp):
    """Base: integers of any width; on i1 the logical operation."""

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        require_integer(type)


@irdl_op_definition
class AddOp(BinaryOp):
    """Sum, wrapping for integers: ``graph.add %x, %b : (tensor<?x8xf32, #tw.enc<dims = [n]>>, tensor<8xf32>) -> ...``.

    ONNX Add.
    """

    name = "graph.add"
    traits = traits_def(Pure(), Commutative())


@irdl_op_definition
class SubOp(BinaryOp):
    """Difference: ``graph.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>``. ONNX Sub."""

    name = "graph.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """Product: ``graph.mul %x, %y : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>``. ONNX Mul."""

    name = "graph.mul"
    traits = traits_def(Pure(), Commutative())


@irdl_op_definition
class DivOp(BinaryOp):
    """Quotient; for integers truncated towards zero, division by zero undefined. ONNX Div.

    ``graph.div %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>``
    """

    name = "graph.div"


@irdl_op_definition
class ModOp(BinaryOp):
    """Remainder with the sign of the divisor (Python's ``%``), or of the dividend with ``truncated`` (C's ``fmod``).

    ``graph.mod %x, %y {truncated = true} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>``. ONNX Mod.
    """

    name = "graph.mod"
    truncated = opt_prop_def(BoolAttr)

    def __init__(self, lhs: SSAValue, rhs: SSAValue, truncated: bool = False) -> None:
        self.init_inferred([lhs, rhs], {"truncated": IntegerAttr.from_bool(True) if truncated else None})

    @property
    def is_truncated(self) -> bool:
        """Whether the result has the dividend's sign."""
        return self.truncated is not None and bool(self.truncated.value.data)


@irdl_op_definition
class PowOp(BinaryOp):
    """``lhs ** rhs``: ``graph.pow %x, %y : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>``. ONNX Pow."""

    name = "graph.pow"


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger one, NaN if either is NaN: ``graph.max %x, %y : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>``.

    ONNX Max, NumPy ``maximum``.
    """

    name = "graph.max"
    traits = traits_def(Pure(), Commutative())


@irdl_op_definition
class MinOp(BinaryOp):
    """The smaller one, NaN if either is NaN: ``graph.min %x, %y : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>``.

    ONNX Min, NumPy ``minimum``.
    """

    name = "graph.min"
    traits = traits_def(Pure(), Commutative())


@irdl_op_definition
class AndOp(BitwiseOp):
    """Bitwise and: ``graph.and %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>``. ONNX And, BitwiseAnd."""

    name = "graph.and"
    traits = traits_def(Pure(), Commutative())


@irdl_op_definition
class OrOp(BitwiseOp):
    """Bitwise or: ``graph.or %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>``. ONNX Or, BitwiseOr."""

    name = "graph.or"
    traits = traits_def(Pure(), Commutative())


@irdl_op_definition
class XorOp(BitwiseOp):
    """Bitwise xor: ``graph.xor %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>``. ONNX Xor, BitwiseXor."""

    name = "graph.xor"
    traits = traits_def(Pure(), Commutative())


@irdl_op_definition
class ShiftLeftOp(BitwiseOp):
    """``lhs << rhs``: ``graph.shift_left %x, %y : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>``. ONNX BitShift."""

    name = "graph.shift_left"


@irdl_op_definition
class ShiftRightOp(BitwiseOp):
    """``lhs >> rhs``, arithmetic for signless integers, logical for unsigned ones. ONNX BitShift.

    ``graph.shift_right %x, %y : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>``
    """

    name = "graph.shift_right"


PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
"""Comparison predicates; with a NaN all but ``ne`` are false."""


@irdl_op_definition
class CompareOp(BroadcastingOp):
    """Compares elements: ``lhs: tensor<S x T>, rhs: tensor<R x T>`` give ``tensor<broadcast(S, R) x i1>``.

    ``graph.compare %x, %y {predicate = "lt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>``. ONNX Equal, Less, ...
    """

    name = "graph.compare"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    predicate = prop_def(StringAttr)
    result = result_def(TensorType)
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue, predicate: str) -> None:
        self.init_inferred([lhs, rhs], {"predicate": StringAttr(predicate)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        predicate = cast(StringAttr, properties["predicate"]).data
        if predicate not in PREDICATES:
            raise VerifyException(f"unknown predicate '{predicate}', expected one of {', '.join(PREDICATES)}")
        require_same_element(operand_types)
        return [broadcast_type(operand_types, i1)]


@irdl_op_definition
class WhereOp(BroadcastingOp):
    """``lhs`` where ``condition: tensor<S x i1>`` is true, elsewhere ``rhs``; all three broadcast.

    ``graph.where %c, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>``. ONNX Where.
    """

    name = "graph.where"
    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$condition `,` $lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        self.init_inferred([condition, lhs, rhs])

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        condition, lhs, rhs = operand_types
        if condition.element_type != i1:
            raise VerifyException(f"condition has element type {condition.element_type}, expected i1")
        return [broadcast_type(operand_types, require_same_element([lhs, rhs]))]


BROADCASTING_OPS: tuple[type[GraphOp], ...] = (
    AddOp, SubOp, MulOp, DivOp, ModOp, PowOp, MaxOp, MinOp, AndOp, OrOp, XorOp, ShiftLeftOp, ShiftRightOp,
    CompareOp, WhereOp,
)  # fmt: skip
