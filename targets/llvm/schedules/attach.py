"""``attach-schedules``: gives every kernel that has none its default schedule.

    func.func private @k(...) { plain loops }
-->
    func.func private @k(...) { plain loops }
    schedule.func @k_schedule for @k { ... }

Options ``mcpu`` and ``mattr`` name the machine (this one if not given). Kernels with a schedule keep it.
``apply-schedule`` comes next.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ....core.context import TilewrightContext
from ....core.passes import ModulePass
from ....core.target import TargetInfo, host_target, make_target
from ....dialects.schedule.ops import ScheduleFuncOp
from . import schedule_kernel


@dataclass(frozen=True)
class AttachSchedulesPass(ModulePass):
    """Gives every kernel that has none its default schedule for a machine, this one if none is named."""

    name = "attach-schedules"
    mcpu: str | None = None
    mattr: str | None = None

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        info = make_target("llvm", self.mcpu, self.mattr)
        scheduled = {f.kernel.root_reference.data for f in op.ops if isinstance(f, ScheduleFuncOp)}
        for kernel in [f for f in op.ops if isinstance(f, FuncOp) and "tw.kernel" in f.attributes]:
            if kernel.sym_name.data not in scheduled:
                op.body.block.add_op(schedule_kernel(kernel, info))


def attach_spec(info: TargetInfo) -> str:
    """The pass as a pipeline spec for a machine."""
    if info == host_target():
        return AttachSchedulesPass.name
    plain = make_target(info.name, info.cpu)
    added = [f"+{f}" for f in info.features if f not in plain.features]
    removed = [f"-{f}" for f in plain.features if f not in info.features]
    options = f'mcpu="{info.cpu}"' + (f' mattr="{",".join(added + removed)}"' if added or removed else "")
    return f"{AttachSchedulesPass.name}{{{options}}}"
