"""Running passes: order, verification in between, invalidation of analyses, instrumentation, reproducers.

What a user sees of a failing pass is always a diagnostic: errors of xDSL's are converted, an exception that is a bug of
ours becomes an ``InternalPassError`` that names the pass and keeps the cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException

from .context import TilewrightContext
from .diagnostics import Diagnostic, DiagnosticError, Severity
from .instrumentation import Instrumentation
from .passes import Pass, anchored_ops
from .pipeline import NestedPasses, PipelineItem, build_pipeline, print_pipeline
from .verifier import verify


class InternalPassError(Exception):
    """A bug in a pass; ``__cause__`` is the original exception."""

    def __init__(self, pass_name: str, cause: BaseException) -> None:
        super().__init__(f"internal error in pass '{pass_name}': {type(cause).__name__}: {cause}")
        self.pass_name = pass_name


class PassManager:
    """Runs a pipeline over modules.

    ``verify_each`` verifies after every pass (``tilewright-opt`` does; compiling verifies at level borders only).
    """

    def __init__(
        self,
        context: TilewrightContext,
        passes: str | Iterable[str | PipelineItem],
        *,
        verify_each: bool = True,
        instrumentations: Sequence[Instrumentation] = (),
    ) -> None:
        self.context = context
        self.passes = build_pipeline(passes, context.registry)
        self.verify_each = verify_each
        self.instrumentations = tuple(instrumentations)

    def run(self, module: ModuleOp) -> None:
        """Apply all passes in order. On failure the module may be half transformed."""
        self.context.analyses.invalidate()
        for index, item in enumerate(self.passes):
            for instrumentation in self.instrumentations:
                instrumentation.start_of_rest(print_pipeline(self.passes[index:]), module)
            if isinstance(item, NestedPasses):
                self._run_nested(item, module)
            else:
                self._run_one(item, module, module)
        for instrumentation in self.instrumentations:
            instrumentation.finished(module)

    def _run_nested(self, group: NestedPasses, module: ModuleOp) -> None:
        for func in anchored_ops(module, group.anchor):
            for item in group.passes:
                self._run_one(item, func, module)

    def _run_one(self, item: Pass, op: Operation, module: ModuleOp) -> None:
        for instrumentation in self.instrumentations:
            instrumentation.before(item, op)
        try:
            self._apply(item, op, module)
            self.context.analyses.invalidate(item.preserves)
            if self.verify_each:
                for instrumentation in self.instrumentations:
                    instrumentation.verifying(item)
                _verify_after(item, op)
        except Exception as problem:
            for instrumentation in self.instrumentations:
                instrumentation.failed(item, op, problem)
            raise
        for instrumentation in reversed(self.instrumentations):
            instrumentation.after(item, op)

    def _apply(self, item: Pass, op: Operation, module: ModuleOp) -> None:
        try:
            if op is module:
                item.apply(self.context, module)
            else:
                item.apply_to_function(self.context, op)  # type: ignore[attr-defined]
        except DiagnosticError:
            raise
        except DiagnosticException as problem:
            raise DiagnosticError(Diagnostic(Severity.ERROR, f"pass '{item.name}' failed: {problem}")) from problem
        except RecursionError:
            message = f"pass '{item.name}' failed: regions, attributes or types are nested too deeply"
            raise DiagnosticError(Diagnostic(Severity.ERROR, message)) from None
        except Exception as problem:
            raise InternalPassError(item.name, problem) from problem


def _verify_after(item: Pass, op: Operation) -> None:
    """Verify, and say after which pass the IR is invalid."""
    try:
        verify(op)
    except DiagnosticError as problem:
        named = [replace(d, message=f"{d.message} (after pass '{item.name}')") for d in problem.diagnostics]
        raise DiagnosticError(named) from None


def run_pipeline(
    module: ModuleOp,
    passes: str | Iterable[str | PipelineItem],
    context: TilewrightContext,
    *,
    verify_each: bool = False,
    instrumentations: Sequence[Instrumentation] = (),
) -> None:
    """Apply a pipeline given as text or as a sequence of texts and passes."""
    PassManager(context, passes, verify_each=verify_each, instrumentations=instrumentations).run(module)
