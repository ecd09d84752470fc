"""The one way in which a schedule step refuses: which step, which loop or block, and why.

Primitives check first and change afterwards, so a refused step leaves the kernel exactly as it was.
"""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import Operation

from ...dialects.loop.ops import BlockOp, ForOp


class ScheduleError(Exception):
    """A refused schedule step. ``where`` is the loop or block that the reason is about."""

    def __init__(self, reason: str, where: Operation | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where = where


def loop_name(loop: ForOp) -> str:
    """How messages call a loop: ``loop %i``."""
    hint = loop.var.name_hint
    return f"loop %{hint}" if hint is not None else "loop"


def block_name(block: BlockOp) -> str:
    """How messages call a block: ``block "C"``."""
    return f'block "{block.block_name.data}"'


def refuse(where: Operation | None, reason: str) -> NoReturn:
    """Raise a ``ScheduleError`` that starts with the name of ``where``."""
    if isinstance(where, ForOp):
        reason = f"{loop_name(where)}: {reason}"
    elif isinstance(where, BlockOp):
        reason = f"{block_name(where)}: {reason}"
    raise ScheduleError(reason, where)
