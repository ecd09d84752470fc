"""Operator fusion: every computing operation of the graph goes into a ``graph.kernel``, with what can share its loop
nest.

Which operations share a kernel is decided in ``fusion_groups.py``; here the IR is read and rewritten. Not put into
kernels: constants (a kernel takes them as operands, but for single numbers and small splats, which it holds itself),
views, which move no data, symbol checks and control flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...core.attributes import layout_of, shape_exprs
from ...core.context import TilewrightContext
from ...core.diagnostics import fused_location
from ...core.passes import FunctionPass
from ...dialects.graph.base import FusionKind, GraphOp
from ...dialects.graph.shape import ResizeOp, TransposeOp
from ...dialects.graph.structure import ConstantOp, KernelOp, MatchShapeOp, RelayoutOp, YieldOp
from .constants import splat_value
from .fusion_groups import MAX_GROUP, Kind, Node, fusion_groups

MOVEMENT = (TransposeOp, RelayoutOp)
MAX_NAME_PARTS = 8
"""The most operations that a kernel's name spells out."""


@dataclass(frozen=True)
class GraphFusePass(FunctionPass):
    """Groups operations into kernels.

    Before::

        %0 = graph.conv %x, %w ...
        %1 = graph.add %0, %b ...
        %2 = graph.relu %1 ...

    After::

        %2 = graph.kernel "conv_add_relu" (%x, %w, %b) : ... {
        ^bb0(%x1, %w1, %b1):
          %0 = graph.conv %x1, %w1 ...
          %1 = graph.add %0, %b1 ...
          %2 = graph.relu %1 ...
          graph.yield %2
        }

    Option ``max_ops``: the most operations in one kernel. Kernels already present are left alone.
    """

    name = "graph-fuse"
    max_ops: int = MAX_GROUP

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        for block in _blocks(func):
            _fuse_block(block, self.max_ops)


def _blocks(op: Operation) -> Iterator[Block]:
    """The blocks of a function, those of control flow included, those of kernels not."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for nested in block.ops:
                if nested.regions and not isinstance(nested, KernelOp):
                    yield from _blocks(nested)


def _fuse_block(block: Block, max_ops: int) -> None:
    members = [op for op in block.ops if isinstance(op, GraphOp) and (needs_kernel(op) or is_joint(op))]
    groups: dict[int, list[GraphOp]] = {}
    for op, group in zip(members, fusion_groups(_nodes(members), max_ops)):
        groups.setdefault(group, []).append(op)
    for ops in groups.values():
        _make_kernel(ops)


def needs_kernel(op: GraphOp) -> bool:
    """Whether an operation computes tensors, as opposed to naming one (a constant, a view, a checked shape)."""
    return not isinstance(op, ConstantOp | MatchShapeOp) and not is_view(op)


def is_view(op: GraphOp) -> bool:
    """Whether an operation moves no data: a view of a row-major tensor, in row-major order."""
    return op.fusion_kind is FusionKind.VIEW and all(
        layout_of(value.type) is None for value in (*op.operands, *op.results)
    )


def is_joint(op: GraphOp) -> bool:
    """Whether a view stands between two operations that move data, which are one movement with the view between them.

    A channel shuffle of blocked tensors is relayout, reshape, transpose, reshape, relayout: one kernel, one copy.
    """
    if not is_view(op):
        return False
    source: Operation | Block = op
    while isinstance(source, GraphOp) and is_view(source) and source.operands[0].has_one_use():
        source = source.operands[0].owner
    user: Operation = op
    while isinstance(user, GraphOp) and is_view(user) and user.results[0].has_one_use():
        user = next(iter(user.results[0].uses)).operation
    return isinstance(source, MOVEMENT) and isinstance(user, MOVEMENT)


def _kind(op: GraphOp) -> Kind:
    if len(op.results) != 1:
        return Kind.OPAQUE  # alone in its kernel, which has the same results
    match op.fusion_kind:
        case FusionKind.ELEMENTWISE:
            return Kind.ELEMENTWISE
        case FusionKind.BROADCAST:
            return Kind.BROADCAST
        case FusionKind.INJECTIVE | FusionKind.VIEW:
            return Kind.INJECTIVE
        case FusionKind.REDUCTION:
            return Kind.REDUCTION
        case FusionKind.COMPLEX:
            return Kind.COMPLEX_OUT_FUSABLE
        case FusionKind.OPAQUE:
            return Kind.OPAQUE


def _nodes(members: Sequence[GraphOp]) -> list[Node]:
    numbers: dict[Operation, int] = {op: number for number, op in enumerate(members)}
    nodes = []
    for op in members:
        node = Node(_kind(op))
        for use in (use for result in op.results for use in result.uses):
            consumer = numbers.get(use.operation)
            if consumer is None:
                node.escapes = True
            else:
                node.uses.append((consumer, _operand_kind(members[consumer], use.index)))
        nodes.append(node)
    return nodes


def _operand_kind(op: GraphOp, index: int) -> Kind:
    """How an operation reads one operand. A smaller operand, repeated along dimensions, is computed once, outside."""
    kind = _kind(op)
    if isinstance(op, ResizeOp):
        return Kind.COMPLEX_OUT_FUSABLE
    if kind > Kind.BROADCAST:
        return kind
    same = shape_exprs(op.operands[index].type) == shape_exprs(op.results[0].type)
    return Kind.ELEMENTWISE if same else Kind.OPAQUE


def _make_kernel(ops: Sequence[GraphOp]) -> None:
    """Moves the operations of one group, in order, into a kernel that stands where the last of them stood."""
    last, results = ops[-1], ops[-1].results
    members = set(ops)
    inputs: dict[SSAValue, None] = {}
    inner: dict[SSAValue, ConstantOp] = {}
    for op in ops:
        for value in op.operands:
            if value.owner in members:
                continue
            if isinstance(value.owner, ConstantOp) and splat_value(value) is not None:
                inner[value] = value.owner
            else:
                inputs[value] = None
    block = Block(arg_types=[value.type for value in inputs])
    kernel = KernelOp(kernel_name(ops), list(inputs), [r.type for r in results], Region(block))
    # The name of the costliest operation comes first.
    kernel.location = fused_location(op.location for op in sorted(ops, key=_kind, reverse=True))
    Rewriter.insert_op(kernel, InsertPoint.before(last))
    for result, outer in zip(results, kernel.results):
        outer.name_hint = result.name_hint
        result.replace_all_uses_with(outer)
    replacements: dict[SSAValue, SSAValue] = {}
    for value, argument in zip(inputs, block.args):
        argument.name_hint = value.name_hint
        replacements[value] = argument
    for value, constant in inner.items():
        clone = constant.clone()
        block.add_op(clone)
        replacements[value] = clone.results[0]
    for op in ops:
        assert op.parent is not None
        block.add_op(op.parent.detach_op(op))
        op.operands = [replacements.get(value, value) for value in op.operands]
    block.add_op(YieldOp(*results))


def kernel_name(ops: Iterable[Operation]) -> str:
    """``conv_add_relu``: the names of the operations, of a long chain the first ones."""
    names = [op.name.removeprefix("graph.") for op in ops]
    shown = names[:MAX_NAME_PARTS]
    return "_".join(shown if len(names) == len(shown) else [*shown, "more"])
