"""Default schedules for processors: a kernel's loops and a machine's description in, a ``schedule.func`` out.

No rule knows where a kernel came from; each looks at the structure of its blocks (``shape.py``) and fits tiles to the
machine's vectors, registers, caches and cores (``tiles.py``). The rules are one file each; ``attach.py`` is the pass.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from ....core.target import TargetInfo
from ....dialects.schedule.ops import ScheduleFuncOp


def schedule_kernel(kernel: FuncOp, info: TargetInfo) -> ScheduleFuncOp:
    """The default schedule of a kernel of plain loop nests."""
    from .rules import schedule_kernel as rule

    return rule(kernel, info)
