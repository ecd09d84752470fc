"""Formats of MLIR for operations that have no custom syntax in xDSL."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp

from tilewright.text import parse_module, print_module
from tilewright.text.formats import FormatSyntax
from tilewright.text.grammar import op_syntax_of
from tilewright.text.mlir_formats import FORMATS


def context() -> Context:
    """All of xDSL's dialects."""
    made = Context()
    for name, factory in get_all_dialects().items():
        made.register_dialect(name, factory)
    return made


def parse(text: str) -> ModuleOp:
    """A module of a text."""
    return parse_module(text, filename="t.ir", context=context())


def test_every_format_is_understood() -> None:
    loaded = context()
    for name in FORMATS:
        assert isinstance(op_syntax_of(loaded.get_op(name)), FormatSyntax), name


@pytest.mark.parametrize(
    "line",
    [
        "gpu.all_reduce add %f uniform {\n  } : (f32) -> f32",
        "gpu.barrier",
        "gpu.block_dim x",
        "gpu.global_id y {tag}",
        "gpu.lane_id",
        "gpu.module @kernels attributes {tag} {\n    gpu.barrier\n  }",
        "gpu.num_subgroups : index",
        "gpu.set_default_device %c",
        "gpu.return %c : i32",
        "gpu.terminator",
        "gpu.thread_id z",
        "gpu.yield %f : f32",
        "gpu.host_register %u : memref<*xf32>",
        "memref.cast %m : memref<8xf32> to memref<?xf32>",
        "memref.copy %m, %m : memref<8xf32> to memref<8xf32>",
        "memref.extract_aligned_pointer_as_index %m : memref<8xf32> -> index",
        "memref.memory_space_cast %m : memref<8xf32> to memref<8xf32, 1 : i32>",
        "memref.rank %m : memref<8xf32>",
    ],
)
def test_reads_back_in_both_forms(line: str) -> None:
    values = '  %f, %c, %m, %u = "test.op"() : () -> (f32, i32, memref<8xf32>, memref<*xf32>)\n'
    names = {"memref.copy", "gpu.barrier", "gpu.module", "gpu.set_default_device", "gpu.return", "gpu.terminator"}
    names |= {"gpu.yield", "gpu.host_register"}
    head = "" if line.split()[0] in names else "%r = "
    module = parse(f"builtin.module {{\n{values}  {head}{line}\n}}\n")
    text = print_module(module)
    assert f"  {head}{line}\n" in text
    assert print_module(parse(text)) == text
    assert print_module(parse(print_module(module, generic=True))) == text
