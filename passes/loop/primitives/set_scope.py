"""``set_scope``: where an allocated buffer lives (see ``loop.alloc``). Refused for arguments of the kernel."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from ....dialects.loop.ops import SCOPES, BlockOp
from ..errors import refuse
from ..nest import alloc_of, buffer_name, written_buffers


def set_scope(block: BlockOp, number: int, scope: str) -> None:
    """Set the scope of the buffer that is write ``number`` of ``block``."""
    buffers = written_buffers(block)
    if not 0 <= number < len(buffers):
        refuse(block, f"has no write number {number}, it has {len(buffers)}")
    if scope not in SCOPES:
        refuse(block, f"unknown scope '{scope}', expected one of {', '.join(SCOPES)}")
    alloc = alloc_of(buffers[number])
    if alloc is None:
        refuse(block, f"writes '{buffer_name(buffers[number])}', an argument of the kernel")
    alloc.scope = StringAttr(scope)
