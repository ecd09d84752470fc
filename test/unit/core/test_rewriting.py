"""Rewriting and conversion: locations survive, endless patterns and leftovers are diagnostics, casts disappear."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnrealizedConversionCastOp, i32, i64
from xdsl.dialects.test import TestOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tilewright.core.context import make_context
from tilewright.core.conversion import (
    ConversionPattern,
    ConversionRewriter,
    ConversionTarget,
    TypeConverter,
    apply_full_conversion,
    apply_partial_conversion,
)
from tilewright.core.diagnostics import DiagnosticError, name_location, source_names
from tilewright.core.rewriting import apply_patterns
from tilewright.core.verifier import verify
from tilewright.text import parse_module


class MulToShift(RewritePattern):
    """muli(x, x) = addi(x, x), for tests"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.MuliOp, rewriter: PatternRewriter) -> None:
        first = arith.AddiOp(op.lhs, op.rhs)
        rewriter.replace(op, [first, arith.SubiOp(first.result, op.lhs)])


class Flip(RewritePattern):
    """Endless: addi(a, b) -> addi(b, a)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, arith.AddiOp(op.rhs, op.lhs))


class Grow(RewritePattern):
    """Endless: makes one more op of its kind each time."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        rewriter.insert(arith.AddiOp(op.lhs, op.rhs))


