"""Analyses: facts computed from an op, kept until a pass changes the op.

An ``Analysis`` is built from an op (``compute``). ``AnalysisManager.get`` computes at most once; after a pass the
manager drops everything but what the pass declares to preserve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Self, TypeVar, cast

from xdsl.ir import Operation


class Analysis(ABC):
    """Facts about one op; subclasses hold them as attributes."""

    @classmethod
    @abstractmethod
    def compute(cls, op: Operation) -> Self:
        """Analyse ``op``."""


AnalysisT = TypeVar("AnalysisT", bound=Analysis)


class AnalysisManager:
    """Results by (analysis class, op)."""

    def __init__(self) -> None:
        self._results: dict[tuple[type[Any], Operation], Analysis] = {}

    def get(self, analysis: type[AnalysisT], op: Operation) -> AnalysisT:
        """The facts, computed if they are not known."""
        key = (analysis, op)
        found = self._results.get(key)
        if found is None:
            found = self._results[key] = analysis.compute(op)
        return cast(AnalysisT, found)

    def cached(self, analysis: type[AnalysisT], op: Operation) -> AnalysisT | None:
        """The facts if they are known."""
        return cast("AnalysisT | None", self._results.get((analysis, op)))

    def invalidate(self, preserved: tuple[type[Analysis], ...] | Literal["all"] = ()) -> None:
        """Forget everything but the preserved analyses."""
        if preserved == "all":
            return
        self._results = {key: value for key, value in self._results.items() if key[0] in preserved}

    def invalidate_op(self, op: Operation) -> None:
        """Forget what is known about one op, for passes that ask again after changing it."""
        self._results = {key: value for key, value in self._results.items() if key[1] is not op}
