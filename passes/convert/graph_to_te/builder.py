"""How lowerings write ``te.compute`` ops: a function from index expressions to an element.

    def body(e, i, k):
        return e.read(a, [i[0], k[0]]) * e.read(b, [k[0], i[1]])
    te.compute("matmul", type, body, reduce=[depth], combine="sum")

Inside a body, indices are symbolic expressions over placeholders (``i$0`` spatial, ``r$0`` reduction, ``v$0``
data-dependent); reading turns them into operands and an index map, simplified with the ranges of the indices.
Tensors that are read become inputs of the compute on first use, so a lowering never lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IndexType, LocationAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....core.attributes import ExprListAttr, IndexMapAttr, layout_of, shape_exprs, tensor_type
from ....core.symbolic import ExprLike, SymExpr, as_expr, sym
from ....dialects.te.ops import ComputeOp, IndexOp, ReadOp, YieldOp
from ..index_scope import IndexScope
from .elements import Elem, ElementCode

Exprs = tuple[SymExpr, ...]
Body = Callable[..., Any]
_LETTERS = "abcdefgh"


class ComputeBody(ElementCode):
    """The body under construction, handed to the lowering's body function."""

    def __init__(self, extents: Exprs, reduce: Exprs) -> None:
        super().__init__(Block(arg_types=[IndexType()] * (len(extents) + len(reduce))))
        self.inputs: list[SSAValue] = []
        self.spatial: Exprs = tuple(sym(f"i${n}") for n in range(len(extents)))
        self.reduce: Exprs = tuple(sym(f"r${n}") for n in range(len(reduce)))
        self.scope = IndexScope()
        for symbol, extent, argument in zip(
            (*self.spatial, *self.reduce), (*extents, *reduce), self.block.args
        ):
            self.scope.bind_index(symbol.name, argument, extent)
            argument.name_hint = symbol.name.replace("$", "")

    def read(self, tensor: SSAValue, indices: Sequence[ExprLike], default: Elem | None = None) -> Elem:
        """The element at ``indices``; outside of the tensor ``default``, where given and needed."""
        type_ = tensor.type
        assert isinstance(type_, TensorType)
        exprs = [self.scope.simplified(e) for e in indices]
        if default is not None and not self.scope.guards(exprs, shape_exprs(type_)):
            default = None
        args, map_ = self.scope.operands(exprs)
        stored = None if default is None else self.to_storage(default)
        read = ReadOp(self._input(tensor), args, map_, stored)
        self.block.add_op(read)
        return self.from_storage(read.result, type_.element_type)

    def index(self, expr: ExprLike) -> Elem:
        """The value of an index expression, of type ``index``."""
        args, map_ = self.scope.operands([self.scope.simplified(expr)])
        if map_.is_identity:
            return Elem(self, args[0], IndexType())
        return self.emit(IndexOp(args, map_))

    def data_index(self, value: Elem, extent: SymExpr) -> SymExpr:
        """An element, known to be inside ``extent``, as an index expression."""
        index = self.cast(value, IndexType()) if not isinstance(value.type, IndexType) else value
        return self.scope.add_index("v", index.value, extent)

    def simplified(self, expr: ExprLike) -> SymExpr:
        """``expr``, with divisions and extrema decided where the ranges of the indices allow."""
        return self.scope.simplified(expr)

    def _input(self, tensor: SSAValue) -> SSAValue:
        for position, known in enumerate(self.inputs):
            if known is tensor:
                return self.block.args[position]
        self.inputs.append(tensor)
        argument = self.block.insert_arg(tensor.type, len(self.inputs) - 1)
        argument.name_hint = _LETTERS[len(self.inputs) - 1] if len(self.inputs) <= len(_LETTERS) else None
        return argument


class TeBuilder:
    """Inserts the computes of one lowering before the op that is lowered."""

    def __init__(self, op: Operation) -> None:
        self._point = InsertPoint.before(op)
        self.location: LocationAttr = op.location

    def type(
        self, element: Attribute, shape: Sequence[ExprLike], like: SSAValue | Attribute | None = None
    ) -> TensorType[Attribute]:
        """A tensor type; ``like`` hands its layout on, where the blocks still divide the shape."""
        layout = None
        if like is not None:
            layout = layout_of(like.type if isinstance(like, SSAValue) else like)
        if layout is not None and not _layout_fits(layout, tuple(map(as_expr, shape))):
            layout = None
        return tensor_type(element, shape, layout)

    def compute(
        self,
        name: str,
        result_type: Attribute,
        body: Body,
        reduce: Sequence[ExprLike] = (),
        combine: str | None = None,
    ) -> SSAValue:
        """One result: ``body(e, i)`` or, with reduction dimensions, ``body(e, i, r)`` gives the element."""
        (result,) = self.compute_many(name, [result_type], body, reduce, combine)
        return result

    def compute_many(
        self,
        name: str,
        result_types: Sequence[Attribute],
        body: Body,
        reduce: Sequence[ExprLike] = (),
        combine: str | None = None,
    ) -> tuple[SSAValue, ...]:
        """Several results over one index space; ``body`` gives one element for each (or one element)."""
        extents, depths = shape_exprs(result_types[0]), tuple(map(as_expr, reduce))
        e = ComputeBody(extents, depths)
        found = body(e, e.spatial, e.reduce) if combine is not None else body(e, e.spatial)
        elements = [found] if isinstance(found, Elem) else list(found)
        values = [e.to_storage(x) for x in elements]
        e.block.add_op(YieldOp(values, () if combine is None else (combine,)))
        op = ComputeOp(
            e.inputs, result_types, ExprListAttr(extents), ExprListAttr(depths), Region(e.block), name
        )
        for inner in (op, *e.block.ops):
            inner.location = self.location
        Rewriter.insert_op(op, self._point)
        return tuple(op.results_)


def _layout_fits(layout: IndexMapAttr, shape: Exprs) -> bool:
    """Whether the layout takes indices of this rank without padding lanes."""
    if layout.num_inputs != len(shape):
        return False
    size, physical = as_expr(1), as_expr(1)
    for extent in shape:
        size = size * extent
    for extent in layout.image_shape(shape):
        physical = physical * extent
    return size == physical
