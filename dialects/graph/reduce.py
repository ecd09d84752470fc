"""Reductions over dimensions. Norms, log-sum-exp and the like are written out by importers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, i1, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import shape_exprs, tensor_type
from ...core.symbolic import as_expr
from .base import (
    INTS,
    FusionKind,
    GraphOp,
    Properties,
    Shape,
    Tensor,
    get_int,
    get_ints,
    ints,
    require_axes,
    require_axis,
    require_float,
)


def _flag(value: bool) -> IntegerAttr | None:
    return IntegerAttr.from_bool(True) if value else None


def _reduced(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    if keep:
        return tuple(as_expr(1) if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


class ReduceOp(GraphOp):
    """Base: combines the elements along ``axes`` (increasing, counted from the front).

    ``input: tensor<S x T>`` gives S without the axes, or with ``keep_dims`` S with 1 in their places. No axes: a copy.
    """

    input = operand_def(TensorType)
    axes = prop_def(INTS)
    keep_dims = opt_prop_def(BoolAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.REDUCTION
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, axes: Sequence[int], keep_dims: bool = False) -> None:
        self.init_inferred([input], {"axes": ints(axes), "keep_dims": _flag(keep_dims)})

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        """Refuse element types that the op has no meaning for."""
        if type.element_type == i1:
            raise VerifyException("element type is i1, expected a number")

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        cls.check_element(type)
        axes = get_ints(properties, "axes")
        require_axes(axes, type.get_num_dims())
        shape = _reduced(shape_exprs(type), axes, bool(get_int(properties, "keep_dims", 0)))
        return [tensor_type(type.element_type, shape)]


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """Sum, 0 of nothing. ONNX ReduceSum, Sum over axes.

    ``graph.reduce_sum %x {axes = array<i64: 1>, keep_dims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>``
    """

    name = "graph.reduce_sum"


@irdl_op_definition
class ReduceProdOp(ReduceOp):
    """Product, 1 of nothing: ``graph.reduce_prod %x {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>``.

    ONNX ReduceProd.
    """

    name = "graph.reduce_prod"


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """Arithmetic mean of floats; over the spatial axes it is global average pooling. ONNX ReduceMean,
    GlobalAveragePool.

    ``graph.reduce_mean %x {axes = array<i64: 2, 3>} : (tensor<1x8x7x7xf32>) -> tensor<1x8xf32>``
    """

    name = "graph.reduce_mean"

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        require_float(type)


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """Maximum, NaN if any element is NaN; on i1 "any". Of nothing: the smallest value (-inf). ONNX ReduceMax.

    ``graph.reduce_max %x {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>``
    """

    name = "graph.reduce_max"

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        """Every element type has an order."""


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """Minimum, NaN if any element is NaN; on i1 "all". Of nothing: the largest value (inf). ONNX ReduceMin.

    ``graph.reduce_min %x {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>``
    """

    name = "graph.reduce_min"

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        """Every element type has an order."""


class ArgReduceOp(GraphOp):
    """Base: index (i64) of an extreme element along ``axis``; of equal ones the first, with ``last_index`` the
    last."""

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    keep_dims = opt_prop_def(BoolAttr)
    last_index = opt_prop_def(BoolAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.REDUCTION
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, axis: int, keep_dims: bool = False, last_index: bool = False) -> None:
        self.init_inferred(
            [input],
            {
                "axis": IntegerAttr(axis, i64),
                "keep_dims": _flag(keep_dims),
                "last_index": _flag(last_index),
            },
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        axis = get_int(properties, "axis", 0)
        require_axis(axis, type.get_num_dims())
        shape = _reduced(shape_exprs(type), [axis], bool(get_int(properties, "keep_dims", 0)))
        return [tensor_type(i64, shape)]


@irdl_op_definition
class ArgMaxOp(ArgReduceOp):
    """``graph.argmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>``. ONNX ArgMax."""

    name = "graph.argmax"


@irdl_op_definition
class ArgMinOp(ArgReduceOp):
    """``graph.argmin %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>``. ONNX ArgMin."""

    name = "graph.argmin"


REDUCE_OPS: tuple[type[GraphOp], ...] = (
    ReduceSumOp, ReduceProdOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ArgMaxOp, ArgMinOp,
)  # fmt: skip
