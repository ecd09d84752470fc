"""Running one kernel of the loop dialect on arrays, at any stage of lowering, in the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from ..core.attributes import IndexMapAttr, memref_shape_exprs
from ..core.context import TilewrightContext
from ..interp.arith import numpy_dtype
from ..interp.interpreter import Interpreter
from ..interp.loop import allocate
from ..interp.packing import pack
from ..passes.loop.index import kernel_symbols

Array = npt.NDArray[Any]


def run_kernel(
    kernel: FuncOp, inputs: Sequence[Array], context: TilewrightContext, symbols: Mapping[str, int] | None = None
) -> list[Array]:
    """The outputs of ``kernel`` for logical ``inputs``: packs constants as the kernel's ``packed`` says,
    allocates outputs and workspaces with a pattern that shows what was not written."""
    symbols = dict(symbols or {})
    args = list(kernel.body.block.args)[: len(kernel.body.block.args) - len(kernel_symbols(kernel))]
    maps = packing_maps(kernel)
    values: list[Any] = []
    for number, arg in enumerate(args):
        shape = [e.evaluate(symbols) for e in memref_shape_exprs(arg.type)]
        if number >= len(inputs):
            values.append(allocate(shape, numpy_dtype(arg.type)))
        elif number in maps:
            values.append(pack(inputs[number], maps[number], shape))
        else:
            values.append(inputs[number].copy())
    values += [symbols[name] for name in kernel_symbols(kernel)]
    clone = kernel.clone()
    Interpreter(ModuleOp([clone]), context).call(clone.sym_name.data, values)
    count = kernel.attributes["num_outputs"]
    assert isinstance(count, IntegerAttr)
    return list(values[len(inputs) : len(inputs) + count.value.data])


def packing_maps(kernel: FuncOp) -> dict[int, IndexMapAttr]:
    """Argument number -> the map by which the constant is packed."""
    found: dict[int, IndexMapAttr] = {}
    packed = kernel.attributes.get("packed")
    for entry in packed if isinstance(packed, ArrayAttr) else ():
        number, map_ = entry.data
        found[number.value.data] = map_
    return found


def random_inputs(kernel: FuncOp, seed: int, symbols: Mapping[str, int] | None = None) -> list[Array]:
    """Small integers as floats for all inputs: sums are exact in any order."""
    rng = np.random.default_rng(seed)
    count = kernel.attributes["num_inputs"]
    assert isinstance(count, IntegerAttr)
    shapes = [memref_shape_exprs(a.type) for a in kernel.body.block.args[: count.value.data]]
    arrays = [rng.integers(-3, 4, [e.evaluate(dict(symbols or {})) for e in shape]) for shape in shapes]
    return [a.astype(np.float32) for a in arrays]


__all__ = ["packing_maps", "random_inputs", "run_kernel"]
