"""Evaluation of nodes whose inputs are small constants, so that shapes computed in the model are known to the
importer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects.graph.structure import ConstantOp
from ...interp.interpreter import Frame, Interpreter
from .entries import Entry
from .node import Node, Result

FOLD_LIMIT = 4096
"""Results of more elements stay ops; folding weights is the business of a pass."""


def fold_node(node: Node, results: Sequence[Result]) -> list[Entry] | None:
    """The constant results of a node, or ``None`` when an input is not constant or a result is large."""
    if not node.ops or not _small_constants(node, results):
        return None
    from xdsl.dialects.builtin import ModuleOp

    frame = Frame(Interpreter(ModuleOp([]), node.importer.model.context))
    for op in node.ops:
        operands = [_operand(frame, value) for value in op.operands]
        for result, value in zip(op.results, frame.run_op(op, operands), strict=True):
            frame.values[result] = value
    folded = [_fold_result(frame, r, name) for r, name in zip(results, _names(node, len(results)))]
    for op in reversed(node.ops):
        op.drop_all_references()
    return folded


def _names(node: Node, count: int) -> list[str]:
    return [*node.proto.output, *[""] * count][:count]


def _small_constants(node: Node, results: Sequence[Result]) -> bool:
    known: set[SSAValue] = set()
    for op in node.ops:
        if op.regions or not all(v in known or _is_constant(v.owner) for v in op.operands):
            return False
        known.update(op.results)
    for result in known:
        shape: tuple[int, ...] = result.type.get_shape()  # type: ignore[attr-defined]
        if any(d < 0 for d in shape) or int(np.prod(shape, dtype=object)) > FOLD_LIMIT:
            return False
    # A rule may hand an input through: then its result is no constant.
    if not all(r in known or _is_constant(r.owner) for r in results if isinstance(r, SSAValue)):
        return False
    return not any(op.name in ("graph.dims", "graph.nonzero", "graph.compress") for op in node.ops)


def _is_constant(owner: Any) -> bool:
    return isinstance(owner, ConstantOp)


def _operand(frame: Frame, value: SSAValue) -> Any:
    if value not in frame.values:
        owner = value.owner
        assert isinstance(owner, Operation)
        frame.values[value] = frame.run_op(owner, [])[0]
    return frame.values[value]


def _fold_result(frame: Frame, result: Result, name: str) -> Entry:
    if isinstance(result, Entry):
        return result
    if isinstance(result, SSAValue):
        return Entry(array=np.asarray(_operand(frame, result)), name=name)
    return Entry(array=result, name=name)
