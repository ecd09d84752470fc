"""Operations of the ``schedule`` dialect.

A ``schedule.func`` is a straight-line program for one kernel. It is IR like anything else: printed, parsed,
verified, stored, edited and replayed on a fresh copy of the unscheduled kernel. Handles are SSA values: a loop
handle is consumed by ``split``, ``fuse`` and by the ``compute_at`` family (for the moved block's own loops); a
block handle lives until it is inlined. What each step means, and when it is legal, is in
``passes/loop/primitives/``; a refused step names loop and reason and leaves the kernel as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import (
    Attribute,
    Block,
    Dialect,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import IndexMapAttr


@irdl_attr_definition
class BlockType(ParametrizedAttribute, TypeAttribute):
    """Handle of a ``loop.block``: ``!schedule.block``."""

    name = "schedule.block"


@irdl_attr_definition
class LoopType(ParametrizedAttribute, TypeAttribute):
    """Handle of a ``loop.for``: ``!schedule.loop``."""

    name = "schedule.loop"


@irdl_op_definition
class ScheduleFuncOp(IRDLOperation):
    """The schedule of one kernel: ``schedule.func @conv_0_schedule for @conv_0 { ... }``."""

    name = "schedule.func"
    sym_name = prop_def(SymbolNameConstraint())
    kernel = prop_def(FlatSymbolRefAttrConstr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(self, sym_name: str, kernel: str, body: Region | None = None) -> None:
        super().__init__(
            properties={"sym_name": StringAttr(sym_name), "kernel": SymbolRefAttr(kernel)},
            regions=[Region(Block()) if body is None else body],
        )

    def verify_(self) -> None:
        dead: dict[SSAValue, Operation] = {}
        for op in self.body.block.ops:
            for operand in op.operands:
                if operand in dead:
                    raise VerifyException(f"'{op.name}' uses a handle that '{dead[operand].name}' consumed")
            for handle in consumed_handles(op):
                dead[handle] = op


def consumed_handles(op: Operation) -> Sequence[SSAValue]:
    """The handles that a step makes invalid."""
    if isinstance(op, SplitOp | FuseOp | TileOp | ComputeInlineOp | ReverseComputeInlineOp):
        return op.operands
    return ()


@irdl_op_definition
class GetBlockOp(IRDLOperation):
    """``%b = schedule.get_block "C"``: the block of that name in the kernel."""

    name = "schedule.get_block"
    block_name = prop_def(StringAttr)
    block = result_def(BlockType)
    assembly_format = "$block_name attr-dict"

    def __init__(self, block_name: str) -> None:
        super().__init__(properties={"block_name": StringAttr(block_name)}, result_types=[BlockType()])


@irdl_op_definition
class GetLoopsOp(IRDLOperation):
    """``%i, %j = schedule.get_loops %b : 2``: all loops around a block, outermost first.

    The number of results must equal the number of loops."""

    name = "schedule.get_loops"
    block = operand_def(BlockType)
    loops = var_result_def(LoopType)

    def __init__(self, block: SSAValue, count: int) -> None:
        super().__init__(operands=[block], result_types=[[LoopType()] * count])


@irdl_op_definition
class SplitOp(IRDLOperation):
    """``%o, %i = schedule.split %l by [?, 8]``: splits a loop into nested ones with these extents, outermost first.

    At most one factor is ``?`` (written -1 in the attribute) and is the extent divided by the others, rounded up; where
    the product exceeds the extent the blocks inside get a ``where``. Consumes ``%l``."""

    name = "schedule.split"
    loop = operand_def(LoopType)
    factors = prop_def(DenseArrayBase.constr(i64))
    loops = var_result_def(LoopType)

    def __init__(self, loop: SSAValue, factors: Sequence[int | None]) -> None:
        values = [-1 if f is None else f for f in factors]
        super().__init__(
            operands=[loop],
            properties={"factors": DenseArrayBase.from_list(i64, values)},
            result_types=[[LoopType()] * len(values)],
        )

    def verify_(self) -> None:
        values = self.factors.get_values()
        if len(values) != len(self.loops):
            raise VerifyException(f"{len(values)} factors give {len(self.loops)} loops")
        if sum(v == -1 for v in values) > 1:
            raise VerifyException("at most one factor may be '?'")
        if any(isinstance(v, int) and v < 1 and v != -1 for v in values):
            raise VerifyException("factors must be positive")


@irdl_op_definition
class FuseOp(IRDLOperation):
    """``%f = schedule.fuse %i, %j``: one loop over the product of directly nested loops, outermost first.
    Consumes them."""

    name = "schedule.fuse"
    loops = var_operand_def(LoopType)
    fused = result_def(LoopType)
    assembly_format = "$loops attr-dict"

    def __init__(self, loops: Sequence[SSAValue]) -> None:
        super().__init__(operands=[loops], result_types=[LoopType()])


@irdl_op_definition
class ReorderOp(IRDLOperation):
    """``schedule.reorder %k, %i, %j``: these loops of one perfect nest stand in this order, outermost first."""

    name = "schedule.reorder"
    loops = var_operand_def(LoopType)
    assembly_format = "$loops attr-dict"

    def __init__(self, loops: Sequence[SSAValue]) -> None:
        super().__init__(operands=[loops])


@irdl_op_definition
class TileOp(IRDLOperation):
    """``%io, %jo, %ii, %ji = schedule.tile %i, %j by [8, 16]``: splits each loop of a perfect nest by its
    factor and moves the inner loops inside: all outer ones first, then all inner ones. Consumes the loops."""

    name = "schedule.tile"
    loops = var_operand_def(LoopType)
    factors = prop_def(DenseArrayBase.constr(i64))
    tiles = var_result_def(LoopType)

    def __init__(self, loops: Sequence[SSAValue], factors: Sequence[int]) -> None:
        super().__init__(
            operands=[loops],
            properties={"factors": DenseArrayBase.from_list(i64, list(factors))},
            result_types=[[LoopType()] * (2 * len(factors))],
        )

    def verify_(self) -> None:
        if len(self.factors.get_values()) != len(self.loops) or len(self.tiles) != 2 * len(self.loops):
            raise VerifyException("tile needs one factor, and gives two loops, for each loop")


class _LoopKindOp(IRDLOperation):
    loop = operand_def(LoopType)

    def __init__(self, loop: SSAValue) -> None:
        super().__init__(operands=[loop])


@irdl_op_definition
class VectorizeOp(_LoopKindOp):
    """``schedule.vectorize %l``: the loop's iterations become the lanes of vectors. Its extent must be a constant."""

    name = "schedule.vectorize"
    assembly_format = "$loop attr-dict"


