"""``annotate``: a discardable attribute on a loop or block, for later passes and targets to read. Always legal."""

from __future__ import annotations

from xdsl.ir import Attribute

from ....dialects.loop.ops import BlockOp, ForOp


def annotate(target: ForOp | BlockOp, key: str, value: Attribute) -> None:
    """Set attribute ``key`` of ``target``."""
    target.attributes[key] = value
