"""The pass ``te-dce``: computes, and ops and inputs inside of computes, that nothing needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from ...core.context import TilewrightContext
from ...core.passes import ModulePass
from ...dialects.te.ops import ComputeOp
from .inline import erase_unused
from .rebuild import compute_blocks, rebuild


@dataclass(frozen=True)
class TeDcePass(ModulePass):
    """Erases unused computes, then unused ops and inputs of the others.

    ::

        %1 = te.compute (%x as %a, %y as %b) [%i] in [4] -> tensor<4xf32> {
          %2 = te.read %a[%i] : f32                                         %1 = te.compute (%x as %a) [%i] in [4] ... {
          %3 = te.read %b[%i] : f32                                  -->      %2 = te.read %a[%i] : f32
          te.yield %2 : f32                                                   te.yield %2 : f32
        }                                                                   }
    """

    name: ClassVar[str] = "te-dce"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        for block in list(compute_blocks(op)):
            clean_block(block)


def clean_block(block: Block) -> None:
    """Cleans the computes of one block."""
    erase_unused(block)
    for op in list(block.ops):
        if isinstance(op, ComputeOp) and _has_unused(op):
            rebuild(op)
    erase_unused(block)


def _has_unused(op: ComputeOp) -> bool:
    if any(not arg.uses for arg in op.input_args) or len(set(op.inputs)) < len(op.inputs):
        return True
    return any(
        inner is not op.yield_op and not any(r.uses for r in inner.results) for inner in op.body.block.ops
    )
