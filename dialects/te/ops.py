"""Operations of the ``te`` dialect.

A ``te.compute`` says *what* each element of a tensor is, never in which order elements are computed. It is
isolated: everything it reads is an operand, so two equal computes are equal text. Orders, placements, vectors and
threads belong to the ``loop`` and ``schedule`` dialects.

Index expressions are quasi-affine: an :class:`~tilewright.core.attributes.IndexMapAttr` over the op's ``args`` (its
inputs ``d0, d1, ...``), whose expressions may also name symbolic dimensions of the function (``n``).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IndexType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import ExprListAttr, IndexMapAttr

COMBINERS: dict[str, int] = {
    "sum": 1,
    "prod": 1,
    "max": 1,
    "min": 1,
    "and": 1,
    "or": 1,
    "argmax": 2,
    "argmin": 2,
}
"""Predefined reductions, and how many yielded values (and results) each takes.

``argmax`` and ``argmin`` take (value, index) and keep the smallest index among equal values; NaN is the most extreme.
``max`` and ``min`` hand a NaN on.
"""


@irdl_op_definition
class ComputeOp(IRDLOperation):
    """One tensor expression: ``result[i...] = combine over r... of body(i..., r...)``.

    Operands: ``inputs`` tensors of any shape. Results: tensors whose shape is ``extents`` (every result the same index
    space). The region's arguments are the inputs, then one ``index`` per spatial dimension, then one per reduction
    dimension; it ends in ``te.yield``. Without reduction dimensions the yielded values are the elements.

    Verification rejects: an extent that disagrees with the result's shape, a yield whose types are not the element
    types, a combiner without reduction dimensions or the other way round.

    Example (matrix product)::

        %c = te.compute (%A as %a, %B as %b) [%i, %j] in [128, 64] reduce [%k] in [256] -> tensor<128x64xf32> {
          %x = te.read %a[%i, %k] : f32
          %y = te.read %b[%k, %j] : f32
          %p = arith.mulf %x, %y : f32
          te.yield sum %p : f32
        }
    """

    name = "te.compute"
    inputs = var_operand_def(TensorType)
    results_ = var_result_def(TensorType)
    extents = prop_def(ExprListAttr)
    reduce_extents = prop_def(ExprListAttr)
    block_name = opt_prop_def(StringAttr)
    """Name of the block that the compute becomes in the loop dialect; schedules find it by this name."""
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        extents: ExprListAttr,
        reduce_extents: ExprListAttr,
        body: Region,
        block_name: str | None = None,
    ) -> None:
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={
                "extents": extents,
                "reduce_extents": reduce_extents,
                "block_name": None if block_name is None else StringAttr(block_name),
            },
            regions=[body],
        )

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return len(self.extents.exprs)

    @property
    def input_args(self) -> tuple[SSAValue, ...]:
        """Region arguments that stand for the inputs."""
        return tuple(self.body.block.args[: len(self.inputs)])

    @property
    def spatial_args(self) -> tuple[SSAValue, ...]:
        """Region arguments that are the spatial indices."""
        n = len(self.inputs)
        return tuple(self.body.block.args[n : n + self.rank])

    @property
    def reduce_args(self) -> tuple[SSAValue, ...]:
        """Region arguments that are the reduction indices."""
        return tuple(self.body.block.args[len(self.inputs) + self.rank :])

    @property
    def yield_op(self) -> YieldOp:
        """The terminator."""
        op = self.body.block.last_op
        assert isinstance(op, YieldOp)
        return op

    def verify_(self) -> None:
        block = self.body.block
        expected = len(self.inputs) + self.rank + len(self.reduce_extents.exprs)
        if len(block.args) != expected:
            raise VerifyException(f"region has {len(block.args)} arguments, expected {expected}")
        for value, arg in zip(self.inputs, block.args):
            if value.type != arg.type:
                raise VerifyException(f"region argument has type {arg.type}, expected the input's {value.type}")
        for arg in block.args[len(self.inputs) :]:
            if not isinstance(arg.type, IndexType):
                raise VerifyException(f"index argument has type {arg.type}, expected index")
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("region must end in te.yield")
        self._verify_results(block.last_op)

    def _verify_results(self, terminator: YieldOp) -> None:
        from ...core.attributes import shape_exprs

        if len(terminator.values) != len(self.results_):
            raise VerifyException(
                f"te.yield has {len(terminator.values)} values, expected one for each of {len(self.results_)} results"
            )
        for value, result in zip(terminator.values, self.results_):
            assert isinstance(result.type, TensorType)
            if value.type != result.type.element_type:
                raise VerifyException(
                    f"te.yield value has type {value.type}, expected {result.type.element_type}"
                )
            if shape_exprs(result.type) != self.extents.exprs:
                raise VerifyException(f"result {result.type} does not have the extents {self.extents}")
        combined = sum(COMBINERS[name] for name in terminator.combiner_names)
        if bool(self.reduce_extents.exprs) != bool(combined):
            raise VerifyException("a combiner is needed exactly when there are reduction dimensions")
        if combined not in (0, len(terminator.values)):
            raise VerifyException(f"combiners take {combined} values, found {len(terminator.values)}")


@irdl_op_definition
class ReadOp(IRDLOperation):
    """Reads one element of an input: ``a[map(args)]``; with ``default``, a read outside the tensor gives ``default``.

    Operands: ``tensor`` (a region argument of the enclosing compute), ``args`` (index values: region arguments, or
    data-dependent indices made by ``arith.index_cast``), optional ``default`` of the element type. Result: one element.

    Padding is ``te.read %x[%h * 2 + %r - 1, %w] else %zero : f32``; concatenation chains reads: the first input's read
    has the next input's read as its default.
    """

    name = "te.read"
    tensor = operand_def(TensorType)
    args = var_operand_def(IndexType)
    default = opt_operand_def()
    map = prop_def(IndexMapAttr)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(
        self, tensor: SSAValue, args: Sequence[SSAValue], map: IndexMapAttr, default: SSAValue | None = None
    ) -> None:
        assert isinstance(tensor.type, TensorType)
        super().__init__(
            operands=[tensor, args, [] if default is None else [default]],
            properties={"map": map},
            result_types=[tensor.type.element_type],
        )

    def verify_(self) -> None:
        assert isinstance(self.tensor.type, TensorType)
        if self.map.num_inputs != len(self.args):
            raise VerifyException(f"map takes {self.map.num_inputs} indices, found {len(self.args)}")
        rank = len(self.tensor.type.get_shape())
        if len(self.map.results) != rank:
            raise VerifyException(f"{len(self.map.results)} index expressions for a tensor of rank {rank}")
        if self.result.type != self.tensor.type.element_type:
            raise VerifyException(f"result is {self.result.type}, expected {self.tensor.type.element_type}")
        if self.default is not None and self.default.type != self.result.type:
            raise VerifyException(f"default has type {self.default.type}, expected {self.result.type}")


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The value of an index expression: ``%v = te.index %i * 2 + %j``; result is ``index``."""

    name = "te.index"
    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    def __init__(self, args: Sequence[SSAValue], map: IndexMapAttr) -> None:
        super().__init__(operands=[args], properties={"map": map}, result_types=[IndexType()])

    def verify_(self) -> None:
        if self.map.num_inputs != len(self.args) or len(self.map.results) != 1:
            raise VerifyException("te.index takes one expression over its arguments")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a compute: the elements, and how they combine over the reduction dimensions.

    ``te.yield %v : f32``, ``te.yield sum %v : f32``, ``te.yield argmax %v, %i : f32, i64``.
    """

    name = "te.yield"
    values = var_operand_def()
    combiners = opt_prop_def(ArrayAttr[StringAttr])
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, values: Sequence[SSAValue], combiners: Sequence[str] = ()) -> None:
        super().__init__(
            operands=[values],
            properties={"combiners": ArrayAttr([StringAttr(c) for c in combiners]) if combiners else None},
        )

    @property
    def combiner_names(self) -> tuple[str, ...]:
        """Names of the combiners, empty without reduction."""
        return () if self.combiners is None else tuple(c.data for c in self.combiners)

    def verify_(self) -> None:
        for name in self.combiner_names:
            if name not in COMBINERS:
                raise VerifyException(f"unknown combiner '{name}', expected one of {', '.join(COMBINERS)}")


def build_compute(
    inputs: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    extents: ExprListAttr,
    reduce_extents: ExprListAttr | None = None,
    block_name: str | None = None,
) -> ComputeOp:
    """A compute with an empty body whose region arguments are in place; the caller fills in the body."""
    index = IndexType()
    if reduce_extents is None:
        reduce_extents = ExprListAttr(())
    count = len(extents.exprs) + len(reduce_extents.exprs)
    block = Block(arg_types=[*(v.type for v in inputs), *([index] * count)])
    return ComputeOp(inputs, result_types, extents, reduce_extents, Region(block), block_name)


TE = Dialect("te", [ComputeOp, ReadOp, IndexOp, YieldOp])
