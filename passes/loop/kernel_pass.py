"""Base of the passes on scheduled kernels: they run on functions marked ``tw.kernel`` and leave all others alone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ...core.context import TilewrightContext
from ...core.passes import FunctionPass


@dataclass(frozen=True)
class KernelPass(FunctionPass):
    """A pass on one kernel at a time: implement ``apply_to_kernel``."""

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        if isinstance(func, FuncOp) and "tw.kernel" in func.attributes:
            self.apply_to_kernel(func)

    @abstractmethod
    def apply_to_kernel(self, kernel: FuncOp) -> None:
        """Transform one kernel in place."""
