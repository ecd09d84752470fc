"""``arith.cmpi`` and ``arith.cmpf``: predicates by name."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.arith import CmpfOp, CmpiOp, FastMathFlagsAttr
from xdsl.dialects.builtin import ContainerType, IntegerAttr, TensorType, VectorType, i1, i64
from xdsl.ir import Attribute

from ..builder import Builder, Operand
from ..driver import Token, make_token
from ..fragment import Fragment, OpSyntax
from ..printer import Printer

INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def _predicate(b: Builder, names: tuple[str, ...], token: Token) -> IntegerAttr:
    word = token[1:-1] if token[0] == '"' else str(token)
    if word not in names:
        raise b.error(f"unknown predicate '{word}', expected one of {', '.join(names)}", token)
    return IntegerAttr(names.index(word), i64)


def _result_type(type_: Attribute) -> Attribute:
    if isinstance(type_, VectorType):
        return VectorType(i1, type_.shape, type_.scalable_dims)
    if isinstance(type_, TensorType):
        return TensorType(i1, type_.shape, type_.encoding)
    if isinstance(type_, ContainerType):
        raise ValueError(f"operands cannot have type {type_}")
    return i1


def build_cmpi(
    b: Builder, predicate: Token, left: Operand, right: Operand, attributes: dict[str, Attribute], type: Attribute
) -> CmpiOp:
    """``arith.cmpi slt, %a, %b : i32``."""
    return CmpiOp.create(
        operands=[b.resolve(left, type), b.resolve(right, type)],
        result_types=[_result_type(type)],
        properties={"predicate": _predicate(b, INTEGER_PREDICATES, predicate)},
        attributes=attributes,
    )


def build_cmpf(
    b: Builder,
    predicate: Token,
    left: Operand,
    right: Operand,
    flags: Attribute | None,
    attributes: dict[str, Attribute],
    type: Attribute,
) -> CmpfOp:
    """``arith.cmpf olt, %a, %b fastmath<nnan> : f32``."""
    return CmpfOp.create(
        operands=[b.resolve(left, type), b.resolve(right, type)],
        result_types=[_result_type(type)],
        properties={
            "predicate": _predicate(b, FLOAT_PREDICATES, predicate),
            "fastmath": FastMathFlagsAttr("none") if flags is None else flags,
        },
        attributes=attributes,
    )


def fastmath(b: Builder, body: Token) -> Attribute:
    """``fastmath<nnan,contract>``."""
    return b.attr_raw(make_token("#arith.fastmath" + body, body.pos))


def _print_compare(p: Printer, op: Any, names: tuple[str, ...], flags: str) -> None:
    value = op.predicate.value.data
    if op.operands[0].type != op.operands[1].type or _result_type(op.operands[0].type) != op.results[0].type:
        raise ValueError("types have no syntax")
    if not 0 <= value < len(names) or op.predicate.type != i64:
        raise ValueError("predicate has no name")
    p.print_string(f" {names[value]}, ")
    p.print_values(op.operands)
    p.print_string(flags)
    p.print_op_attributes(op.attributes)
    p.print_string(" : ")
    p.print_attribute(op.operands[0].type)


def print_cmpi(p: Printer, op: CmpiOp) -> None:
    """Prints what :func:`build_cmpi` builds."""
    _print_compare(p, op, INTEGER_PREDICATES, "")


def print_cmpf(p: Printer, op: CmpfOp) -> None:
    """Prints what :func:`build_cmpf` builds."""
    flags = op.properties["fastmath"]
    shown = "" if flags == FastMathFlagsAttr("none") else " " + p.attribute_text(flags).removeprefix("#arith.")
    _print_compare(p, op, FLOAT_PREDICATES, shown)


FRAGMENT = Fragment(
    ops=(
        OpSyntax(CmpiOp, 'enum_word "," operand "," operand attr_dict_opt ":" type', build_cmpi, print_cmpi),
        OpSyntax(
            CmpfOp,
            'enum_word "," operand "," operand arith_fastmath attr_dict_opt ":" type',
            build_cmpf,
            print_cmpf,
        ),
    ),
    rules="""
        arith_fastmath: -> nothing
            | "fastmath" angle_body -> arith_fastmath
    """,
    actions={"arith_fastmath": fastmath},
)
