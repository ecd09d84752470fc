"""Elementwise ops of one operand. Ops of several operands with broadcasting are in ``broadcasting.py``.

All take ``x: tensor<S x T>`` and give ``tensor<S x T>`` (``cast``, ``is_nan`` change the element type). Functions that
have a plain decomposition (leaky relu, softplus, hard swish, ...) are not ops: importers write them out, fusion
joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import layout_of, shape_exprs, tensor_type
from .base import FusionKind, GraphOp, Properties, Tensor, require_float, require_integer


class UnaryOp(GraphOp):
    """Base: one operand, the result has the operand's type."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.ELEMENTWISE
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue) -> None:
        self.init_inferred([input])

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        """Refuse element types that the op has no meaning for."""

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        cls.check_element(operand_types[0])
        return [operand_types[0]]


class FloatUnaryOp(UnaryOp):
    """Base: a function of real numbers, defined for float element types only."""

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        require_float(type)


class NumericUnaryOp(UnaryOp):
    """Base: defined for float and integer element types, not for i1."""

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        if not isinstance(type.element_type, AnyFloat | IntegerType) or type.element_type == i1:
            raise VerifyException(f"element type is {type.element_type}, expected a number")


@irdl_op_definition
class NegOp(NumericUnaryOp):
    """``-x``: ``graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Neg."""

    name = "graph.neg"


@irdl_op_definition
class AbsOp(NumericUnaryOp):
    """``|x|``: ``graph.abs %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Abs."""

    name = "graph.abs"


@irdl_op_definition
class SignOp(NumericUnaryOp):
    """-1, 0 or 1: ``graph.sign %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Sign."""

    name = "graph.sign"


@irdl_op_definition
class ReluOp(NumericUnaryOp):
    """``max(x, 0)``: ``graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Relu."""

    name = "graph.relu"


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """``e ** x``: ``graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Exp."""

    name = "graph.exp"


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """Natural logarithm: ``graph.log %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Log."""

    name = "graph.log"


@irdl_op_definition
class Log1pOp(FloatUnaryOp):
    """``log(1 + x)`` without loss near 0: ``graph.log1p %x : (tensor<4xf32>) -> tensor<4xf32>``."""

    name = "graph.log1p"


@irdl_op_definition
class Expm1Op(FloatUnaryOp):
    """``e ** x - 1`` without loss near 0: ``graph.expm1 %x : (tensor<4xf32>) -> tensor<4xf32>``."""

    name = "graph.expm1"


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """Square root: ``graph.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Sqrt."""

    name = "graph.sqrt"


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """``1 / sqrt(x)``: ``graph.rsqrt %x : (tensor<4xf32>) -> tensor<4xf32>``."""

    name = "graph.rsqrt"


@irdl_op_definition
class SinOp(FloatUnaryOp):
    """``graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Sin."""

    name = "graph.sin"


@irdl_op_definition
class CosOp(FloatUnaryOp):
    """``graph.cos %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Cos."""

    name = "graph.cos"


@irdl_op_definition
class TanOp(FloatUnaryOp):
    """``graph.tan %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Tan."""

    name = "graph.tan"


@irdl_op_definition
class AsinOp(FloatUnaryOp):
    """``graph.asin %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Asin."""

    name = "graph.asin"


@irdl_op_definition
class AcosOp(FloatUnaryOp):
    """``graph.acos %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Acos."""

    name = "graph.acos"


@irdl_op_definition
class AtanOp(FloatUnaryOp):
    """``graph.atan %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Atan."""

    name = "graph.atan"


@irdl_op_definition
class SinhOp(FloatUnaryOp):
    """``graph.sinh %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Sinh."""

    name = "graph.sinh"


@irdl_op_definition
class CoshOp(FloatUnaryOp):
    """``graph.cosh %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Cosh."""

    name = "graph.cosh"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """``graph.tanh %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Tanh."""

    name = "graph.tanh"


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """Gauss error function: ``graph.erf %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Erf."""

    name = "graph.erf"


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """``1 / (1 + e ** -x)``: ``graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Sigmoid."""

    name = "graph.sigmoid"


@irdl_op_definition
class CeilOp(FloatUnaryOp):
    """Next integer up: ``graph.ceil %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Ceil."""

    name = "graph.ceil"


@irdl_op_definition
class FloorOp(FloatUnaryOp):
    """Next integer down: ``graph.floor %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Floor."""

    name = "graph.floor"


@irdl_op_definition
class RoundOp(FloatUnaryOp):
    """Nearest integer, halves to even: ``graph.round %x : (tensor<4xf32>) -> tensor<4xf32>``. ONNX Round."""

    name = "graph.round"


@irdl_op_definition
class NotOp(UnaryOp):
    """Complement of the bits, the logical not of i1: ``graph.not %x : (tensor<4xi1>) -> tensor<4xi1>``.

    ONNX Not, BitwiseNot. Rejects float element types.
    """

    name = "graph.not"

    @classmethod
    def check_element(cls, type: Tensor) -> None:
        require_integer(type)


@irdl_op_definition
class IsNanOp(UnaryOp):
    """Whether elements are NaN: ``graph.is_nan %x : (tensor<4xf32>) -> tensor<4xi1>``. ONNX IsNaN."""

    name = "graph.is_nan"

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        require_float(type)
        return [tensor_type(i1, shape_exprs(type), layout_of(type))]


@irdl_op_definition
class CastOp(UnaryOp):
    """Converts elements to the type ``to``: ``graph.cast %x {to = i32} : (tensor<4xf32>) -> tensor<4xi32>``.

    Float to integer truncates towards zero, numbers to i1 compare with 0, integer narrowing keeps the low bits
    (NumPy's ``astype``). Casts of values out of range of the integer type are undefined. ONNX Cast.
    """

    name = "graph.cast"
    to = prop_def()

    def __init__(self, input: SSAValue, to: Attribute) -> None:
        self.init_inferred([input], {"to": to})

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (type,) = operand_types
        to = properties["to"]
        if not isinstance(to, AnyFloat | IntegerType):
            raise VerifyException(f"cannot cast to {to}, expected a number type")
        return [tensor_type(to, shape_exprs(type), layout_of(type))]


UNARY_OPS: tuple[type[GraphOp], ...] = (
    NegOp, AbsOp, SignOp, ReluOp, ExpOp, LogOp, Log1pOp, Expm1Op, SqrtOp, RsqrtOp, SinOp, CosOp, TanOp, AsinOp,
    AcosOp, AtanOp, SinhOp, CoshOp, TanhOp, ErfOp, SigmoidOp, CeilOp, FloorOp, RoundOp, NotOp, IsNanOp, CastOp,
)  # fmt: skip
