"""Operations printed by their own xDSL methods: pretty where those say everything, else generic; never with a loss."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp

from tilewright.text import parse_module, print_module

VALUES = """\
  %i, %j = "test.op"() : () -> (index, index)
  %f = "test.op"() : () -> f32
  %m = "test.op"() : () -> memref<8x8xf32>
  %t = "test.op"() : () -> tensor<8x8xf32>
  %v = "test.op"() : () -> vector<4xf32>
  %s = "test.op"() : () -> !llvm.struct<(i32, f32)>
  %c = "test.op"() : () -> i32
"""


def parse(text: str) -> ModuleOp:
    """A module, with all of xDSL's dialects."""
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return parse_module(text, filename="t.ir", context=context)


def printed(line: str) -> str:
    """Text of a module with one more line; it reads back to the same in both forms."""
    module = parse(VALUES + line)
    text = print_module(module)
    assert print_module(parse(text)) == text
    generic = print_module(module, generic=True)
    assert print_module(parse(text), generic=True) == generic
    assert print_module(parse(generic)) == text
    return text


@pytest.mark.parametrize(
    "line",
    [
        "%r = affine.apply affine_map<(d0)[s0] -> (d0 + s0)> (%i)[%j]",
        "%r = affine.min affine_map<(d0) -> (d0, 4)> (%i)",
        "affine.for %k = 0 to 8 step 2 {\n  }",
        "%r = affine.for %k = %i to %j iter_args(%a = %f) -> (f32) {\n    affine.yield %a : f32\n  } {tag}",
        "%r = affine.load %m[%i, %j + 1] : memref<8x8xf32>",
        "affine.store %f, %m[%i, %j] : memref<8x8xf32>",
        "%r = affine.vector_load %m[%i, %j] : memref<8x8xf32>, vector<4xf32>",
        "affine.vector_store %v, %m[%i, %j] : memref<8x8xf32>, vector<4xf32>",
        "%r = llvm.extractvalue %s[1] {tag} : !llvm.struct<(i32, f32)>",
        "%r = llvm.insertvalue %f, %s[1] : !llvm.struct<(i32, f32)>",
        '%r = llvm.inline_asm has_side_effects "nop", "=r,r" %c : (i32) -> i32',
        "scf.parallel (%k, %l) = (%i, %i) to (%j, %j) step (%i, %i) {\n    %0 = arith.addi %k, %l : index\n  } {tag}",
        "%r = scf.parallel (%k) = (%i) to (%j) step (%i) init (%f) -> (f32) {\n    scf.reduce(%f : f32) {\n"
        "    ^bb0(%a: f32, %b: f32):\n      scf.reduce.return %a : f32\n    }\n  }",
        'memref.global "private" constant @g : memref<2xf32> = dense<[1.000000e+00, 2.000000e+00]> '
        "{alignment = 64 : i64}",
        'memref.global "public" @g : memref<2x2xi32, 1 : i32> = uninitialized',
        'memref.global "public" @g : memref<2xi32> = dense<1> : vector<2xi32>',
        "%r = scf.execute_region -> (f32) {\n    scf.yield %f : f32\n  }",
        "%r = scf.index_switch %i -> f32\n  case 2 {\n    scf.yield %f : f32\n  }\n"
        "  default {\n    scf.yield %f : f32\n  }",
        "%r = linalg.add ins(%t, %t : tensor<8x8xf32>, tensor<8x8xf32>) outs(%t : tensor<8x8xf32>) attrs = {tag} -> "
        "tensor<8x8xf32>",
        "linalg.fill ins(%f : f32) outs(%m : memref<8x8xf32>)",
        "%r = linalg.matmul ins(%t, %t : tensor<8x8xf32>, tensor<8x8xf32>) outs(%t : tensor<8x8xf32>) -> "
        "tensor<8x8xf32>",
        "%r = tensor.empty(%i) : tensor<?x4xf32>",
        "%r = tensor.expand_shape %t [[0 : i64, 1 : i64], [2 : i64]] output_shape [2, 4, 8] : "
        "tensor<8x8xf32> into tensor<2x4x8xf32>",
        "%r = vector.transfer_read %m[%i, %j], %f : memref<8x8xf32>, vector<4xf32>",
        "vector.transfer_write %v, %m[%i, %j] {in_bounds = [true]} : vector<4xf32>, memref<8x8xf32>",
        'pdl.pattern @p : benefit(1) {\n    %o = pdl.operation "test.op"\n'
        "    %x = pdl.results 0 of %o -> !pdl.value\n  }",
    ],
)
def test_pretty(line: str) -> None:
    op = next(word for word in line.replace("(", " ").split() if "." in word and word[0].isalpha())
    text = printed(line)
    assert f'"{op}"' not in text and op in text


@pytest.mark.parametrize(
    "line",
    [
        # A body that is not the one of the name.
        '"linalg.add"(%m, %m, %m) <{operandSegmentSizes = array<i32: 2, 1>}> ({\n  ^bb0(%a: f32, %b: f32, %d: f32):\n'
        '    "linalg.yield"(%a) : (f32) -> ()\n  }) : (memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>) -> ()',
        # Attributes that the method does not print.
        '%r = "affine.load"(%m, %i, %j) <{map = affine_map<()[s0, s1] -> (s0, s1)>}> {tag} : '
        "(memref<8x8xf32>, index, index) -> f32",
        # One value for two symbols, which names cannot tell from one symbol used twice.
        '%r = "affine.load"(%m, %i, %i) <{map = affine_map<()[s0, s1] -> (s0, s1)>}> : '
        "(memref<8x8xf32>, index, index) -> f32",
        # Symbols in another order than in the text.
        '%r = "affine.load"(%m, %i, %j) <{map = affine_map<()[s0, s1] -> (s1, s0)>}> : '
        "(memref<8x8xf32>, index, index) -> f32",
        # A terminator that would not be printed, and has something to say.
        '"scf.execute_region"() ({\n    "scf.yield"() {tag} : () -> ()\n  }) : () -> ()',
        '%r = "tensor.empty"(%i) {tag} : (index) -> tensor<?x4xf32>',
    ],
)
def test_generic_where_something_would_be_lost(line: str) -> None:
    op = line.split('"')[1]
    assert f'"{op}"' in printed(line)


def test_contents_of_resources_are_printed_back() -> None:
    text = """\
builtin.module {
  %0 = arith.constant dense_resource<text_test_a> : tensor<1xf32>
}

{-#
  dialect_resources: {
    builtin: {
      text_test_a: "0x040000000000803F"
    }
  }
#-}
"""
    assert print_module(parse(text)) == text
    assert "{-#" not in print_module(parse('"test.op"() {a = dense_resource<text_test_b> : tensor<1xf32>} : () -> ()'))
