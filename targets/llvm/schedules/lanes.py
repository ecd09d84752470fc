"""Constants beside the main operands (a bias, a scale): stored so that lanes read consecutive elements.

bias: memref<64x1x1xf32>, read at [c, 0, 0] with lanes along c   -->   memref<1x1x64xf32>, read at [0, 0, c]
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import BlockArgument, SSAValue

from ....core.attributes import IndexMapAttr
from ....core.symbolic import sym
from ....dialects.loop.ops import BlockOp
from ....passes.loop.schedule import Schedule, ScheduleError
from .shape import BlockShape, last_wide_dim


def constant_reads_by_lane(s: Schedule, block: BlockOp, lane: int) -> None:
    """Permute constant arguments that ``block`` reads along ``lane`` in another than their last dimension."""
    shape = BlockShape(s, block)
    name = shape.names[lane]
    for read in shape.reads:
        if not is_constant(s, read.buffer):
            continue
        moving = [d for d, e in enumerate(read.index) if name in e.symbols()]
        rank = len(read.index)
        if len(moving) != 1 or moving[0] == rank - 1 or last_wide_dim(read.buffer.type) is None:
            continue
        order = [d for d in range(rank) if d != moving[0]] + moving
        number = s.read_buffers(block).index(read.buffer)
        try:
            s.transform_layout(block, "read", number, IndexMapAttr(rank, tuple(sym(f"d{d}") for d in order)))
        except ScheduleError:
            continue


def is_constant(s: Schedule, buffer: SSAValue) -> bool:
    """Whether a buffer is an argument of the kernel that is a constant of the model."""
    constants = s.kernel.attributes.get("constant_args")
    if not isinstance(buffer, BlockArgument) or not isinstance(constants, ArrayAttr):
        return False
    return any(isinstance(c, IntegerAttr) and c.value.data == buffer.index for c in constants)
