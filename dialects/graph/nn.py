"""Windowed and normalising ops of neural networks: convolution, pooling, softmax, normalisation.

Tensors are ``N x C x spatial...`` with any number of spatial dimensions; ``strides``, ``dilations`` have one entry per
spatial dimension, ``pads`` has all begins, then all ends (ONNX's order). Biases are separate ``graph.add`` ops, so
that fusion treats them like any other epilogue. Global pooling is a ``graph.reduce_*``; batch normalisation stays
one op until it is folded into a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, TensorType, f64, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import shape_exprs, tensor_type
from ...core.symbolic import SymExpr, as_expr, ceildiv, sym_min
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
    require_equal_dims,
    require_float,
    require_rank,
    require_same_element,
)


def window_extent(size: SymExpr, kernel: SymExpr, stride: int, pads: tuple[int, int], dilation: int) -> SymExpr:
    """Number of window positions that lie completely inside the padded dimension."""
    return (size + sum(pads) - (kernel - 1) * dilation - 1) // stride + 1


def check_window(rank: int, **lists: Sequence[int]) -> None:
    """Lengths of the window properties, and that strides and dilations are positive, pads not negative."""
    for name, values in lists.items():
        expected = 2 * rank if name == "pads" else rank
        if len(values) != expected:
            raise VerifyException(f"{name} has {len(values)} entries, expected {expected}")
        smallest = 0 if name in ("pads", "output_padding") else 1
        if any(v < smallest for v in values):
            raise VerifyException(f"{name} {list(values)} has an entry below {smallest}")


def require_positive_extents(shape: Shape) -> None:
    for dim in shape:
        if dim.is_const() and dim.const_value() <= 0:
            raise VerifyException("the window is larger than the padded input")


class ConvolutionBase(GraphOp):
    """Operands and properties that ``conv`` and ``conv_transpose`` have in common."""

    input = operand_def(TensorType)
    filter = operand_def(TensorType)
    result = result_def(TensorType)
    strides = prop_def(INTS)
    pads = prop_def(INTS)
    dilations = prop_def(INTS)
    groups = prop_def(IntegerAttr)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.COMPLEX
    assembly_format = "$input `,` $filter attr-dict `:` functional-type(operands, results)"

    @property
    def spatial_rank(self) -> int:
        """Number of spatial dimensions."""
        return cast(Tensor, self.input.type).get_num_dims() - 2

    @property
    def group_count(self) -> int:
        return int(self.groups.value.data)


@irdl_op_definition
class ConvOp(ConvolutionBase):
    """Convolution (cross-correlation) without bias.

    ``input: tensor<N x C x S... x T>``, ``filter: tensor<M x C/groups x K... x T>`` give ``tensor<N x M x O...
    x T>`` with ``O = (S + pad_begin + pad_end - (K - 1) * dilation - 1) floordiv stride + 1``. Rejects: ranks or
    channel counts that differ, M not divisible by groups, windows larger than the padded input. ONNX Conv.

    Example::

        %y = graph.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 3, 3, 3, 3>,
               dilations = array<i64: 1, 1>, groups = 1 : i64}
             : (tensor<1x3x224x224xf32>, tensor<64x3x7x7xf32>) -> tensor<1x64x112x112xf32>
    """

    name = "graph.conv"

    def __init__(
        self,
        input: SSAValue,
        filter: SSAValue,
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int],
        groups: int = 1,
    ) -> None:
        self.init_inferred(
            [input, filter],
            {
                "strides": ints(strides),
                "pads": ints(pads),
                "dilations": ints(dilations),
                "groups": IntegerAttr(groups, i64),
            },
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        element, x, w = _convolution_shapes(operand_types)
        rank, groups = len(x) - 2, get_int(properties, "groups", 1)
        strides, pads, dilations = (get_ints(properties, k) for k in ("strides", "pads", "dilations"))
        check_window(rank, strides=strides, pads=pads, dilations=dilations)
        if groups < 1 or (w[0].is_const() and w[0].const_value() % groups):
            raise VerifyException(f"{w[0]} output channels are not divisible into {groups} groups")
        require_equal_dims("input channels and filter channels times groups", x[1], w[1] * groups)
        spatial = tuple(
            window_extent(x[2 + i], w[2 + i], strides[i], (pads[i], pads[rank + i]), dilations[i]) for i in range(rank)
        )
        require_positive_extents(spatial)
        return [tensor_type(element, (x[0], w[0], *spatial))]


@irdl_op_definition
class ConvTransposeOp(ConvolutionBase):
    """The transposed convolution (gradient of ``conv`` with respect to its input), without bias.

    ``input: tensor<N x C x S... x T>``, ``filter: tensor<C x M/groups x K... x T>`` give ``tensor<N x M x O...
    x T>`` with ``O = (S - 1) * stride + (K - 1) * dilation + 1 + output_padding - pad_begin - pad_end``.
    ONNX ConvTranspose.

    Example::

        %y = graph.conv_transpose %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
               dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, groups = 1 : i64}
             : (tensor<1x8x10x10xf32>, tensor<8x4x2x2xf32>) -> tensor<1x4x20x20xf32>
    """

    name = "graph.conv_transpose"
    output_padding = prop_def(INTS)

    def __init__(
        self,
        input: SSAValue,
        filter: SSAValue,
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int],
        output_padding: Sequence[int],
        groups: int = 1,
    ) -> None:
        self.init_inferred(
            [input, filter],
            {
                "strides": ints(strides),
                "pads": ints(pads),
                "dilations": ints(dilations),
                "output_padding": ints(output_padding),
                "groups": IntegerAttr(groups, i64),
            },
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        element, x, w = _convolution_shapes(operand_types)
        rank, groups = len(x) - 2, get_int(properties, "groups", 1)
        strides, pads, dilations, extra = (
            get_ints(properties, k) for k in ("strides", "pads", "dilations", "output_padding")
        )
        check_window(rank, strides=strides, pads=pads, dilations=dilations, output_padding=extra)
        require_equal_dims("input channels and filter channels", x[1], w[0])
        if groups < 1 or (x[1].is_const() and x[1].const_value() % groups):
            raise VerifyException(f"{x[1]} input channels are not divisible into {groups} groups")
        spatial = tuple(
            (x[2 + i] - 1) * strides[i] + (w[2 + i] - 1) * dilations[i] + (1 + extra[i] - pads[i] - pads[rank + i])
            for i in range(rank)
        )
        require_positive_extents(spatial)
        return [tensor_type(element, (x[0], w[1] * groups, *spatial))]


def _convolution_shapes(types: Sequence[Tensor]) -> tuple[Attribute, Shape, Shape]:
    element = require_same_element(types)
    if types[0].get_num_dims() < 3:
        raise VerifyException(f"input has rank {types[0].get_num_dims()}, expected at least 3")
    require_rank(types[1], types[0].get_num_dims(), "filter")
    return element, shape_exprs(types[0]), shape_exprs(types[1])


class PoolOp(GraphOp):
    """Base of the pooling ops: ``input: tensor<N x C x S... x T>`` gives ``tensor<N x C x O... x T>``.

    ``O`` as in ``conv``; with ``ceil_mode`` it rounds up, as long as the last window starts inside the input or its
    begin padding.
    """

    input = operand_def(TensorType)
    result = result_def(TensorType)
    kernel = prop_def(INTS)
    strides = prop_def(INTS)
    pads = prop_def(INTS)
    dilations = prop_def(INTS)
    ceil_mode = opt_prop_def(BoolAttr)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.COMPLEX
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        input: SSAValue,
        kernel: Sequence[int],
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int],
        ceil_mode: bool = False,
        **flags: bool,
    ) -> None:
        booleans = {"ceil_mode": ceil_mode, **flags}
        self.init_inferred(
            [input],
            {
                "kernel": ints(kernel),
                "strides": ints(strides),
                "pads": ints(pads),
                "dilations": ints(dilations),
                **{k: IntegerAttr.from_bool(True) for k, v in booleans.items() if v},
            },
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        if type.get_num_dims() < 3:
            raise VerifyException(f"input has rank {type.get_num_dims()}, expected at least 3")
        x, rank = shape_exprs(type), type.get_num_dims() - 2
        kernel, strides, pads, dilations = (get_ints(properties, k) for k in ("kernel", "strides", "pads", "dilations"))
        check_window(rank, kernel=kernel, strides=strides, pads=pads, dilations=dilations)
        ceil = bool(get_int(properties, "ceil_mode", 0))
        spatial = tuple(
            _pool_extent(x[2 + i], kernel[i], strides[i], (pads[i], pads[rank + i]), dilations[i], ceil)
            for i in range(rank)
        )
        require_positive_extents(spatial)
        return [tensor_type(type.element_type, (*x[:2], *spatial))]


def _pool_extent(size: SymExpr, kernel: int, stride: int, pads: tuple[int, int], dilation: int, ceil: bool) -> SymExpr:
    if not ceil:
        return window_extent(size, as_expr(kernel), stride, pads, dilation)
    rounded_up = ceildiv(size + sum(pads) - (kernel - 1) * dilation - 1, stride) + 1
    return sym_min(rounded_up, (size + pads[0] - 1) // stride + 1)


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """Maximum of each window; padding counts as the smallest value. ONNX MaxPool (without indices).

    Example::

        %y = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
               dilations = array<i64: 1, 1>} : (tensor<1x8x28x28xf32>) -> tensor<1x8x14x14xf32>
    """

    name = "graph.max_pool"


@irdl_op_definition
class AvgPoolOp(PoolOp):
    """Mean of each window; the count has only input elements, with ``count_include_pad`` the padding too.

    What ``ceil_mode`` adds beyond the end padding never counts. Float elements only. ONNX AveragePool.

    Example::

        %y = graph.avg_pool %x {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>,
               dilations = array<i64: 1>, count_include_pad = true} : (tensor<1x8x28xf32>) -> tensor<1x8x28xf32>
    """

    name = "graph.avg_pool"
    count_include_pad = opt_prop_def(BoolAttr)

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        require_float(operand_types[0])
        return super().infer_types(operand_types, properties)


class AxisOp(GraphOp):
    """Base: normalises along one dimension, the result has the operand's type."""

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.OPAQUE
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, axis: int) -> None:
        self.init_inferred([input], {"axis": IntegerAttr(axis, i64)})

    @property
    def axis_value(self) -> int:
        return int(self.axis.value.data)

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        require_float(type)
        require_axis(get_int(properties, "axis", 0), type.get_num_dims())
        return [type]


