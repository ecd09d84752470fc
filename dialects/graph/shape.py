"""Ops that move elements without computing: reshape, transpose, slices, concatenation, padding, broadcasting,
generators.

Squeeze and expand are reshapes, split is slices, tile is reshape and broadcast; importers write them so.
Data-dependent moves (gather, scatter, sort) are in ``indexing.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import ExprListAttr, shape_exprs, tensor_type
from ...core.symbolic import ExprLike, SymExpr
from .base import (
    INTS,
    FusionKind,
    GraphOp,
    Properties,
    Tensor,
    broadcast_shapes,
    exprs,
    get_exprs,
    get_int,
    get_ints,
    ints,
    product,
    require_axis,
    require_rank,
    require_same_element,
)


@irdl_op_definition
class ReshapeOp(GraphOp):
    """The same elements in row-major order under another shape: ``tensor<S x T>`` to ``tensor<shape x T>``.

    Rejects constant element counts that differ; where symbolic counts cannot be proved equal, they are checked at
    run time. ONNX Reshape, Flatten, Squeeze, Unsqueeze.

    ``graph.reshape %x {shape = #tw.exprs<[n, 4]>} : (tensor<?x2x2xf32, #tw.enc<dims = [n]>>)
    -> tensor<?x4xf32, #tw.enc<dims = [n]>>``
    """

    name = "graph.reshape"
    input = operand_def(TensorType)
    shape = prop_def(ExprListAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.VIEW
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, shape: Sequence[ExprLike]) -> None:
        self.init_inferred([input], {"shape": exprs(shape)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        shape = get_exprs(properties, "shape")
        before, after = product(shape_exprs(type)), product(shape)
        if before.is_const() and after.is_const() and before != after:
            raise VerifyException(f"element counts differ: {before} and {after}")
        return [tensor_type(type.element_type, shape)]


@irdl_op_definition
class TransposeOp(GraphOp):
    """Permutes dimensions: result dimension i is operand dimension ``permutation[i]``. ONNX Transpose.

    ``graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>``
    """

    name = "graph.transpose"
    input = operand_def(TensorType)
    permutation = prop_def(INTS)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, permutation: Sequence[int]) -> None:
        self.init_inferred([input], {"permutation": ints(permutation)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        permutation = get_ints(properties, "permutation")
        if sorted(permutation) != list(range(type.get_num_dims())):
            raise VerifyException(f"{list(permutation)} is no permutation of {type.get_num_dims()} dimensions")
        shape = shape_exprs(type)
        return [tensor_type(type.element_type, [shape[i] for i in permutation])]


@irdl_op_definition
class BroadcastToOp(GraphOp):
    """Broadcasts as NumPy does to exactly ``shape``, aligned at the last dimension. ONNX Expand.

    ``graph.broadcast_to %x {shape = #tw.exprs<[2, 3]>} : (tensor<3xf32>) -> tensor<2x3xf32>``
    """

    name = "graph.broadcast_to"
    input = operand_def(TensorType)
    shape = prop_def(ExprListAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.BROADCAST
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, shape: Sequence[ExprLike]) -> None:
        self.init_inferred([input], {"shape": exprs(shape)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        shape = get_exprs(properties, "shape")
        if broadcast_shapes([shape_exprs(type), shape]) != shape:
            raise VerifyException(f"{type} does not broadcast to [{', '.join(map(str, shape))}]")
        return [tensor_type(type.element_type, shape)]


@irdl_op_definition
class ConcatOp(GraphOp):
    """Joins one or more tensors along ``axis``; all other dimensions are equal. ONNX Concat.

    ``graph.concat %x, %y {axis = 0 : i64} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>``
    """

    name = "graph.concat"
    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$inputs attr-dict `:` functional-type(operands, results)"

    def __init__(self, inputs: Sequence[SSAValue], axis: int) -> None:
        self.init_inferred([inputs], {"axis": IntegerAttr(axis, i64)})

    @property
    def axis_value(self) -> int:
        return int(self.axis.value.data)

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        if not operand_types:
            raise VerifyException("needs at least one operand")
        element = require_same_element(operand_types)
        rank, axis = operand_types[0].get_num_dims(), get_int(properties, "axis", 0)
        require_axis(axis, rank)
        shapes = [shape_exprs(t) for t in operand_types]
        for type, shape in zip(operand_types[1:], shapes[1:]):
            require_rank(type, rank, "operand")
            for i, (a, b) in enumerate(zip(shapes[0], shape)):
                if i != axis and a != b:
                    raise VerifyException(f"operands differ in dimension {i}: {a} and {b}")
        joined = sum((s[axis] for s in shapes[1:]), start=shapes[0][axis])
        return [tensor_type(element, (*shapes[0][:axis], joined, *shapes[0][axis + 1 :]))]


@irdl_op_definition
class SliceOp(GraphOp):
    """A strided part: ``result[i...] = input[starts + i * steps ...]``, with the result shape ``sizes``.

    ``starts`` and ``sizes`` are expressions, ``steps`` non-zero integers (negative: backwards), one per dimension.
    Rejects constant bounds outside of the operand. ONNX Slice, Split.

    ``graph.slice %x {starts = #tw.exprs<[1, 0]>, sizes = #tw.exprs<[1, 3]>, steps = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<1x3xf32>``
    """

    name = "graph.slice"
    input = operand_def(TensorType)
    starts = prop_def(ExprListAttr)
    sizes = prop_def(ExprListAttr)
    steps = prop_def(INTS)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(
        self, input: SSAValue, starts: Sequence[ExprLike], sizes: Sequence[ExprLike], steps: Sequence[int]
    ) -> None:
        self.init_inferred([input], {"starts": exprs(starts), "sizes": exprs(sizes), "steps": ints(steps)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        shape, rank = shape_exprs(type), type.get_num_dims()
        starts, sizes = get_exprs(properties, "starts"), get_exprs(properties, "sizes")
        steps = get_ints(properties, "steps")
        if not len(starts) == len(sizes) == len(steps) == rank:
            raise VerifyException(f"starts, sizes and steps need one entry for each of {rank} dimensions")
        for i, (dim, start, size, step) in enumerate(zip(shape, starts, sizes, steps)):
            if step == 0:
                raise VerifyException(f"the step of dimension {i} is 0")
            _check_inside(i, dim, start, size, step)
        return [tensor_type(type.element_type, sizes)]


def _check_inside(index: int, dim: SymExpr, start: SymExpr, size: SymExpr, step: int) -> None:
    if size.is_const() and size.const_value() <= 0:
        if size.const_value() < 0:
            raise VerifyException(f"the size of dimension {index} is {size}")
        return
    last = start + (size - 1) * step
    for position in (start, last):
        after = dim - 1 - position
        below = position.is_const() and position.const_value() < 0
        if below or (after.is_const() and after.const_value() < 0):
            raise VerifyException(f"dimension {index} is read at {position}, but has size {dim}")


PAD_MODES = ("constant", "reflect", "edge", "wrap")


@irdl_op_definition
class PadOp(GraphOp):
    """Adds ``low`` elements before and ``high`` after each dimension; ``value: tensor<T>`` fills them in constant
    mode.

    Other modes take elements of the operand: ``reflect`` (mirror without the border), ``edge``, ``wrap``. ONNX Pad,
    NumPy ``pad``. Negative amounts are refused (importers slice).

    ``graph.pad %x, %zero {low = array<i64: 0, 1>, high = array<i64: 0, 2>, mode = "constant"}
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x6xf32>``
    """

    name = "graph.pad"
    input = operand_def(TensorType)
    value = operand_def(TensorType)
    low = prop_def(INTS)
    high = prop_def(INTS)
    mode = prop_def(StringAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$input `,` $value attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        input: SSAValue,
        value: SSAValue,
        low: Sequence[int],
        high: Sequence[int],
        mode: str = "constant",
    ) -> None:
        self.init_inferred([input, value], {"low": ints(low), "high": ints(high), "mode": StringAttr(mode)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        type, value = operand_types
        require_rank(value, 0, "value")
        element, rank = require_same_element(operand_types), type.get_num_dims()
        mode = cast(StringAttr, properties["mode"]).data
        if mode not in PAD_MODES:
            raise VerifyException(f"unknown mode '{mode}', expected one of {', '.join(PAD_MODES)}")
        low, high = get_ints(properties, "low"), get_ints(properties, "high")
        if len(low) != rank or len(high) != rank:
            raise VerifyException(f"low and high need one entry for each of {rank} dimensions")
        shape = shape_exprs(type)
        for i, dim in enumerate(shape):
            if low[i] < 0 or high[i] < 0:
                raise VerifyException(f"padding of dimension {i} is negative")
            limit = dim - 1 if mode == "reflect" else dim
            if mode in ("reflect", "wrap") and limit.is_const() and max(low[i], high[i]) > limit.const_value():
                raise VerifyException(f"dimension {i} of size {dim} is too small for mode '{mode}'")
        padded = [dim + (a + b) for dim, a, b in zip(shape, low, high)]
        return [tensor_type(element, padded)]


@irdl_op_definition
class IotaOp(GraphOp):
    """Each element is its index along ``axis``; the result is ``tensor<shape x T>``, T a number type.

    ``graph.iota {shape = #tw.exprs<[n]>, axis = 0 : i64, element = i64} : tensor<?xi64, #tw.enc<dims = [n]>>``

    ONNX Range, EyeLike, Trilu and OneHot are written with it.
    """

    name = "graph.iota"
    shape = prop_def(ExprListAttr)
    axis = prop_def(IntegerAttr)
    element = prop_def()
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, shape: Sequence[ExprLike], axis: int, element: Attribute) -> None:
        self.init_inferred([], {"shape": exprs(shape), "axis": IntegerAttr(axis, i64), "element": element})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        shape, element = get_exprs(properties, "shape"), properties["element"]
        require_axis(get_int(properties, "axis", 0), len(shape))
        if not isinstance(element, AnyFloat | IntegerType):
            raise VerifyException(f"element type is {element}, expected a number")
        return [tensor_type(element, shape)]


@irdl_op_definition
class DimsOp(GraphOp):
    """The values of symbolic expressions as data: ``tensor<K x i64>``, for shapes that a program computes with.

    ``graph.dims {values = #tw.exprs<[n, n * 2]>} : tensor<2xi64>``. ONNX Shape, Size.
    """

    name = "graph.dims"
    values = prop_def(ExprListAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.OPAQUE
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, values: Sequence[ExprLike]) -> None:
        self.init_inferred([], {"values": exprs(values)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        return [tensor_type(i64, [len(get_exprs(properties, "values"))])]


RESIZE_MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@irdl_op_definition
class ResizeOp(GraphOp):
    """Interpolates to ``shape``; ``coordinates`` maps a result index to a position in the operand (ONNX Resize's
    names).

    ``scales`` holds the factor of each dimension when the model gives factors (else empty, and the factor is the
    ratio of sizes); ``rounding`` is for mode ``nearest``, ``cubic_a`` the coefficient of mode ``cubic``; with
    ``exclude_outside`` cubic weights outside of the operand are dropped and the rest renormalised, otherwise the
    border repeats.

    ``graph.resize %x {shape = #tw.exprs<[1, 8, 20, 20]>, mode = "nearest", coordinates = "asymmetric",
    rounding = "floor", scales = array<f64>, cubic_a = -0.75 : f64, exclude_outside = false}
    : (tensor<1x8x10x10xf32>) -> tensor<1x8x20x20xf32>``
    """

    name = "graph.resize"
    input = operand_def(TensorType)
    shape = prop_def(ExprListAttr)
    mode = prop_def(StringAttr)
    coordinates = prop_def(StringAttr)
    rounding = prop_def(StringAttr)
    scales = prop_def()
    cubic_a = prop_def()
    exclude_outside = prop_def()
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.INJECTIVE
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        input: SSAValue,
        shape: Sequence[ExprLike],
        mode: str,
        coordinates: str = "half_pixel",
        rounding: str = "round_prefer_floor",
        scales: Sequence[float] = (),
        cubic_a: float = -0.75,
        exclude_outside: bool = False,
    ) -> None:
        from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, f64

        self.init_inferred(
            [input],
            {
                "shape": exprs(shape),
                "mode": StringAttr(mode),
                "coordinates": StringAttr(coordinates),
                "rounding": StringAttr(rounding),
                "scales": DenseArrayBase.from_list(f64, list(scales)),
                "cubic_a": FloatAttr(cubic_a, f64),
                "exclude_outside": IntegerAttr.from_bool(exclude_outside),
            },
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        shape = get_exprs(properties, "shape")
        require_rank(type, len(shape), "operand")
        for name, known in (
            ("mode", RESIZE_MODES),
            ("coordinates", COORDINATES),
            ("rounding", ROUNDINGS),
        ):
            value = cast(StringAttr, properties[name]).data
            if value not in known:
                raise VerifyException(f"unknown {name} '{value}', expected one of {', '.join(known)}")
        return [tensor_type(type.element_type, shape)]


SHAPE_OPS: tuple[type[GraphOp], ...] = (
    ReshapeOp, TransposeOp, BroadcastToOp, ConcatOp, SliceOp, PadOp, IotaOp, DimsOp, ResizeOp,
)  # fmt: skip
