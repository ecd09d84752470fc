"""The ``llvm`` dialect's arithmetic, comparisons, memory, calls and functions, as MLIR writes them.

What xDSL keeps in properties is either part of an operation's syntax, or left out where it has the value that the
syntax implies (:data:`IMPLIED`), or written in the attribute dictionary; nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue

from ..builder import Builder, Operand
from ..driver import Token
from ..fragment import Fragment, OpSyntax
from ..printer import Printer
from . import llvm_func

Attributes = dict[str, Attribute]

_NO_OVERFLOW = IntegerAttr(0, i32)
IMPLIED: Mapping[type[Operation], Mapping[str, Attribute]] = {
    llvm.LoadOp: {"ordering": IntegerAttr(0, i64)},
    llvm.StoreOp: {"ordering": IntegerAttr(0, i64)},
    llvm.FCmpOp: {"fastmathFlags": llvm.FastMathAttr(None)},
    llvm.GEPOp: {"noWrapFlags": _NO_OVERFLOW},
    llvm.CallOp: {
        "fastmathFlags": llvm.FastMathAttr(None),
        "CConv": llvm.CallingConventionAttr("ccc"),
        "op_bundle_sizes": DenseArrayBase.from_list(i32, ()),
        "TailCallKind": llvm.TailCallKindAttr(llvm.TailCallKind.NONE),
    },
}
"""Values of properties that stand for themselves when nothing is written."""
_TAIL_CALLS = tuple(kind.value for kind in llvm.TailCallKind)
_OVERFLOWING = (llvm.AddOp, llvm.SubOp, llvm.MulOp, llvm.ShlOp)
_OVERFLOW_WORDS = {"nsw": 1, "nuw": 2}
_BINARY = (llvm.AndOp, llvm.XOrOp, llvm.URemOp, llvm.SRemOp)
_EXACT = (llvm.UDivOp, llvm.SDivOp, llvm.LShrOp, llvm.AShrOp)
_PREDICATES: Mapping[type[Operation], tuple[str, ...]] = {
    llvm.ICmpOp: tuple(p.value for p in llvm.ALL_ICMP_FLAGS),
    llvm.FCmpOp: tuple(p.value for p in llvm.ALL_FCMP_FLAGS),
}


def _make(
    cls: type[Operation],
    operands: list[SSAValue],
    results: list[Attribute],
    properties: Attributes,
    written: Attributes,
    regions: list[Region] | None = None,
) -> Operation:
    """An operation; entries of the written dictionary that are properties of the class become properties."""
    known = cls.get_irdl_definition().properties  # type: ignore[attr-defined]
    made = {**IMPLIED.get(cls, {}), **properties}
    attributes: Attributes = {}
    for name, value in written.items():
        if name in known and name not in properties:
            made[name] = value
        else:
            attributes[name] = value
    return cls.create(
        operands=operands, result_types=results, properties=made, attributes=attributes, regions=regions or []
    )


def _unsaid(op: Operation, said: tuple[str, ...]) -> Attributes:
    """The attribute dictionary to print: what the syntax does not say otherwise."""
    implied = IMPLIED.get(type(op), {})
    if any(name not in op.properties for name in implied if name not in said):
        raise ValueError("a property without its usual value is absent")
    known = op.get_irdl_definition().properties  # type: ignore[attr-defined]
    left = {n: v for n, v in op.properties.items() if n not in said and implied.get(n) != v}
    if any(name in known for name in op.attributes):
        raise ValueError("an attribute bears the name of a property")
    return {**left, **op.attributes}


def _same_types(op: Operation) -> Attribute:
    types = [*op.operand_types, *op.result_types]
    if any(t != types[0] for t in types):
        raise ValueError("types differ")
    return types[0]


def _binary(cls: type[Operation]) -> OpSyntax:
    """``llvm.and %a, %b : i32``."""

    def build(b: Builder, left: Operand, right: Operand, written: Attributes, type: Attribute) -> Operation:
        return _make(cls, [b.resolve(left, type), b.resolve(right, type)], [type], {}, written)

    def print_(p: Printer, op: Operation) -> None:
        type_ = _same_types(op)
        p.print_string(" ")
        p.print_values(op.operands)
        p.print_op_attributes(_unsaid(op, ()))
        p.print_string(f" : {p.attribute_text(type_)}")

    return OpSyntax(cls, 'operand "," operand attr_dict_opt ":" type', build, print_)


def overflow_flags(b: Builder, words: list[Token]) -> int:
    """``overflow<nsw, nuw>``."""
    flags = 0
    for word in words:
        if word not in _OVERFLOW_WORDS:
            raise b.error(f"unknown overflow flag '{word}', expected nsw or nuw", word)
        flags |= _OVERFLOW_WORDS[word]
    return flags


def _overflowing(cls: type[Operation]) -> OpSyntax:
    """``llvm.add %a, %b overflow<nsw> : i32``."""

    def build(
        b: Builder, left: Operand, right: Operand, flags: int | None, written: Attributes, type: Attribute
    ) -> Operation:
        properties: Attributes = {"overflowFlags": IntegerAttr(flags or 0, i32)}
        return _make(cls, [b.resolve(left, type), b.resolve(right, type)], [type], properties, written)

    def print_(p: Printer, op: Any) -> None:
        type_ = _same_types(op)
        flags = op.properties["overflowFlags"]
        words = [word for word, bit in _OVERFLOW_WORDS.items() if flags.value.data & bit]
        if flags.type != i32 or not 0 <= flags.value.data <= 3:
            raise ValueError("overflow flags have no name")
        p.print_string(" ")
        p.print_values(op.operands)
        p.print_string(f" overflow<{', '.join(words)}>" if words else "")
        p.print_op_attributes(_unsaid(op, ("overflowFlags",)))
        p.print_string(f" : {p.attribute_text(type_)}")

    return OpSyntax(cls, 'operand "," operand llvm_overflow attr_dict_opt ":" type', build, print_)


def _exact(cls: type[Operation]) -> OpSyntax:
    """``llvm.udiv exact %a, %b : i32``."""

    def build(
        b: Builder, exact: bool | None, left: Operand, right: Operand, written: Attributes, type: Attribute
    ) -> Operation:
        properties: Attributes = {"isExact": UnitAttr()} if exact else {}
        return _make(cls, [b.resolve(left, type), b.resolve(right, type)], [type], properties, written)

    def print_(p: Printer, op: Operation) -> None:
        type_ = _same_types(op)
        p.print_string(" exact " if "isExact" in op.properties else " ")
        p.print_values(op.operands)
        p.print_op_attributes(_unsaid(op, ("isExact",)))
        p.print_string(f" : {p.attribute_text(type_)}")

    return OpSyntax(cls, 'llvm_exact operand "," operand attr_dict_opt ":" type', build, print_)


def _conversion(cls: type[Operation]) -> OpSyntax:
    """``llvm.sext %a : i8 to i32``."""

    def build(b: Builder, value: Operand, written: Attributes, source: Attribute, target: Attribute) -> Operation:
        return _make(cls, [b.resolve(value, source)], [target], {}, written)

    def print_(p: Printer, op: Operation) -> None:
        p.print_string(f" {p.value_name(op.operands[0])}")
        p.print_op_attributes(_unsaid(op, ()))
        p.print_string(f" : {p.types(op.operands)} to {p.types(op.results)}")

    return OpSyntax(cls, 'operand attr_dict_opt ":" type "to" type', build, print_)


def build_trunc(
    b: Builder, value: Operand, flags: int | None, written: Attributes, source: Attribute, target: Attribute
) -> Operation:
    """``llvm.trunc %a overflow<nsw> : i32 to i8``."""
    words = [word for word, bit in _OVERFLOW_WORDS.items() if (flags or 0) & bit]
    overflow = llvm.OverflowAttr([llvm.OverflowFlag(word) for word in words])
    return _make(llvm.TruncOp, [b.resolve(value, source)], [target], {"overflowFlags": overflow}, written)


def print_trunc(p: Printer, op: llvm.TruncOp) -> None:
    """Prints what :func:`build_trunc` builds."""
    if op.overflowFlags is None:
        raise ValueError("a property without its usual value is absent")
    words = [word for word in _OVERFLOW_WORDS if llvm.OverflowFlag(word) in op.overflowFlags.data]
    p.print_string(f" {p.value_name(op.arg)}" + (f" overflow<{', '.join(words)}>" if words else ""))
    p.print_op_attributes(_unsaid(op, ("overflowFlags",)))
    p.print_string(f" : {p.types(op.operands)} to {p.types(op.results)}")


def _compare(cls: type[Operation]) -> OpSyntax:
    """``llvm.icmp "slt" %a, %b : i32``."""
    names = _PREDICATES[cls]

    def build(
        b: Builder, word: Token, left: Operand, right: Operand, written: Attributes, type: Attribute
    ) -> Operation:
        if word[1:-1] not in names:
            raise b.error(f"unknown predicate '{word[1:-1]}', expected one of {', '.join(names)}", word)
        predicate = IntegerAttr(names.index(word[1:-1]), i64)
        operands = [b.resolve(left, type), b.resolve(right, type)]
        return _make(cls, operands, [_truth(type)], {"predicate": predicate}, written)

    def print_(p: Printer, op: Any) -> None:
        if op.lhs.type != op.rhs.type or op.res.type != _truth(op.lhs.type):
            raise ValueError("types differ")
        if op.predicate.type != i64 or not 0 <= op.predicate.value.data < len(names):
            raise ValueError("predicate has no name")
        p.print_string(f' "{names[op.predicate.value.data]}" ')
        p.print_values(op.operands)
        p.print_op_attributes(_unsaid(op, ("predicate",)))
        p.print_string(f" : {p.attribute_text(op.lhs.type)}")

    return OpSyntax(cls, 'STRING operand "," operand attr_dict_opt ":" type', build, print_)


def _truth(type_: Attribute) -> Attribute:
    return VectorType(i1, type_.shape, type_.scalable_dims) if isinstance(type_, VectorType) else i1


def build_constant(b: Builder, value: Attribute, written: Attributes, type: Attribute) -> Operation:
    """``llvm.mlir.constant(1 : i32) : i32``."""
    return _make(llvm.ConstantOp, [], [type], {"value": value}, written)


def print_constant(p: Printer, op: llvm.ConstantOp) -> None:
    """Prints what :func:`build_constant` builds."""
    p.print_string(f"({p.attribute_text(op.value)})")
    p.print_op_attributes(_unsaid(op, ("value",)))
    p.print_string(f" : {p.types(op.results)}")


def ordering(b: Builder, word: Token) -> IntegerAttr:
    """``atomic monotonic``."""
    found = next((n for n, name in llvm.ATOMIC_ORDERING_KEYWORDS.items() if name == word), None)
    if found is None:
        names = ", ".join(llvm.ATOMIC_ORDERING_KEYWORDS.values())
        raise b.error(f"unknown atomic ordering '{word}', expected one of {names}", word)
    return IntegerAttr(found, i64)


def build_load(
    b: Builder,
    pointer: Operand,
    order: IntegerAttr | None,
    written: Attributes,
    source: Attribute,
    type: Attribute,
) -> Operation:
    """``llvm.load %p atomic acquire {alignment = 4 : i64} : !llvm.ptr -> f32``."""
    properties: Attributes = {} if order is None else {"ordering": order}
    return _make(llvm.LoadOp, [b.resolve(pointer, source)], [type], properties, written)


def print_load(p: Printer, op: llvm.LoadOp) -> None:
    """Prints what :func:`build_load` builds."""
    word = llvm.ATOMIC_ORDERING_KEYWORDS.get(op.ordering.value.data) if op.ordering.type == i64 else None
    p.print_string(f" {p.value_name(op.ptr)}" + (f" atomic {word}" if word else ""))
    p.print_op_attributes(_unsaid(op, ("ordering",) if word else ()))
    p.print_string(f" : {p.types(op.operands)} -> {p.types(op.results)}")


def build_store(
    b: Builder,
    volatile: bool | None,
    value: Operand,
    pointer: Operand,
    written: Attributes,
    type: Attribute,
    target: Attribute,
) -> Operation:
    """``llvm.store volatile %v, %p : f32, !llvm.ptr``."""
    properties: Attributes = {"volatile_": UnitAttr()} if volatile else {}
    return _make(llvm.StoreOp, [b.resolve(value, type), b.resolve(pointer, target)], [], properties, written)


def print_store(p: Printer, op: llvm.StoreOp) -> None:
    """Prints what :func:`build_store` builds."""
    p.print_string(" " if op.volatile_ is None else " volatile ")
    p.print_values(op.operands)
    p.print_op_attributes(_unsaid(op, ("volatile_",)))
    p.print_string(f" : {p.types(op.operands)}")


def build_alloca(
    b: Builder, size: Operand, element: Attribute, written: Attributes, signature: tuple[list[Any], list[Any]]
) -> Operation:
    """``llvm.alloca %n x f32 : (i64) -> !llvm.ptr``."""
    operands = b.resolve_all([size], signature[0])
    return _make(llvm.AllocaOp, operands, signature[1], {"elem_type": element}, written)


def print_alloca(p: Printer, op: llvm.AllocaOp) -> None:
    """Prints what :func:`build_alloca` builds."""
    p.print_string(f" {p.value_name(op.size)} x {p.attribute_text(op.elem_type)}")
    p.print_op_attributes(_unsaid(op, ("elem_type",)))
    _print_signature(p, op)


def _print_signature(p: Printer, op: Operation) -> None:
    p.print_string(" : ")
    p.print_function_type(op.operand_types, op.result_types)


def build_gep(
    b: Builder,
    inbounds: bool | None,
    pointer: Operand,
    indices: list[Any],
    written: Attributes,
    signature: tuple[list[Any], list[Any]],
    element: Attribute,
) -> Operation:
    """``llvm.getelementptr inbounds %p[%i, 0] : (!llvm.ptr, i64) -> !llvm.ptr, f32``."""
    constants = [i if type(i) is int else llvm.GEP_USE_SSA_VAL for i in indices]
    operands = b.resolve_all([pointer, *(i for i in indices if type(i) is not int)], signature[0])
    properties: Attributes = {
        "rawConstantIndices": DenseArrayBase.from_list(i32, constants),
        "elem_type": element,
    }
    if inbounds:
        properties["inbounds"] = UnitAttr()
    return _make(llvm.GEPOp, operands, signature[1], properties, written)


def print_gep(p: Printer, op: llvm.GEPOp) -> None:
    """Prints what :func:`build_gep` builds."""
    dynamic = iter(op.ssa_indices)
    raw = op.rawConstantIndices.get_values()
    shown = [p.value_name(next(dynamic)) if i == llvm.GEP_USE_SSA_VAL else str(i) for i in raw]
    p.print_string(f" {'inbounds ' if op.inbounds else ''}{p.value_name(op.ptr)}[{', '.join(shown)}]")
    p.print_op_attributes(_unsaid(op, ("rawConstantIndices", "elem_type", "inbounds")))
    _print_signature(p, op)
    p.print_string(f", {p.attribute_text(op.elem_type)}")


def build_call(
    b: Builder,
    words: list[Token],
    callee: SymbolRefAttr | Operand,
    arguments: list[Operand],
    variadic: Attribute | None,
    written: Attributes,
    types: tuple[Attribute | None, tuple[list[Any], list[Any]]],
) -> Operation:
    """``llvm.call @f(%a) : (f32) -> f32``, or ``llvm.call %f(%a) : !llvm.ptr, (f32) -> f32``."""
    pointer_type, signature = types
    operands = b.resolve_all(arguments, signature[0])
    properties: Attributes = {} if variadic is None else {"var_callee_type": variadic}
    for word in words:
        if word in llvm.LLVM_CALLING_CONVS:
            properties["CConv"] = llvm.CallingConventionAttr(str(word))
        elif word in _TAIL_CALLS:
            properties["TailCallKind"] = llvm.TailCallKindAttr(llvm.TailCallKind(str(word)))
        else:
            raise b.error(f"unknown word '{word}', expected a calling convention or a kind of tail call", word)
    if isinstance(callee, SymbolRefAttr) == (pointer_type is not None):
        raise ValueError("an indirect call, and only that, names the type of the pointer")
    if isinstance(callee, SymbolRefAttr):
        properties["callee"] = callee
    elif pointer_type is not None:
        operands.insert(0, b.resolve(callee, pointer_type))
    properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(operands), 0])
    return _make(llvm.CallOp, operands, signature[1], properties, written)


def print_call(p: Printer, op: llvm.CallOp) -> None:
    """Prints what :func:`build_call` builds."""
    if op.op_bundle_operands:
        raise ValueError("operand bundles have no syntax")
    pointer, arguments = (None, op.args) if op.callee is not None else (op.args[0], op.args[1:])
    p.print_string(f" {p.attribute_text(op.callee) if op.callee else p.value_name(op.args[0])}(")
    p.print_values(arguments)
    p.print_string(")" if op.var_callee_type is None else f") vararg({p.attribute_text(op.var_callee_type)})")
    p.print_op_attributes(_unsaid(op, ("callee", "operandSegmentSizes", "var_callee_type")))
    p.print_string(" : ")
    p.print_string("" if pointer is None else f"{p.attribute_text(pointer.type)}, ")
    p.print_function_type([a.type for a in arguments], op.result_types)


_MEMORY = (
    OpSyntax(llvm.LoadOp, 'operand llvm_atomic attr_dict_opt ":" type "->" type', build_load, print_load),
    OpSyntax(
        llvm.StoreOp, 'llvm_volatile operand "," operand attr_dict_opt ":" type "," type', build_store, print_store
    ),
    OpSyntax(llvm.AllocaOp, 'operand "x" type attr_dict_opt ":" fn_sig', build_alloca, print_alloca),
    OpSyntax(
        llvm.GEPOp,
        'llvm_inbounds operand index_list attr_dict_opt ":" fn_sig "," type',
        build_gep,
        print_gep,
    ),
)

FRAGMENT = Fragment(
    ops=(
        *(_binary(op) for op in _BINARY),
        *(_overflowing(op) for op in _OVERFLOWING),
        *(_exact(op) for op in _EXACT),
        _conversion(llvm.SExtOp),
        OpSyntax(llvm.TruncOp, 'operand llvm_overflow attr_dict_opt ":" type "to" type', build_trunc, print_trunc),
        _compare(llvm.ICmpOp),
        _compare(llvm.FCmpOp),
        *_MEMORY,
        OpSyntax(llvm.ConstantOp, '"(" attr ")" attr_dict_opt ":" type', build_constant, print_constant),
        OpSyntax(
            llvm.CallOp,
            'llvm_words llvm_callee "(" operands_opt ")" llvm_vararg attr_dict_opt ":" llvm_call_types',
            build_call,
            print_call,
        ),
        llvm_func.SYNTAX,
    ),
    rules=llvm_func.RULES
    + """
        llvm_overflow: -> nothing
            | "overflow" "<" words ">" -> llvm_overflow
        llvm_exact: -> nothing
            | "exact" -> bool_true
        llvm_atomic: -> nothing
            | "atomic" BARE_ID -> llvm_ordering
        llvm_volatile: -> nothing
            | "volatile" -> bool_true
        llvm_vararg: -> nothing
            | "vararg" "(" type ")"
        llvm_inbounds: -> nothing
            | "inbounds" -> bool_true
        llvm_callee: symbol_ref
            | operand
        llvm_call_types: fn_sig -> llvm_direct
            | nonfn_type "," fn_sig -> pair
    """,
    actions={
        **llvm_func.ACTIONS,
        "llvm_overflow": overflow_flags,
        "llvm_ordering": ordering,
        "llvm_direct": lambda b, signature: (None, signature),
    },
)
