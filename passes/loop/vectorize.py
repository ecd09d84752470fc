"""``loop-vectorize``: the iterations of vectorised loops become lanes.

    for j in 0..16 vectorized                      %a = load %A[i]                  (uniform)
      C[i, j] += A[i] * B[j]             -->       %b = load %B[0] : vector<16xf32> (consecutive)
                                                   ... broadcast %a, mulf, addf, store : vector<16xf32>

- Loads and stores of consecutive elements become vector-typed; a load that does not depend on the lane stays
  scalar and is broadcast where it meets a vector; any other access (strides, guards or indices that differ by
  lane) is done lane by lane.
- Arithmetic is done on vectors; ``loop.lanes`` stands for operations that ``arith`` has for scalars only.
- An extent that is no power of two is cut: 13 lanes run as 8, 4 and 1. There are no masks.
- A reduction over the lanes (a schedule that vectorises a reduction loop asks for reassociation) gets vector
  accumulators, one for each iteration of the unrolled loops around it, which live outside of all enclosing
  reduction loops, and one horizontal reduction at the end.
- A loop that has no vector form (a condition that differs by lane, a place that several lanes write) runs
  serially, with the attribute ``not_vectorized`` saying why.

Expects lowered blocks (``loop-lower-blocks``); ``loop-partition`` should have removed guards. Leaves no
vectorised loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from ...dialects.loop.ops import ForOp
from .index import IndexSpace
from .kernel_pass import KernelPass
from .lane_reduction import widen_accumulators
from .lanes import LaneEmitter, NotVectorizableError
from .nest import detach, erase


@dataclass(frozen=True)
class LoopVectorizePass(KernelPass):
    """Turn vectorised loops into vector code; see the module."""

    name = "loop-vectorize"

    def apply_to_kernel(self, kernel: FuncOp) -> None:
        space = IndexSpace(kernel)
        for loop in _vectorized(kernel):
            widen_accumulators(space, loop)
        for loop in reversed(_vectorized(kernel)):
            vectorize(space, loop)


def _vectorized(kernel: FuncOp) -> list[ForOp]:
    return [op for op in kernel.walk() if isinstance(op, ForOp) and op.kind.data == "vectorized"]


def vectorize(space: IndexSpace, loop: ForOp) -> None:
    """Replace one vectorised loop by vector code, or make it serial."""
    extent = space.extent(loop)
    try:
        if not extent.is_const():
            raise NotVectorizableError("the extent is not constant")
        code = [_chunk(space, loop, base, lanes) for base, lanes in chunks(extent.const_value())]
    except NotVectorizableError as error:
        loop.kind = StringAttr("serial")
        loop.attributes["not_vectorized"] = StringAttr(str(error))
        return
    place = loop.parent
    assert place is not None
    for block in code:
        for op in list(block.ops):
            detach(op)
            place.insert_op_before(op, loop)
    erase(loop)


def chunks(extent: int) -> list[tuple[int, int]]:
    """``(first iteration, lanes)``: powers of two, largest first."""
    found: list[tuple[int, int]] = []
    base = 0
    for bit in reversed(range(extent.bit_length())):
        if extent >> bit & 1:
            found.append((base, 1 << bit))
            base += 1 << bit
    return found


def _chunk(space: IndexSpace, loop: ForOp, base: int, lanes: int) -> Block:
    block = Block()
    if lanes > 1:
        LaneEmitter(space, loop, base, lanes).block(loop.body.block, block)
        return block
    clone = loop.clone()
    space.replace_value(clone.var, base)
    moved: list[Operation] = list(clone.body.block.ops)
    for op in moved:
        detach(op)
        block.add_op(op)
    clone.erase()
    return block
