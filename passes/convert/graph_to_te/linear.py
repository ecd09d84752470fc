"""Matrix products: ``c[b..., i, j] = sum over k of a[b..., i, k] * b[b..., k, j]``, batch dimensions broadcast."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation, SSAValue

from ....core.attributes import shape_exprs
from ....core.symbolic import SymExpr
from ....dialects.graph.linear import MatmulOp
from .builder import ComputeBody, TeBuilder
from .elements import Elem, accumulator_type
from .reduce import cast_result

Exprs = tuple[SymExpr, ...]


def lower_matmul(op: Operation, te: TeBuilder) -> SSAValue:
    matmul = cast(MatmulOp, op)
    a, b, result_type = matmul.lhs, matmul.rhs, op.results[0].type
    element = accumulator_type(result_type.element_type)  # type: ignore[attr-defined]

    def body(e: ComputeBody, i: Exprs, r: Exprs) -> Elem:
        x = e.read(a, (*_batch(a, i), i[-2], r[0]))
        y = e.read(b, (*_batch(b, i), r[0], i[-1]))
        return e.cast(x, element) * e.cast(y, element)

    depth = shape_exprs(a.type)[-1]
    total_type = te.type(element, shape_exprs(result_type), result_type)
    return cast_result(te, te.compute("matmul", total_type, body, [depth], "sum"), result_type)


def _batch(tensor: SSAValue, i: Exprs) -> list[SymExpr | int]:
    """The operand's batch index: the result's, aligned at the last one, 0 where the operand has size 1."""
    shape = shape_exprs(tensor.type)[:-2]
    aligned = i[:-2][len(i) - 2 - len(shape) :]
    return [0 if extent == 1 else index for extent, index in zip(shape, aligned)]
