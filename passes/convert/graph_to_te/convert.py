"""The pass ``convert-graph-to-te``: bodies of ``graph.kernel`` become chains of ``te.compute``, in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ....core.attributes import shape_exprs
from ....core.context import TilewrightContext
from ....core.diagnostics import Diagnostic, DiagnosticError, error
from ....core.passes import ModulePass, anchored_ops
from ....core.registry import Registry
from ....dialects.te.ops import ComputeOp
from ..structure import OncePerBody
from .builder import TeBuilder

Lowering = Callable[[Any, TeBuilder], SSAValue | Sequence[SSAValue]]


@dataclass(frozen=True)
class ConvertGraphToTePass(ModulePass):
    """Lowers every graph op inside a ``graph.kernel`` by the function that the table of lowerings names.

    Result types keep their encodings; layouts are applied later, when te becomes loops. Block names become unique
    within a kernel. Graph ops outside of kernels stay. An op without a lowering is an error; all of them are
    reported at once.

    ::

        %r = graph.kernel "add_relu" (%x, %b) : ... {
        ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
          %2 = graph.add %0, %1 : ...                 -->  %2 = te.compute "add" (%0 as ..., %1 as ...) ...
          %3 = graph.relu %2 : ...                    -->  %3 = te.compute "relu" (%2 as ...) ...
          graph.yield %3 : tensor<4xf32>
        }
    """

    name: ClassVar[str] = "convert-graph-to-te"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        lowerings = _Lowerings(ctx.registry)
        missing: list[Diagnostic] = []
        once = OncePerBody(lambda kernel: missing.extend(lower_kernel(kernel, lowerings)))
        for kernel in anchored_ops(op, "graph.kernel"):
            once.apply(kernel)
        if missing:
            raise DiagnosticError(missing)


class _Lowerings:
    """The lowerings in use, resolved once each."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._resolved: dict[str, Lowering | None] = {}

    def find(self, name: str) -> Lowering | None:
        if name not in self._resolved:
            known = self._registry.has("lowering", name)
            self._resolved[name] = self._registry.resolve("lowering", name) if known else None
        return self._resolved[name]


def lower_kernel(kernel: Operation, lowerings: _Lowerings) -> Iterator[Diagnostic]:
    """Lowers the ops of one kernel; yields an error for each that cannot be."""
    block = kernel.regions[0].block
    for op in list(block.ops):
        if op is block.last_op or isinstance(op, ComputeOp):
            continue
        lower = lowerings.find(op.name)
        if lower is None:
            yield error(op, f"is not supported in compiled code: {_reason(op)}")
            continue
        found = lower(op, TeBuilder(op))
        for old, new in zip(op.results, [found] if isinstance(found, SSAValue) else found, strict=True):
            if new.name_hint is None:
                new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        Rewriter.erase_op(op)
    make_names_unique(block.ops)


def _reason(op: Operation) -> str:
    """Why an op has no lowering."""
    known = {name for value in op.operands for extent in shape_exprs(value.type) for name in extent.symbols()}
    if any(extent.symbols() - known for result in op.results for extent in shape_exprs(result.type)):
        return "the size of its result depends on values"
    return "it has no lowering to te"


def make_names_unique(ops: Iterator[Operation] | Sequence[Operation] | Any) -> None:
    """Numbers the block names that occur more than once: ``add``, ``add_1``, ``add_2``."""
    taken: set[str] = set()
    counts: dict[str, int] = {}
    for op in ops:
        if not isinstance(op, ComputeOp):
            continue
        base = "compute" if op.block_name is None else op.block_name.data
        name, count = base, counts.get(base, 0)
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        counts[base] = count
        taken.add(name)
        op.properties["block_name"] = StringAttr(name)
