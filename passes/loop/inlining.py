"""Copying a block's computation to another place: what inlining and lowering share."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue

from ...core.symbolic import SymExpr
from ...dialects.loop.ops import IndexOp
from .index import INDEX_ATTRS, Exprs, IndexSpace


class Copier:
    """Copies operations with index names replaced by expressions and values by values."""

    def __init__(self, space: IndexSpace, indices: Mapping[SSAValue, SymExpr]) -> None:
        self.space = space
        self.indices = dict(indices)
        self.names = {space.name(v): e for v, e in indices.items()}
        self.values: dict[SSAValue, SSAValue] = {}

    def copy(self, op: Operation, before: Operation) -> Operation:
        """A copy of ``op`` inserted before an op."""
        for operand in op.operands:
            if operand in self.indices and operand not in self.values and type(op) not in INDEX_ATTRS:
                self.values[operand] = self.space.materialize(self.indices[operand], before)
        new = op.clone(self.values)
        block = before.parent
        assert block is not None
        block.insert_op_before(new, before)
        for inner in new.walk():
            self._translate(inner)
        return new

    def _translate(self, op: Operation) -> None:
        props = INDEX_ATTRS.get(type(op))
        if props is None:
            return
        exprs = {p: self._exprs(self.space.read(op, p)) for p in props if p in op.properties}
        self.space.write(op, **exprs)

    def _exprs(self, exprs: Exprs) -> Exprs:
        return tuple(self.space.simplify(e.subs(self.names)) for e in exprs)


def condition(space: IndexSpace, pairs: Exprs, before: Operation) -> SSAValue:
    """An ``i1`` that says whether all pairs (lhs, rhs) hold lhs < rhs."""
    block = before.parent
    assert block is not None
    result: SSAValue | None = None
    for lhs, rhs in zip(pairs[::2], pairs[1::2]):
        values: list[SSAValue] = []
        for expr in (lhs, rhs):
            args, (map_,) = space.pack((expr,))
            index = IndexOp(args, map_, IndexType())
            block.insert_op_before(index, before)
            values.append(index.result)
        holds = arith.CmpiOp(values[0], values[1], "slt")
        block.insert_op_before(holds, before)
        if result is None:
            result = holds.result
        else:
            both = arith.AndIOp(result, holds.result)
            block.insert_op_before(both, before)
            result = both.result
    assert result is not None
    return result