class Fails(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        raise KeyError("x")


TEXT = """
func.func @f(%a: i32, %b: i32) -> i32 {
  %dead = arith.addi %a, %b : i32
  %x = arith.muli %a, %b : i32
  func.return %x : i32
}
"""


def module(text: str = TEXT) -> ModuleOp:
    return parse_module(text, filename="t.ir", context=make_context())


def names(op: Operation) -> list[str]:
    return [inner.name for inner in op.walk() if inner is not op]


def test_new_ops_take_the_location() -> None:
    op = module()
    mul = next(o for o in op.walk() if o.name == "arith.muli")
    mul.location = name_location("conv1", mul.location)
    assert apply_patterns(op, [MulToShift()])
    verify(op)
    assert names(op) == ["func.func", "arith.addi", "arith.subi", "func.return"]
    for new in op.walk():
        if new.name in ("arith.addi", "arith.subi"):
            assert source_names(new.location) == ("conv1",)
            assert new.location.location.line.data == 4
    assert not apply_patterns(op, [MulToShift()])


@pytest.mark.parametrize("pattern", [Flip(), Grow()])
def test_endless_patterns_are_diagnosed(pattern: RewritePattern) -> None:
    with pytest.raises(DiagnosticError, match=rf"does not reach a fixed point, .*{type(pattern).__name__}"):
        apply_patterns(module(), [pattern], erase_dead=False)


def test_once_per_op_without_recursion() -> None:
    op = module()
    assert apply_patterns(op, [Grow()], recursive=False, erase_dead=False)
    assert names(op).count("arith.addi") == 2


def test_failing_patterns_name_themselves() -> None:
    with pytest.raises(KeyError) as caught:
        apply_patterns(module(), [Fails()], erase_dead=False)
    assert "while Fails was applied to" in caught.value.__notes__[0]


# Conversion: i32 arithmetic to i64 test ops.


class WidenAdd(ConversionPattern):
    root = ("arith.addi", "arith.muli")

    def rewrite(self, op: Operation, operands: Sequence[SSAValue], rewriter: ConversionRewriter) -> None:
        assert all(v.type == i64 for v in operands)
        rewriter.replace(op, TestOp.create(operands=operands, result_types=[i64]))


class WidenFunction(ConversionPattern):
    root = "func.func"

    def rewrite(self, op: Operation, operands: Sequence[SSAValue], rewriter: ConversionRewriter) -> None:
        from xdsl.dialects.builtin import FunctionType

        op.properties["function_type"] = FunctionType.from_lists([i64, i64], [i64])
        rewriter.convert_block_args(op.regions[0].blocks[0])
        rewriter.notify_op_modified(op)


class WidenReturn(ConversionPattern):
    root = "func.return"

    def rewrite(self, op: Operation, operands: Sequence[SSAValue], rewriter: ConversionRewriter) -> None:
        op.operands = operands
        rewriter.notify_op_modified(op)


def widen() -> TypeConverter:
    return TypeConverter().add_conversion(lambda t: t).add_conversion(lambda t: i64 if t == i32 else None)


def target(converter: TypeConverter) -> ConversionTarget:
    result = ConversionTarget().add_illegal_dialect("arith").add_legal_dialect("test")
    result.add_dynamic_op("func.return", converter.is_legal_op)
    return result.add_dynamic_op("func.func", converter.is_legal_op)


def test_full_conversion_leaves_no_cast() -> None:
    op, converter = module(), widen()
    apply_full_conversion(op, target(converter), [WidenAdd(), WidenFunction(), WidenReturn()], converter)
    verify(op)
    assert names(op) == ["func.func", "test.op", "test.op", "func.return"]
    assert all(v.type == i64 for o in op.walk() for v in o.operands)
    assert all(o.location.line.data in (3, 4) for o in op.walk() if o.name == "test.op")


def test_what_is_left_illegal_is_named() -> None:
    op, converter = module(), widen()
    with pytest.raises(DiagnosticError, match=r"t\.ir:4:8: error: 'arith.muli' op is left illegal"):
        adds = WidenAdd()
        adds.root = "arith.addi"  # type: ignore[misc]
        apply_partial_conversion(op, target(converter), [adds, WidenFunction(), WidenReturn()], converter)


def test_unresolved_casts_are_named_and_can_be_materialised() -> None:
    converter = widen()
    with pytest.raises(
        DiagnosticError, match=r"'func\.return' op needs a value of type i32, but the conversion made i64"
    ):
        apply_partial_conversion(module(), ConversionTarget().add_illegal_dialect("arith"), [WidenAdd()], converter)

    def convert(rewriter: ConversionRewriter, value: SSAValue, type: object) -> SSAValue:
        new = arith.TruncIOp(value, i32) if type == i32 else arith.ExtSIOp(value, i64)
        rewriter.insert(new)
        return new.result

    op = module()
    target = ConversionTarget().add_illegal_op("arith.addi", "arith.muli")
    apply_partial_conversion(op, target, [WidenAdd()], widen().add_materialization(convert))
    verify(op)
    assert "arith.trunci" in names(op) and "arith.extsi" in names(op)
    assert not any(isinstance(o, UnrealizedConversionCastOp) for o in op.walk())


def test_full_conversion_rejects_what_nobody_spoke_of() -> None:
    op = module('"test.op"() : () -> ()')
    with pytest.raises(DiagnosticError, match=r"'test\.op' op is left illegal"):
        apply_full_conversion(op, ConversionTarget(), [])
    apply_partial_conversion(op, ConversionTarget(), [])


def test_later_rules_and_ops_win() -> None:
    op = TestOp.create()
    target = ConversionTarget().add_illegal_dialect("test")
    assert target.is_legal(op) is False
    assert target.add_dynamic_op("test.op", lambda o: "ok" in o.attributes).is_legal(op) is False
    op.attributes["ok"] = IntegerAttr(1, i32)
    assert target.is_legal(op) is True


def test_erased_op_with_regions_leaves_nothing_to_visit() -> None:
    text = """
    func.func @f(%c: i1, %x: i32) {
      %0 = scf.if %c -> (i32) {
        scf.yield %x : i32
      } else {
        %1 = arith.addi %x, %x : i32
        %2 = arith.addi %x, %x : i32
        scf.yield %2 : i32
      }
      func.return
    }"""
    module = parse_module(text, context=make_context())
    apply_patterns(module, [MulToShift()])
    assert [op.name for op in module.walk()] == ["builtin.module", "func.func", "func.return"]
