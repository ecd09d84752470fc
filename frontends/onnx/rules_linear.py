"""ONNX matrix products: MatMul, Gemm, Einsum, and the integer ones."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import SSAValue

from ...core.symbolic import SymExpr
from ...dialects.graph import broadcasting as b
from ...dialects.graph.base import product
from ...dialects.graph.linear import MatmulOp
from ...dialects.graph.reduce import ReduceSumOp
from ...dialects.graph.shape import TransposeOp
from .errors import ModelError, UnsupportedError
from .node import Node, Rule, shape_of, type_of


def matmul(node: Node, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """NumPy's matmul: a vector is a row on the left, a column on the right, and leaves no dimension behind."""
    left, right = shape_of(lhs), shape_of(rhs)
    if not left or not right:
        raise ModelError("an operand of matmul is a scalar")
    a = node.reshape(lhs, (1, *left)) if len(left) == 1 else lhs
    c = node.reshape(rhs, (*right, 1)) if len(right) == 1 else rhs
    if shape_of(a)[-1] != shape_of(c)[-2] and not (shape_of(a)[-1].is_const() and shape_of(c)[-2].is_const()):
        a = node.claim(a, (*shape_of(a)[:-1], shape_of(c)[-2]))
    result = node.emit(MatmulOp(a, c))
    shape = list(shape_of(result))
    if len(right) == 1:
        del shape[-1]
    if len(left) == 1:
        del shape[-1 if len(right) == 1 else -2]
    return node.reshape(result, shape)


def _gemm(node: Node) -> SSAValue:
    """alpha * op(A) @ op(B) + beta * C"""
    lhs, rhs = node[0], node[1]
    if node.attr("transA", 0):
        lhs = node.emit(TransposeOp(lhs, [1, 0]))
    if node.attr("transB", 0):
        rhs = node.emit(TransposeOp(rhs, [1, 0]))
    result = node.emit(MatmulOp(lhs, rhs))
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    if alpha != 1:
        result = node.emit(b.MulOp(result, node.constant(alpha, result)))
    bias = node.optional(2)
    if bias is None or beta == 0:
        return result
    if beta != 1:
        bias = node.emit(b.MulOp(bias, node.constant(beta, bias)))
    return node.emit(b.AddOp(result, bias))


def _parse_equation(node: Node) -> tuple[list[str], str]:
    """The subscripts of the operands and of the result; ``...`` becomes capital letters that no subscript uses."""
    equation = node.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(node.proto.input):
        raise ModelError(f"equation '{equation}' has {len(terms)} terms for {len(node.proto.input)} inputs")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    longest = max(node.entry(i).rank - len(t.replace("...", "")) for i, t in enumerate(terms))
    dots = "".join(spare[: max(longest, 0)])
    for i, term in enumerate(terms):
        if "..." in term:
            count = node.entry(i).rank - len(term) + 3
            terms[i] = term.replace("...", dots[len(dots) - count :])
        if len(terms[i]) != node.entry(i).rank:
            raise ModelError(f"equation '{equation}' does not fit operand {i} of rank {node.entry(i).rank}")
    if arrow:
        return terms, right.replace("...", dots)
    letters = "".join(terms)
    single = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
    return terms, dots * ("..." in left) + "".join(single)


def _einsum(node: Node) -> SSAValue:
    """Operands are combined one after the other: each pair as one batched matrix product."""
    terms, result = _parse_equation(node)
    for term in terms:
        if len(set(term)) != len(term):
            raise UnsupportedError(f"a repeated index in '{term}'")
    value, term = node[0], terms[0]
    for i in range(1, len(terms)):
        later = set(result).union(*terms[i + 1 :])
        value, term = _contract(node, value, term, node[i], terms[i], later)
    summed = [i for i, c in enumerate(term) if c not in result]
    if summed:
        value = node.emit(ReduceSumOp(value, summed))
        term = "".join(c for c in term if c in result)
    return _permute(node, value, term, result)


def _contract(node: Node, lhs: SSAValue, left: str, rhs: SSAValue, right: str, later: set[str]) -> tuple[SSAValue, str]:
    batch = [c for c in left if c in right and c in later]
    inner = [c for c in left if c in right and c not in later]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    sizes: dict[str, SymExpr] = {}
    for term, value in ((left, lhs), (right, rhs)):
        for letter, size in zip(term, shape_of(value)):
            if sizes.get(letter, 1) == 1:
                sizes[letter] = size
            elif size not in (1, sizes[letter]):
                raise ModelError(f"dimension '{letter}' is {sizes[letter]} and {size}")
    a = _matrix(node, lhs, left, batch, rows, inner, sizes)
    c = _matrix(node, rhs, right, batch, inner, columns, sizes)
    product_value = node.emit(MatmulOp(a, c))
    shape = [sizes[x] for x in (*batch, *rows, *columns)]
    return node.reshape(product_value, shape), "".join((*batch, *rows, *columns))


def _matrix(
    node: Node,
    value: SSAValue,
    term: str,
    batch: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
    sizes: dict[str, SymExpr],
) -> SSAValue:
    order = "".join((*batch, *rows, *columns))
    moved = _permute(node, value, term, order)
    moved = node.broadcast(moved, [sizes[c] for c in order])
    shape = [*(sizes[c] for c in batch), product([sizes[c] for c in rows]), product([sizes[c] for c in columns])]
    return node.reshape(moved, shape)


def _permute(node: Node, value: SSAValue, term: str, wanted: str) -> SSAValue:
    if sorted(term) != sorted(wanted):
        raise ModelError(f"result '{wanted}' does not follow from '{term}'")
    permutation = [term.index(c) for c in wanted]
    return value if permutation == sorted(permutation) else node.emit(TransposeOp(value, permutation))


def centred(node: Node, value: SSAValue, zero_point: SSAValue | None, axis: int) -> SSAValue:
    """An integer tensor minus its zero point, in i32."""
    wide = node.cast(value, i32)
    if zero_point is None:
        return wide
    zero = node.cast(zero_point, i32)
    if len(shape_of(zero)) == 1 and axis >= 0:
        zero = node.reshape(zero, (shape_of(zero)[0], *[1] * (len(shape_of(value)) - axis - 1)))
    return node.emit(b.SubOp(wide, zero))


def _matmul_integer(node: Node) -> SSAValue:
    lhs, rhs = node[0], node[1]
    if not isinstance(type_of(lhs).element_type, IntegerType):
        raise ModelError("operands are not integers")
    a = centred(node, lhs, node.optional(2), len(shape_of(lhs)) - 2)
    c = centred(node, rhs, node.optional(3), len(shape_of(rhs)) - 1)
    return matmul(node, a, c)


LINEAR_RULES: dict[str, Rule] = {
    "MatMul": lambda n: matmul(n, n[0], n[1]),
    "Gemm": _gemm,
    "Einsum": _einsum,
    "MatMulInteger": _matmul_integer,
}
"""Operator to rule."""
