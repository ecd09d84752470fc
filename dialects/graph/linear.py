"""Matrix products. Transposes are separate ops that fusion folds into the reads; a bias is a separate
``graph.add``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import shape_exprs, tensor_type
from .base import FusionKind, GraphOp, Properties, Tensor, broadcast_shapes, require_same_element


@irdl_op_definition
class MatmulOp(GraphOp):
    """Batched matrix product: ``lhs: tensor<B... x M x K x T>, rhs: tensor<D... x K x N x T>`` give
    ``tensor<broadcast(B, D)... x M x N x T>``.

    Both operands have rank 2 or more; batch dimensions broadcast as in NumPy. Rejects inner dimensions that differ.
    Importers reshape vectors to matrices. ONNX MatMul, Gemm.

    ``graph.matmul %x, %w : (tensor<?x784xf32, #tw.enc<dims = [n]>>, tensor<784x10xf32>)
    -> tensor<?x10xf32, #tw.enc<dims = [n]>>``
    """

    name = "graph.matmul"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    FUSION_KIND: ClassVar[FusionKind] = FusionKind.COMPLEX
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue) -> None:
        self.init_inferred([lhs, rhs])

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        element = require_same_element(operand_types)
        a, b = (shape_exprs(t) for t in operand_types)
        if len(a) < 2 or len(b) < 2:
            raise VerifyException(f"operands have ranks {len(a)} and {len(b)}, expected at least 2")
        if a[-1] != b[-2]:
            raise VerifyException(f"inner dimensions differ: {a[-1]} and {b[-2]}")
        batch = broadcast_shapes([a[:-2], b[:-2]])
        return [tensor_type(element, (*batch, a[-2], b[-1]))]


LINEAR_OPS: tuple[type[GraphOp], ...] = (MatmulOp,)