@irdl_op_definition
class SoftmaxOp(AxisOp):
    """``e ** (x - max) / sum(e ** (x - max))`` along ``axis``. ONNX Softmax (opset 13).

    ``graph.softmax %x {axis = 1 : i64} : (tensor<1x1000xf32>) -> tensor<1x1000xf32>``
    """

    name = "graph.softmax"


@irdl_op_definition
class LogSoftmaxOp(AxisOp):
    """``(x - max) - log(sum(e ** (x - max)))`` along ``axis``. ONNX LogSoftmax (opset 13).

    ``graph.log_softmax %x {axis = 1 : i64} : (tensor<1x1000xf32>) -> tensor<1x1000xf32>``
    """

    name = "graph.log_softmax"


@irdl_op_definition
class LrnOp(GraphOp):
    """Local response normalisation over channels: ``x / (bias + alpha / size * sum of x^2 over the window) ** beta``.

    ``input: tensor<N x C x S... x T>``, result alike. The window of channel c is ``[c - (size - 1) floordiv 2,
    c + size floordiv 2]``, cut off at the borders. ONNX LRN (Krizhevsky et al. 2012).

    ``graph.lrn %x {size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64}
    : (tensor<1x96x54x54xf32>) -> tensor<1x96x54x54xf32>``
    """

    name = "graph.lrn"
    input = operand_def(TensorType)
    size = prop_def(IntegerAttr)
    alpha = prop_def(FloatAttr)
    beta = prop_def(FloatAttr)
    bias = prop_def(FloatAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.COMPLEX
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, size: int, alpha: float, beta: float, bias: float) -> None:
        numbers = {"alpha": alpha, "beta": beta, "bias": bias}
        self.init_inferred(
            [input], {"size": IntegerAttr(size, i64), **{k: FloatAttr(v, f64) for k, v in numbers.items()}}
        )

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        require_float(type)
        if type.get_num_dims() < 2:
            raise VerifyException(f"input has rank {type.get_num_dims()}, expected at least 2")
        if get_int(properties, "size", 1) < 1:
            raise VerifyException("size is below 1")
        return [type]


