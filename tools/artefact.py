"""Writing ``model.twm``: code sections, manifest and weights of one compiled module.

The container's format is ``runtime/container.py``'s; this module knows what goes in. What a target
contributes is a ``Code``; everything else comes from the host programs in the module, which are the same
for every target. The bytes depend on the module, the weights and the target only, so two compiles of one
model give identical files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ..core.attributes import memref_shape_exprs
from ..core.context import TilewrightContext
from ..interp.arith import numpy_dtype
from ..passes.convert.graph_to_vm import input_names, is_entry, output_names
from ..passes.vm.weights import WeightSection
from ..runtime.container import PAGE, ArtefactWriter
from ..targets.base import Code


def entries(module: ModuleOp) -> list[FuncOp]:
    """The public functions, in order."""
    return [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks and is_entry(op)]


def write_artefact(
    path: str | os.PathLike[str],
    module: ModuleOp,
    context: TilewrightContext,
    code: Code,
    weights: WeightSection,
    producer: str,
) -> None:
    """Write a module of planned host programs and its code; the file appears when it is complete."""
    manifest = {
        "producer": producer,
        "context_version": 1,
        "target": code.target,
        "entries": [_entry(function, code.entry_symbols) for function in entries(module)],
        "errors": code.messages,
        "kernels": code.kernels,
        "weights": [
            {
                "name": weight.label,
                "offset": weight.offset,
                "size": weight.size,
                "dtype": _dtype(weight.op.result.type),
                "shape": weight.shape,
            }
            for weight in weights.weights
        ],
    }
    with ArtefactWriter(path) as writer:
        for section in code.sections:
            writer.add(section.name, section.kind, [section.data])
        if weights.weights:
            writer.add("weights", "weights", weights.chunks(module, context), align=PAGE)
        writer.finish(manifest)


def _entry(function: FuncOp, symbols: dict[str, str]) -> dict[str, Any]:
    name, type = function.sym_name.data, function.function_type
    return {
        "name": name,
        "symbol": symbols[name],
        "inputs": list(_tensors(input_names(function), list(type.inputs))),
        "outputs": list(_tensors(output_names(function), list(type.outputs))),
    }


def _tensors(names: Sequence[str], types: Sequence[Attribute]) -> Iterator[dict[str, Any]]:
    for name, type in zip(names, types):
        shape = [e.const_value() if e.is_const() else str(e) for e in memref_shape_exprs(type)]
        yield {"name": name, "dtype": _dtype(type), "shape": shape}


def _dtype(type: Attribute) -> str:
    assert isinstance(type, MemRefType)
    return numpy_dtype(type).name
