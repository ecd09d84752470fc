"""Dead code: operations whose results nobody needs, and recipes that nothing names."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import region_dce

from ...core.context import TilewrightContext
from ...core.passes import ModulePass
from ...dialects.graph.structure import ConstantOp, RecipeOp


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Erases what has no effect and no use.

    Before::

        graph.recipe @w_mul : ... { ... }
        %0 = graph.constant @w_mul : ...
        %1 = graph.exp %x ...
        func.return %x

    After::

        func.return %x

    Functions are kept: who calls them is not known here. Works at every level; what is dead follows from traits.
    """

    name = "dce"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        # What a dead op with regions uses dies in the round after it.
        while region_dce(op.body):
            pass
        _erase_unnamed_recipes(op)


def _erase_unnamed_recipes(module: ModuleOp) -> None:
    recipes = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, RecipeOp)}
    if not recipes:
        return
    pending = [name for op in module.body.block.ops if not isinstance(op, RecipeOp) for name in recipe_names(op)]
    live: set[str] = set()
    while pending:
        name = pending.pop()
        if name in recipes and name not in live:
            live.add(name)
            pending.extend(recipe_names(recipes[name]))
    for name, recipe in recipes.items():
        if name not in live:
            Rewriter.erase_op(recipe)


def recipe_names(op: Operation) -> list[str]:
    """The recipes that an operation and what is inside it name, with repetitions."""
    constants = (nested for nested in op.walk() if isinstance(nested, ConstantOp))
    return [constant.recipe for constant in constants if constant.recipe is not None]
