"""Data-dependent moves: gathers, scatters, running sums, sorting.

Indices are integers; negative ones count from the end as in NumPy. An index out of range is an error of the program:
the interpreter reports it, compiled code never touches memory outside of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, TensorType, i1, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import SymExprAttr, shape_exprs, tensor_type
from ...core.symbolic import ExprLike, SymExpr
from .base import (
    FusionKind,
    GraphOp,
    Properties,
    Tensor,
    get_int,
    require_axis,
    require_equal_dims,
    require_integer,
    require_rank,
    require_same_element,
)


@irdl_op_definition
class GatherOp(GraphOp):
    """Picks slices along ``axis``: ``data: tensor<A... x D x B... x T>, indices: tensor<I...>`` give
    ``tensor<A... x I... x B... x T>``. ONNX Gather, NumPy ``take``.

    ``graph.gather %x, %i {axis = 0 : i64} : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>``
    """

    name = "graph.gather"
    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$data `,` $indices attr-dict `:` functional-type(operands, results)"

    def __init__(self, data: SSAValue, indices: SSAValue, axis: int) -> None:
        self.init_inferred([data, indices], {"axis": IntegerAttr(axis, i64)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        data, indices = operand_types
        require_integer(indices, "index type")
        axis, shape = get_int(properties, "axis", 0), shape_exprs(data)
        require_axis(axis, len(shape))
        result = (*shape[:axis], *shape_exprs(indices), *shape[axis + 1 :])
        return [tensor_type(data.element_type, result)]


@irdl_op_definition
class GatherElementsOp(GraphOp):
    """``result[i, j, ...] = data[i, indices[i, j, ...], ...]``, the index at ``axis``; shape of the indices.

    ``graph.gather_elements %x, %i {axis = 1 : i64} : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>``.
    ONNX GatherElements.
    """

    name = "graph.gather_elements"
    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$data `,` $indices attr-dict `:` functional-type(operands, results)"

    def __init__(self, data: SSAValue, indices: SSAValue, axis: int) -> None:
        self.init_inferred([data, indices], {"axis": IntegerAttr(axis, i64)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        data, indices = operand_types
        require_integer(indices, "index type")
        require_rank(indices, data.get_num_dims(), "indices")
        require_axis(get_int(properties, "axis", 0), data.get_num_dims())
        return [tensor_type(data.element_type, shape_exprs(indices))]


@irdl_op_definition
class GatherNdOp(GraphOp):
    """Picks by index tuples: ``data: tensor<B... x D... x R... x T>``, ``indices: tensor<B... x I... x K>`` with K
    the number of dimensions D, and ``batch_dims`` the number of B; gives ``tensor<B... x I... x R... x T>``.

    ``graph.gather_nd %x, %i {batch_dims = 0 : i64} : (tensor<3x4xf32>, tensor<5x2xi64>) -> tensor<5xf32>``.
    ONNX GatherND.
    """

    name = "graph.gather_nd"
    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    batch_dims = prop_def(IntegerAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$data `,` $indices attr-dict `:` functional-type(operands, results)"

    def __init__(self, data: SSAValue, indices: SSAValue, batch_dims: int = 0) -> None:
        self.init_inferred([data, indices], {"batch_dims": IntegerAttr(batch_dims, i64)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        data, indices = operand_types
        require_integer(indices, "index type")
        batch, shape, picks = (
            get_int(properties, "batch_dims", 0),
            shape_exprs(data),
            shape_exprs(indices),
        )
        depth = _index_depth(picks, len(shape) - batch)
        for a, b in zip(shape[:batch], picks[:batch]):
            require_equal_dims("batch dimensions", a, b)
        return [tensor_type(data.element_type, (*picks[:-1], *shape[batch + depth :]))]


def _index_depth(indices: tuple[SymExpr, ...], limit: int) -> int:
    if not indices or not indices[-1].is_const():
        raise VerifyException("the last dimension of indices must be a constant")
    depth = indices[-1].const_value()
    if not 0 <= depth <= limit:
        raise VerifyException(f"index tuples of length {depth} for {limit} dimensions")
    return depth


SCATTER_REDUCTIONS = ("none", "add", "mul", "max", "min")


class ScatterOp(GraphOp):
    """Base: a copy of ``data`` with ``updates`` written, or combined by ``reduction``, at ``indices``."""

    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    reduction = prop_def(StringAttr)
    result = result_def(TensorType)
    assembly_format = "$data `,` $indices `,` $updates attr-dict `:` functional-type(operands, results)"

    @classmethod
    def check(cls, operand_types: Sequence[Tensor], properties: Properties) -> None:
        data, indices, updates = operand_types
        require_integer(indices, "index type")
        require_same_element([data, updates])
        reduction = cast(StringAttr, properties["reduction"]).data
        if reduction not in SCATTER_REDUCTIONS:
            known = ", ".join(SCATTER_REDUCTIONS)
            raise VerifyException(f"unknown reduction '{reduction}', expected one of {known}")


@irdl_op_definition
class ScatterElementsOp(ScatterOp):
    """``result[i, indices[i, j, ...], ...] = updates[i, j, ...]``, the index at ``axis``; indices and updates have
    one shape, the result is like data. ONNX ScatterElements.

    ``graph.scatter_elements %x, %i, %u {axis = 1 : i64, reduction = "none"}
    : (tensor<1x5xf32>, tensor<1x2xi64>, tensor<1x2xf32>) -> tensor<1x5xf32>``
    """

    name = "graph.scatter_elements"
    axis = prop_def(IntegerAttr)

    def __init__(
        self, data: SSAValue, indices: SSAValue, updates: SSAValue, axis: int, reduction: str = "none"
    ) -> None:
        properties = {"axis": IntegerAttr(axis, i64), "reduction": StringAttr(reduction)}
        self.init_inferred([data, indices, updates], properties)

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        cls.check(operand_types, properties)
        data, indices, updates = operand_types
        require_rank(indices, data.get_num_dims(), "indices")
        require_axis(get_int(properties, "axis", 0), data.get_num_dims())
        if shape_exprs(indices) != shape_exprs(updates):
            raise VerifyException(f"indices {indices} and updates {updates} differ in shape")
        return [data]


@irdl_op_definition
class ScatterNdOp(ScatterOp):
    """Writes at index tuples: ``data: tensor<D... x R... x T>, indices: tensor<I... x K>, updates: tensor<I... x R...
    x T>`` with K the number of dimensions D; the result is like data. ONNX ScatterND.

    ``graph.scatter_nd %x, %i, %u {reduction = "none"}
    : (tensor<8xf32>, tensor<4x1xi64>, tensor<4xf32>) -> tensor<8xf32>``
    """

    name = "graph.scatter_nd"

    def __init__(self, data: SSAValue, indices: SSAValue, updates: SSAValue, reduction: str = "none") -> None:
        self.init_inferred([data, indices, updates], {"reduction": StringAttr(reduction)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        cls.check(operand_types, properties)
        data, indices, updates = operand_types
        shape, picks = shape_exprs(data), shape_exprs(indices)
        depth = _index_depth(picks, len(shape))
        expected = (*picks[:-1], *shape[depth:])
        if shape_exprs(updates) != expected:
            raise VerifyException(f"updates have type {updates}, expected the shape [{', '.join(map(str, expected))}]")
        return [data]


@irdl_op_definition
class CumsumOp(GraphOp):
    """Running sum along ``axis``; ``exclusive`` leaves out the element itself, ``reverse`` runs from the end.

    ``graph.cumsum %x {axis = 0 : i64} : (tensor<5xf32>) -> tensor<5xf32>``. ONNX CumSum.
    """

    name = "graph.cumsum"
    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    exclusive = opt_prop_def(BoolAttr)
    reverse = opt_prop_def(BoolAttr)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, axis: int, exclusive: bool = False, reverse: bool = False) -> None:
        flags = {"exclusive": exclusive, "reverse": reverse}
        self.init_inferred(
            [input],
            {"axis": IntegerAttr(axis, i64), **{k: IntegerAttr.from_bool(True) for k, v in flags.items() if v}},
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        require_axis(get_int(properties, "axis", 0), type.get_num_dims())
        return [type]


@irdl_op_definition
class TopKOp(GraphOp):
    """The ``k`` largest (``largest``) or smallest elements along ``axis`` in order, and their indices (i64).

    Of equal elements the one with the lower index comes first. ONNX TopK (sorted).

    ``graph.topk %x {k = #tw.expr<3>, axis = 1 : i64, largest = true}
    : (tensor<2x8xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)``
    """

    name = "graph.topk"
    input = operand_def(TensorType)
    k = prop_def(SymExprAttr)
    axis = prop_def(IntegerAttr)
    largest = prop_def(BoolAttr)
    values = result_def(TensorType)
    indices = result_def(TensorType)
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, k: ExprLike, axis: int, largest: bool = True) -> None:
        self.init_inferred(
            [input],
            {
                "k": SymExprAttr(k),
                "axis": IntegerAttr(axis, i64),
                "largest": IntegerAttr.from_bool(largest),
            },
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        axis, shape = get_int(properties, "axis", 0), shape_exprs(type)
        require_axis(axis, len(shape))
        k = cast(SymExprAttr, properties["k"]).expr
        if k.is_const() and shape[axis].is_const() and not 0 <= k.const_value() <= shape[axis].const_value():
            raise VerifyException(f"cannot take {k} of {shape[axis]} elements")
        result = (*shape[:axis], k, *shape[axis + 1 :])
        return [tensor_type(e, result) for e in (type.element_type, i64)]


@irdl_op_definition
class NonZeroOp(GraphOp):
    """Indices of the non-zero elements, one column each, in row-major order: ``tensor<rank x count x i64>``.

    ``count`` names the fresh symbolic dimension that the result introduces. ONNX NonZero.

    ``graph.nonzero %x {count = #tw.expr<k>} : (tensor<4x4xi1>) -> tensor<2x?xi64, #tw.enc<dims = [k]>>``
    """

    name = "graph.nonzero"
    input = operand_def(TensorType)
    count = prop_def(SymExprAttr)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, count: ExprLike) -> None:
        self.init_inferred([input], {"count": SymExprAttr(count)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        count = cast(SymExprAttr, properties["count"]).expr
        if count.kind != "sym":
            raise VerifyException(f"count is '{count}', expected the name of a dimension")
        return [tensor_type(i64, (type.get_num_dims(), count))]


@irdl_op_definition
class CompressOp(GraphOp):
    """Keeps the slices along ``axis`` where ``condition: tensor<L x i1>`` is true (L may be shorter than the
    dimension).

    ``count`` names the fresh symbolic dimension of the result. ONNX Compress.

    ``graph.compress %x, %c {axis = 0 : i64, count = #tw.expr<k>}
    : (tensor<4x2xf32>, tensor<4xi1>) -> tensor<?x2xf32, #tw.enc<dims = [k]>>``
    """

    name = "graph.compress"
    input = operand_def(TensorType)
    condition = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    count = prop_def(SymExprAttr)
    result = result_def(TensorType)
    assembly_format = "$input `,` $condition attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, condition: SSAValue, axis: int, count: ExprLike) -> None:
        properties = {"axis": IntegerAttr(axis, i64), "count": SymExprAttr(count)}
        self.init_inferred([input, condition], properties)

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        type, condition = operand_types
        require_rank(condition, 1, "condition")
        if condition.element_type != i1:
            raise VerifyException(f"condition has element type {condition.element_type}, expected i1")
        axis, shape = get_int(properties, "axis", 0), shape_exprs(type)
        require_axis(axis, len(shape))
        count = cast(SymExprAttr, properties["count"]).expr
        result = (*shape[:axis], count, *shape[axis + 1 :])
        return [tensor_type(type.element_type, result)]


INDEXING_OPS: tuple[type[GraphOp], ...] = (
    GatherOp, GatherElementsOp, GatherNdOp, ScatterElementsOp, ScatterNdOp, CumsumOp, TopKOp, NonZeroOp,
    CompressOp,
)  # fmt: skip