@irdl_op_definition
class BatchNormOp(GraphOp):
    """Inference-time batch normalisation ``(x - mean) / sqrt(variance + epsilon) * scale + bias`` per channel.

    ``input: tensor<N x C x S... x T>``, the other four ``tensor<C x T>``, result like input. ONNX BatchNormalization.

    ``graph.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 1.0e-5 : f64}
    : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>``
    """

    name = "graph.batch_norm"
    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    epsilon = prop_def(FloatAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.BROADCAST
    assembly_format = (
        "$input `,` $scale `,` $bias `,` $mean `,` $variance attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        input: SSAValue,
        scale: SSAValue,
        bias: SSAValue,
        mean: SSAValue,
        variance: SSAValue,
        epsilon: float,
    ) -> None:
        self.init_inferred([input, scale, bias, mean, variance], {"epsilon": FloatAttr(epsilon, f64)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        type = operand_types[0]
        require_float(type)
        require_same_element(operand_types)
        if type.get_num_dims() < 2:
            raise VerifyException(f"input has rank {type.get_num_dims()}, expected at least 2")
        for name, parameter in zip(("scale", "bias", "mean", "variance"), operand_types[1:]):
            require_rank(parameter, 1, name)
            require_equal_dims(f"channels of input and {name}", shape_exprs(type)[1], shape_exprs(parameter)[0])
        return [type]


@irdl_op_definition
class NormalizeOp(GraphOp):
    """``(x - mean(x)) / sqrt(variance(x) + epsilon)`` with mean and variance over ``axes``; result like the operand.

    Layer, instance and group normalisation are this op on the right axes (after a reshape), then ``mul`` and ``add``.
    ONNX LayerNormalization, InstanceNormalization, GroupNormalization, MeanVarianceNormalization.

    ``graph.normalize %x {axes = array<i64: 2>, epsilon = 1.0e-5 : f64}
    : (tensor<1x16x384xf32>) -> tensor<1x16x384xf32>``
    """

    name = "graph.normalize"
    input = operand_def(TensorType)
    axes = prop_def(INTS)
    epsilon = prop_def(FloatAttr)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.OPAQUE
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, axes: Sequence[int], epsilon: float) -> None:
        self.init_inferred([input], {"axes": ints(axes), "epsilon": FloatAttr(epsilon, f64)})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        require_float(type)
        require_axes(get_ints(properties, "axes"), type.get_num_dims())
        return [type]


NN_OPS: tuple[type[GraphOp], ...] = (
    ConvOp, ConvTransposeOp, MaxPoolOp, AvgPoolOp, SoftmaxOp, LogSoftmaxOp, LrnOp, BatchNormOp, NormalizeOp,
)  # fmt: skip
