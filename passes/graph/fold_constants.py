"""Constant folding: what depends on constants alone is computed when the program is compiled.

Small results are evaluated at once, by the reference interpreter, and written out. Large ones are weights: they
become recipes, IR over the original weights that is evaluated when the artefact is written, so that no pass copies or
holds weights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...core.context import TilewrightContext
from ...core.diagnostics import DiagnosticError
from ...core.passes import ModulePass
from ...dialects.graph.base import GraphOp, tensor_of
from ...dialects.graph.indexing import INDEXING_OPS
from ...dialects.graph.structure import ConstantOp, RecipeOp, YieldOp
from ...interp.interpreter import Frame, Interpreter
from .constants import SMALL, dense_constant, element_count, is_foldable

Array = npt.NDArray[Any]

GROWTH = 2
"""A large result is folded only if it has at most this many times the elements of the constants that it is made
from.
"""


@dataclass(frozen=True)
class GraphFoldConstantsPass(ModulePass):
    """Evaluates operations on constants.

    Before::

        %0 = graph.add %c1, %c2 : ... -> tensor<4xf32>
        %1 = graph.mul %w, %s : ... -> tensor<64x3x7x7xf32>

    After::

        graph.recipe @w_mul : tensor<64x3x7x7xf32> { ... graph.mul ... }

        %0 = graph.constant dense<[...]> : tensor<4xf32>
        %1 = graph.constant @w_mul : tensor<64x3x7x7xf32>

    Not folded: large results of small constants (broadcasts, index ranges), which are cheaper to compute than to
    load, and what the interpreter refuses (an index out of range), which stays an error of the running program.
    """

    name = "graph-fold-constants"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        folder = _Folder(op, ctx)
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                for nested in function.walk():
                    if isinstance(nested, GraphOp) and not isinstance(nested, ConstantOp) and is_foldable(nested):
                        folder.visit(nested)
        folder.finish()


class _Folder:
    """Finds what depends on constants alone, and replaces the part of it that the rest of the program uses."""

    def __init__(self, module: ModuleOp, context: TilewrightContext) -> None:
        self.module = module
        self.frame = Frame(Interpreter(module, context))
        self.names = _symbol_names(module)
        self.derived: dict[Operation, int] = {}
        """Operations that can be folded, with the number of elements of the constants that they are made from."""

    def visit(self, op: GraphOp) -> None:
        """Adds an operation to ``derived`` if it can be folded; operands were visited before."""
        sources = [self._source_elements(value) for value in op.operands]
        if any(count is None for count in sources):
            return
        size, known = max(element_count(result) or 0 for result in op.results), sum(count or 0 for count in sources)
        if size <= SMALL:
            self.derived[op] = size
        elif len(op.results) == 1 and size <= GROWTH * known and not isinstance(op, INDEXING_OPS):
            self.derived[op] = known

    def _source_elements(self, value: SSAValue) -> int | None:
        if isinstance(value.owner, ConstantOp):
            return element_count(value)
        return self.derived.get(value.owner) if isinstance(value.owner, Operation) else None

    def finish(self) -> None:
        """Replaces derived values that have other than derived users, and erases what is unused then."""
        for op in self.derived:
            if any(use.operation not in self.derived for result in op.results for use in result.uses):
                if all((element_count(result) or 0) <= SMALL for result in op.results):
                    self._evaluate(op)
                else:
                    self._make_recipe(op)
        for op in reversed(self.derived):
            if all(result.first_use is None for result in op.results):
                Rewriter.erase_op(op)

    def _evaluate(self, op: Operation) -> None:
        try:
            with np.errstate(all="ignore"):
                arrays = self._results(op, {})
        except DiagnosticError:
            return
        for array, result in zip(arrays, op.results):
            self._replace(result, dense_constant(array, tensor_of(result).element_type))

    def _replace(self, value: SSAValue, constant: ConstantOp) -> None:
        assert isinstance(value, OpResult)
        constant.location, constant.result.name_hint = value.op.location, value.name_hint
        Rewriter.insert_op(constant, InsertPoint.before(value.op))
        value.replace_all_uses_with(constant.result)

    def _results(self, op: Operation, known: dict[Operation, Sequence[Array]]) -> Sequence[Array]:
        """Evaluates an operation and what it depends on."""
        if op not in known:
            operands = []
            for value in op.operands:
                assert isinstance(value, OpResult)
                operands.append(self._results(value.op, known)[value.index])
            known[op] = [np.asarray(result) for result in self.frame.run_op(op, operands)]
        return known[op]

    def _make_recipe(self, root: Operation) -> None:
        """Copies what ``root`` is made from into a recipe, and puts a constant in its place."""
        block = Block()
        copies: dict[SSAValue, SSAValue] = {}
        needed = _slice(root)
        for op in needed:
            copy = op.clone(copies)
            block.add_op(copy)
            copies.update(zip(op.results, copy.results))
        result = root.results[0]
        block.add_op(YieldOp(copies[result]))
        name = self._unused_name(needed)
        recipe = RecipeOp(name, result.type, Region(block))
        recipe.location = root.location
        Rewriter.insert_op(recipe, InsertPoint.at_end(self.module.body.block))
        self._replace(result, ConstantOp(name, result.type))

    def _unused_name(self, needed: Sequence[Operation]) -> str:
        """A name after the first weight and the last operation of a recipe."""
        weights = (op.resource or op.recipe for op in needed if isinstance(op, ConstantOp))
        weight = next((name for name in weights if name is not None), "w")
        base = re.sub(r"\W", "_", f"{weight}_{needed[-1].name.removeprefix('graph.')}")
        name, count = base, 0
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        return name


def _slice(root: Operation) -> list[Operation]:
    """The operations that ``root`` depends on and itself, operands before their users."""
    order: dict[Operation, None] = {}
    stack = [(root, False)]
    while stack:
        op, ready = stack.pop()
        if op in order:
            continue
        if ready:
            order[op] = None
            continue
        stack.append((op, True))
        stack.extend((value.owner, False) for value in reversed(op.operands) if isinstance(value.owner, Operation))
    return list(order)


def _symbol_names(module: ModuleOp) -> set[str]:
    names = (op.properties.get("sym_name") for op in module.body.block.ops)
    return {name.data for name in names if isinstance(name, StringAttr)}
