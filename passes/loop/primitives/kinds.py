"""``vectorize``, ``parallel``, ``unroll``: how the iterations of a loop run. Only the loop's ``kind`` changes here.

Refused: a loop that is not serial; an extent that is not constant (vectorize, unroll); iterations that depend
on each other (vectorize, parallel): a reduction that the loop carries, or several iterations that write one
place. A vectorised loop may carry an associative reduction: that reassociates it, which is what the schedule
asks for. Parallel and vectorised loops do not nest in a vectorised loop, nor parallel ones in a parallel one.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from ....dialects.loop.ops import ForOp
from ..errors import loop_name, refuse
from ..index import IndexSpace
from ..legality import require_constant_extent, require_independent, require_serial
from ..nest import loops_around


def vectorize(space: IndexSpace, loop: ForOp) -> None:
    """The loop's iterations become the lanes of vectors."""
    require_serial(loop)
    require_constant_extent(space, loop, "vectorize")
    _refuse_nesting(loop, "vectorize", inside=("vectorized",), around=("vectorized", "parallel"))
    require_independent(space, loop, "vectorize", lanes=True)
    loop.kind = StringAttr("vectorized")


def parallel(space: IndexSpace, loop: ForOp) -> None:
    """Threads share the loop's iterations."""
    require_serial(loop)
    _refuse_nesting(loop, "parallel", inside=("vectorized", "parallel"), around=("parallel",))
    require_independent(space, loop, "parallel")
    loop.kind = StringAttr("parallel")


def unroll(space: IndexSpace, loop: ForOp) -> None:
    """The loop is unrolled completely."""
    require_serial(loop)
    require_constant_extent(space, loop, "unroll")
    loop.kind = StringAttr("unrolled")


def _refuse_nesting(loop: ForOp, what: str, inside: tuple[str, ...], around: tuple[str, ...]) -> None:
    for outer in loops_around(loop):
        if outer.kind.data in inside:
            refuse(loop, f"{what} is not possible inside {outer.kind.data} {loop_name(outer)}")
    for op in loop.body.walk():
        if isinstance(op, ForOp) and op.kind.data in around:
            refuse(loop, f"{what} is not possible around {op.kind.data} {loop_name(op)}")