@irdl_op_definition
class ParallelOp(_LoopKindOp):
    """``schedule.parallel %l``: threads share the loop's iterations. It must not carry a reduction."""

    name = "schedule.parallel"
    assembly_format = "$loop attr-dict"


@irdl_op_definition
class UnrollOp(_LoopKindOp):
    """``schedule.unroll %l``: the loop is unrolled completely. Its extent must be a constant."""

    name = "schedule.unroll"
    assembly_format = "$loop attr-dict"


class _ComputeAtBase(IRDLOperation):
    block = operand_def(BlockType)
    loop = operand_def(LoopType)

    def __init__(self, block: SSAValue, loop: SSAValue) -> None:
        super().__init__(operands=[block, loop])


@irdl_op_definition
class ComputeAtOp(_ComputeAtBase):
    """``schedule.compute_at %b at %l``: moves a producer inside a loop of its consumers, computing just what
    they need there; the block gets new loops over that region."""

    name = "schedule.compute_at"
    assembly_format = "$block `at` $loop attr-dict"


@irdl_op_definition
class ReverseComputeAtOp(_ComputeAtBase):
    """``schedule.reverse_compute_at %b at %l``: moves a consumer inside a loop of its producer."""

    name = "schedule.reverse_compute_at"
    assembly_format = "$block `at` $loop attr-dict"


@irdl_op_definition
class ComputeInlineOp(IRDLOperation):
    """``schedule.compute_inline %b``: replaces reads of an elementwise producer's buffer by its expression; the
    block and its buffer disappear."""

    name = "schedule.compute_inline"
    block = operand_def(BlockType)
    assembly_format = "$block attr-dict"

    def __init__(self, block: SSAValue) -> None:
        super().__init__(operands=[block])


@irdl_op_definition
class ReverseComputeInlineOp(IRDLOperation):
    """``schedule.reverse_compute_inline %b``: an elementwise consumer is computed by its producer, where the
    value is made; the block and the buffer between them disappear."""

    name = "schedule.reverse_compute_inline"
    block = operand_def(BlockType)
    assembly_format = "$block attr-dict"

    def __init__(self, block: SSAValue) -> None:
        super().__init__(operands=[block])


