"""A compiled module that still shows its code: parts in a target's final dialect, as nested modules behind the rest.

A dump of a target's own level is such a module; compiling it again takes the parts as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter

from ..passes.convert.graph_to_vm import is_entry


def lowered_parts(module: ModuleOp) -> dict[str, ModuleOp]:
    """The nested modules of code that ``with_lowered_parts`` put into a module."""
    found: dict[str, ModuleOp] = {}
    for op in module.ops:
        if isinstance(op, ModuleOp) and op.sym_name is not None:
            found[op.sym_name.data] = op
    return found


def with_lowered_parts(module: ModuleOp, parts: Mapping[str, ModuleOp]) -> ModuleOp:
    """A copy of the module whose kernels are declarations, with their code in nested modules behind them."""
    copy = module.clone()
    for op in list(copy.ops):
        if isinstance(op, ModuleOp):
            Rewriter.erase_op(op)
        elif isinstance(op, FuncOp) and op.body.blocks and not is_entry(op):
            op.body.detach_block(op.body.block).erase()
    for name, part in parts.items():
        nested = part.clone()
        nested.properties["sym_name"] = StringAttr(name)
        copy.body.block.add_op(nested)
    return copy
