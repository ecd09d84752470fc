"""Layout choice: activations of convolutional networks in channel blocks, NCHW to NCHWc.

Why: with c channels (the vector lanes of the target) innermost, convolution, pooling and everything elementwise run
on whole vectors whatever the image size. A layout is part of a tensor's type; shapes and attributes stay logical, so
only types change here and ``graph.relayout`` is inserted where an operation cannot follow. Weights are not touched:
schedules pack them.

The choice goes forward through the program once. What an operation does with its operands' layout is in
``_LayoutChoice.choose``; whatever is not named there reads and writes row-major tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...core.attributes import IndexMapAttr, layout_of, shape_exprs, tensor_type
from ...core.context import TilewrightContext
from ...core.passes import FunctionPass
from ...core.symbolic import sym
from ...dialects.graph.base import GraphOp, Tensor, tensor_of
from ...dialects.graph.broadcasting import BroadcastingOp
from ...dialects.graph.elementwise import UnaryOp
from ...dialects.graph.nn import BatchNormOp, ConvOp, LrnOp, PoolOp
from ...dialects.graph.reduce import ArgReduceOp, ReduceOp
from ...dialects.graph.shape import ConcatOp, PadOp, ResizeOp, SliceOp
from ...dialects.graph.structure import ConstantOp, KernelOp, RelayoutOp


@dataclass(frozen=True)
class GraphChooseLayoutPass(FunctionPass):
    """Chooses channel-blocked layouts for what surrounds convolutions.

    Before::

        %0 = graph.conv %x, %w ... : (tensor<1x3x8x8xf32>, ...) -> tensor<1x32x8x8xf32>
        %1 = graph.relu %0 : ...
        func.return %1

    After, with ``block=16``::

        %0 = graph.conv %x, %w ... -> tensor<1x32x8x8xf32, #tw.enc<layout =
               (d0, d1, d2, d3) -> (d0, d1 floordiv 16, d2, d3, d1 mod 16)>>
        %1 = graph.relu %0 : ...
        %2 = graph.relayout %1 : ... -> tensor<1x32x8x8xf32>
        func.return %2

    Option ``block``: the preferred number of channels in a block, the vector lanes of the target. A tensor takes the
    largest of block, block/2 and block/4 that divides its channels, or stays row-major.
    """

    name = "graph-choose-layout"
    block: int = 16

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        choice = _LayoutChoice(self.block)
        for region in func.regions:
            for block in region.blocks:
                choice.visit(block)


def blocked_layout(rank: int, block: int) -> IndexMapAttr:
    """``(n, c, s...) -> (n, c floordiv block, s..., c mod block)``."""
    n, c, *spatial = (sym(f"d{i}") for i in range(rank))
    return IndexMapAttr(rank, (n, c // block, *spatial, c % block))


class _LayoutChoice:
    """Gives every result of a function its layout, in program order."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.candidates = [size for size in (block, block // 2, block // 4) if size > 1]
        self._converted: dict[tuple[SSAValue, IndexMapAttr | None], SSAValue] = {}

    def visit(self, block: Block) -> None:
        for op in list(block.ops):
            if isinstance(op, ConstantOp | RelayoutOp):
                continue
            if isinstance(op, KernelOp):
                for index, argument in enumerate(op.body.block.args):
                    self._read(op, index, layout_of(argument.type))
                continue
            layout = self.choose(op) if isinstance(op, GraphOp) else self._row_major(op)
            for result in op.results:
                if isinstance(result.type, TensorType) and layout_of(result.type) != layout:
                    Rewriter.replace_value_with_new_type(result, _with_layout(result, layout))
            for region in op.regions:
                for nested in region.blocks:
                    self.visit(nested)

    def choose(self, op: GraphOp) -> IndexMapAttr | None:
        """Brings the operands into the layouts that the operation reads, and returns its results' layout."""
        match op:
            case ConvOp():
                return self._convolution(op)
            case UnaryOp() | PoolOp() | LrnOp():
                return self._follow(op)
            case BatchNormOp() | BroadcastingOp():
                return self._elementwise(op)
            case PadOp() | SliceOp() | ResizeOp() if _has_channels_of(op.input, op.result):
                return self._follow(op)
            case ConcatOp():
                return self._concat(op)
            case ReduceOp() | ArgReduceOp():
                return None
            case _:
                return self._row_major(op)

    def _row_major(self, op: Operation) -> IndexMapAttr | None:
        for index, value in enumerate(op.operands):
            if isinstance(value.type, TensorType):
                self._read(op, index, None)
        return None

    def _convolution(self, op: ConvOp) -> IndexMapAttr | None:
        """Reads blocks where groups permit; a row-major input is blocked if it fills a block. Writes blocks if it
        can.
        """
        rank, groups = _rank(op.input), op.group_count
        if _is_depthwise(op):
            return self._depthwise(op)
        readable = [blocked_layout(rank, size) for size in self._sizes(op.input, groups)]
        writable = [blocked_layout(rank, size) for size in self._sizes(op.result, groups)]
        wide = self._is_wide(op.input)
        if groups > 1 and not (readable and writable and wide):
            return self._row_major(op)
        if layout_of(op.input.type) not in readable:
            self._read(op, 0, readable[0] if readable and wide else None)
        return writable[0] if writable and _has_extent(op.result) else None

    def _depthwise(self, op: ConvOp) -> IndexMapAttr | None:
        """Every channel is its own group, so the result has the input's blocks."""
        sizes = self._sizes(op.input)
        if layout_of(op.input.type) is None and sizes and self._is_wide(op.input):
            self._read(op, 0, blocked_layout(_rank(op.input), sizes[0]))
        return self._follow(op)

    def _follow(self, op: GraphOp) -> IndexMapAttr | None:
        """The first operand's layout; a tensor of one pixel is row-major, which is the same order in memory."""
        return layout_of(op.operands[0].type) if _has_extent(op.results[0]) else None

    def _elementwise(self, op: GraphOp) -> IndexMapAttr | None:
        """The layout of the first blocked operand with the result's channels, for all operands of the full shape.

        Smaller operands and constants are read as they are.
        """
        result = op.results[0]
        layouts = [layout_of(v.type) for v in op.operands if _has_channels_of(v, result)]
        layout = next((each for each in layouts if each is not None), None)
        if layout is None or not _has_extent(result):
            return self._row_major(op)
        for index, value in enumerate(op.operands):
            full = shape_exprs(value.type) == shape_exprs(result.type)
            if full and not isinstance(value.owner, ConstantOp):
                self._read(op, index, layout)
        return layout

    def _concat(self, op: ConcatOp) -> IndexMapAttr | None:
        """Blocks when one operand is blocked; along the channels, in blocks that divide the channels of every
        operand.
        """
        layouts = [layout_of(value.type) for value in op.operands]
        first = next((each for each in layouts if each is not None), None)
        if first is None:
            return None
        layout: IndexMapAttr | None = first
        if op.axis_value == 1:
            common = set.intersection(*(set(self._sizes(value)) for value in op.operands))
            layout = blocked_layout(_rank(op.result), max(common)) if common else None
        for index, current in enumerate(layouts):
            if layout is None or current is None or op.axis_value != 1:
                self._read(op, index, layout)
        return layout

    def _sizes(self, value: SSAValue, groups: int = 1) -> list[int]:
        """The block sizes that divide the channels of one group, the largest first."""
        channels = _channels(value)
        return [] if channels is None else [size for size in self.candidates if channels // groups % size == 0]

    def _is_wide(self, value: SSAValue) -> bool:
        """Whether blocking a row-major tensor pays: it fills a block, and its order in memory would change."""
        return (_channels(value) or 0) >= self.block and _has_extent(value)

    def _read(self, op: Operation, index: int, layout: IndexMapAttr | None) -> None:
        op.operands[index] = self._convert(op.operands[index], layout)

    def _convert(self, value: SSAValue, layout: IndexMapAttr | None) -> SSAValue:
        """The value in another layout; a change of layout is made once, where the value is made, and undone by its
        source.
        """
        if layout_of(value.type) == layout:
            return value
        if isinstance(value.owner, RelayoutOp):
            return self._convert(value.owner.input, layout)
        if (value, layout) not in self._converted:
            relayout = RelayoutOp(value, layout)
            if isinstance(value.owner, Operation):
                relayout.location = value.owner.location
                point = InsertPoint.after(value.owner)
            else:
                point = InsertPoint.at_start(value.owner)
            Rewriter.insert_op(relayout, point)
            self._converted[value, layout] = relayout.result
        return self._converted[value, layout]


def _is_depthwise(op: ConvOp) -> bool:
    return op.group_count > 1 and _channels(op.input) == _channels(op.result) == op.group_count


def _with_layout(value: SSAValue, layout: IndexMapAttr | None) -> Tensor:
    type = tensor_of(value)
    return tensor_type(type.element_type, shape_exprs(type), layout)


def _rank(value: SSAValue) -> int:
    return tensor_of(value).get_num_dims()


def _channels(value: SSAValue) -> int | None:
    """The extent of dimension 1; None where it is symbolic, or there are no spatial dimensions after it."""
    shape = shape_exprs(value.type)
    return shape[1].const_value() if len(shape) > 2 and shape[1].is_const() else None


def _has_channels_of(value: SSAValue, result: SSAValue) -> bool:
    return _rank(value) == _rank(result) > 2 and shape_exprs(value.type)[1] == shape_exprs(result.type)[1]


def _has_extent(value: SSAValue) -> bool:
    """Whether there is more than one pixel."""
    return any(extent != 1 for extent in shape_exprs(value.type)[2:])
