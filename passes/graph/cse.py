"""Common subexpressions: equal pure operations are computed once, equal recipes evaluated once."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import FlatSymbolRefAttr, ModuleOp
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter
from xdsl.transforms.common_subexpression_elimination import cse

from ...core.context import TilewrightContext
from ...core.passes import ModulePass
from ...dialects.graph.structure import ConstantOp, RecipeOp


@dataclass(frozen=True)
class CsePass(ModulePass):
    """Replaces an operation by an equal one that dominates it.

    Before::

        %0 = graph.exp %x ...
        %1 = graph.exp %x ...
        %2 = graph.add %0, %1 ...

    After::

        %0 = graph.exp %x ...
        %2 = graph.add %0, %0 ...

    Constants and whole kernels count; locations do not. Operations are equal when name, attributes, operands and
    regions are. Of equal recipes the first stays, and constants name it. Works at every level.
    """

    name = "cse"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        while _merge_recipes(op):
            pass
        cse(op)


def _merge_recipes(module: ModuleOp) -> bool:
    """One round: recipes that became equal by it are for the next."""
    kept: dict[tuple[Attribute, tuple[str, ...]], list[RecipeOp]] = {}
    renamed: dict[str, str] = {}
    for recipe in [op for op in module.body.block.ops if isinstance(op, RecipeOp)]:
        alike = kept.setdefault((recipe.type, tuple(op.name for op in recipe.body.block.ops)), [])
        twin = next((other for other in alike if recipe.body.is_structurally_equivalent(other.body)), None)
        if twin is None:
            alike.append(recipe)
        else:
            renamed[recipe.sym_name.data] = twin.sym_name.data
            Rewriter.erase_op(recipe)
    for op in module.walk() if renamed else ():
        if isinstance(op, ConstantOp) and op.recipe in renamed:
            op.properties["value"] = FlatSymbolRefAttr(renamed[op.recipe])
    return bool(renamed)