class _CacheBase(IRDLOperation):
    block = operand_def(BlockType)
    buffer = prop_def(IntegerAttr.constr(i64))
    scope = prop_def(StringAttr)
    cache = result_def(BlockType)

    def __init__(self, block: SSAValue, buffer: int, scope: str = "local") -> None:
        super().__init__(
            operands=[block],
            properties={"buffer": IntegerAttr(buffer, i64), "scope": StringAttr(scope)},
            result_types=[BlockType()],
        )


@irdl_op_definition
class CacheReadOp(_CacheBase):
    """``%c = schedule.cache_read %b 1 "local"``: a new block copies the buffer of ``%b``'s read number 1 into a
    new buffer, which ``%b`` reads instead; ``%c`` is then placed by ``compute_at``. Reads are numbered in order
    of first appearance."""

    name = "schedule.cache_read"
    assembly_format = "$block $buffer $scope attr-dict"


@irdl_op_definition
class CacheWriteOp(_CacheBase):
    """``%c = schedule.cache_write %b 0 "local"``: ``%b`` writes a new buffer instead of its write number 0, and
    the new block ``%c`` copies that to the old one."""

    name = "schedule.cache_write"
    assembly_format = "$block $buffer $scope attr-dict"


@irdl_op_definition
class SetScopeOp(IRDLOperation):
    """``schedule.set_scope %b 0 "local"``: where the buffer of the block's write number 0 lives (see
    ``loop.alloc``)."""

    name = "schedule.set_scope"
    block = operand_def(BlockType)
    buffer = prop_def(IntegerAttr.constr(i64))
    scope = prop_def(StringAttr)
    assembly_format = "$block $buffer $scope attr-dict"

    def __init__(self, block: SSAValue, buffer: int, scope: str) -> None:
        super().__init__(
            operands=[block],
            properties={"buffer": IntegerAttr(buffer, i64), "scope": StringAttr(scope)},
        )


@irdl_op_definition
class DecomposeReductionOp(IRDLOperation):
    """``%init = schedule.decompose_reduction %b at %l``: the init region becomes a block of its own with its
    own loops, directly before loop ``%l``, which must enclose all reduction loops of ``%b``."""

    name = "schedule.decompose_reduction"
    block = operand_def(BlockType)
    loop = operand_def(LoopType)
    init = result_def(BlockType)
    assembly_format = "$block `at` $loop attr-dict"

    def __init__(self, block: SSAValue, loop: SSAValue) -> None:
        super().__init__(operands=[block, loop], result_types=[BlockType()])


@irdl_op_definition
class TransformLayoutOp(IRDLOperation):
    """``schedule.transform_layout %b "read" 1 #tw.map<...>``: stores a buffer in another physical order.

    Legal for buffers allocated in the kernel, and for kernel arguments that are constants of the model (marked in the
    kernel's ``constant_args``): those are packed once, when the artefact is written. Padding lanes are zero."""

    name = "schedule.transform_layout"
    block = operand_def(BlockType)
    access = prop_def(StringAttr)
    buffer = prop_def(IntegerAttr.constr(i64))
    map = prop_def(IndexMapAttr)
    assembly_format = "$block $access $buffer $map attr-dict"

    def __init__(self, block: SSAValue, access: str, buffer: int, map: IndexMapAttr) -> None:
        super().__init__(
            operands=[block],
            properties={"access": StringAttr(access), "buffer": IntegerAttr(buffer, i64), "map": map},
        )

    def verify_(self) -> None:
        if self.access.data not in ("read", "write"):
            raise VerifyException(f"access is '{self.access.data}', expected 'read' or 'write'")


@irdl_op_definition
class AnnotateOp(IRDLOperation):
    """``schedule.annotate %l "key" = value``: a discardable attribute on a loop or block."""

    name = "schedule.annotate"
    target = operand_def(BaseAttr(BlockType) | BaseAttr(LoopType))
    key = prop_def(StringAttr)
    value = prop_def(AnyAttr())

    def __init__(self, target: SSAValue, key: str, value: Attribute) -> None:
        super().__init__(operands=[target], properties={"key": StringAttr(key), "value": value})


SCHEDULE = Dialect(
    "schedule",
    [
        ScheduleFuncOp,
        GetBlockOp,
        GetLoopsOp,
        SplitOp,
        FuseOp,
        ReorderOp,
        TileOp,
        VectorizeOp,
        ParallelOp,
        UnrollOp,
        ComputeAtOp,
        ReverseComputeAtOp,
        ComputeInlineOp,
        ReverseComputeInlineOp,
        CacheReadOp,
        CacheWriteOp,
        SetScopeOp,
        DecomposeReductionOp,
        TransformLayoutOp,
        AnnotateOp,
    ],
    [BlockType, LoopType],
)
