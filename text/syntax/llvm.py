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
    StringAttr,
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

Attributes = dict[str, Attribute]

_NO_OVERFLOW = IntegerAttr(0, i32)
IMPLIED: Mapping[type[Operation], Mapping[str, Attribute]] = {
    llvm.TruncOp: {"overflowFlags": llvm.OverflowAttr(None)},
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
    llvm.FuncOp: {"CConv": llvm.CallingConventionAttr("ccc"), "visibility_": IntegerAttr(0, i64)},
}
"""Values of properties that stand for themselves when nothing is written."""
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


def build_load(b: Builder, pointer: Operand, written: Attributes, source: Attribute, type: Attribute) -> Operation:
    """``llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> f32``."""
    return _make(llvm.LoadOp, [b.resolve(pointer, source)], [type], {}, written)


def print_load(p: Printer, op: llvm.LoadOp) -> None:
    """Prints what :func:`build_load` builds."""
    p.print_string(f" {p.value_name(op.ptr)}")
    p.print_op_attributes(_unsaid(op, ()))
    p.print_string(f" : {p.types(op.operands)} -> {p.types(op.results)}")


def build_store(
    b: Builder, value: Operand, pointer: Operand, written: Attributes, type: Attribute, target: Attribute
) -> Operation:
    """``llvm.store %v, %p : f32, !llvm.ptr``."""
    return _make(llvm.StoreOp, [b.resolve(value, type), b.resolve(pointer, target)], [], {}, written)


def print_store(p: Printer, op: llvm.StoreOp) -> None:
    """Prints what :func:`build_store` builds."""
    p.print_string(" ")
    p.print_values(op.operands)
    p.print_op_attributes(_unsaid(op, ()))
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
    callee: SymbolRefAttr | Operand,
    arguments: list[Operand],
    written: Attributes,
    types: tuple[Attribute | None, tuple[list[Any], list[Any]]],
) -> Operation:
    """``llvm.call @f(%a) : (f32) -> f32``, or ``llvm.call %f(%a) : !llvm.ptr, (f32) -> f32``."""
    pointer_type, signature = types
    operands = b.resolve_all(arguments, signature[0])
    properties: Attributes = {}
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
    p.print_string(")")
    p.print_op_attributes(_unsaid(op, ("callee", "operandSegmentSizes")))
    p.print_string(" : ")
    p.print_string("" if pointer is None else f"{p.attribute_text(pointer.type)}, ")
    p.print_function_type([a.type for a in arguments], op.result_types)


def func_head(
    b: Builder,
    linkage: Token | None,
    name: str,
    arguments: list[tuple[Token | None, Attribute]],
    variadic: bool | None,
    result: Attribute | None,
    written: Attributes,
) -> tuple[Attributes, Attributes]:
    """``internal @f(%a: f32) -> f32 attributes {...}``: the properties and the dictionary."""
    b.enter_region(arguments)
    function = llvm.LLVMFunctionType([t for _, t in arguments], result, bool(variadic))
    word = "external" if linkage is None else str(linkage)
    return {"sym_name": StringAttr(name), "function_type": function, "linkage": llvm.LinkageAttr(word)}, written


def build_func(b: Builder, head: tuple[Attributes, Attributes], body: Region | None) -> Operation:
    """A function or a declaration."""
    if body is None:
        b.cancel_region()
        body = Region()
    return _make(llvm.FuncOp, [], [], head[0], head[1], [body])


def print_func(p: Printer, op: llvm.FuncOp) -> None:
    """Prints what :func:`build_func` builds."""
    function, entry = op.function_type, op.body.blocks.first
    if entry is not None and tuple(entry.arg_types) != function.inputs.data:
        raise ValueError("entry block disagrees with the function's type")
    linkage = op.linkage.linkage.data
    p.print_string("" if linkage == "external" else f" {linkage}")
    p.print_string(" ")
    p.print_symbol_name(op.sym_name)
    if entry is None:
        shown = [p.attribute_text(t) for t in function.inputs]
    else:
        shown = [f"{p.value_name(a)}: {p.attribute_text(a.type)}" for a in entry.args]
    p.print_string(f"({', '.join(shown + ['...'] * function.is_variadic)})")
    if not isinstance(function.output, llvm.LLVMVoidType):
        p.print_string(f" -> {p.attribute_text(function.output)}")
    p.print_op_attributes(_unsaid(op, ("sym_name", "function_type", "linkage")), print_keyword=True)
    if entry is not None:
        p.print_string(" ")
        p.print_region(op.body, print_entry_block_args=False, print_empty_block=False)


_MEMORY = (
    OpSyntax(llvm.LoadOp, 'operand attr_dict_opt ":" type "->" type', build_load, print_load),
    OpSyntax(llvm.StoreOp, 'operand "," operand attr_dict_opt ":" type "," type', build_store, print_store),
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
        _conversion(llvm.TruncOp),
        _compare(llvm.ICmpOp),
        _compare(llvm.FCmpOp),
        *_MEMORY,
        OpSyntax(llvm.ConstantOp, '"(" attr ")" attr_dict_opt ":" type', build_constant, print_constant),
        OpSyntax(
            llvm.CallOp, 'llvm_callee "(" operands_opt ")" attr_dict_opt ":" llvm_call_types', build_call, print_call
        ),
        OpSyntax(llvm.FuncOp, "llvm_func_head region_opt", build_func, print_func),
    ),
    rules="""
        llvm_overflow: -> nothing
            | "overflow" "<" words ">" -> llvm_overflow
        llvm_exact: -> nothing
            | "exact" -> bool_true
        llvm_inbounds: -> nothing
            | "inbounds" -> bool_true
        llvm_callee: symbol_ref
            | operand
        llvm_call_types: fn_sig -> llvm_direct
            | nonfn_type "," fn_sig -> pair
        llvm_func_head: llvm_linkage symbol "(" llvm_args ")" llvm_result attr_dict_kw -> llvm_func_head
        llvm_linkage: -> nothing
            | BARE_ID
        llvm_args: -> llvm_no_args
            | "..." -> llvm_only_variadic
            | llvm_arg_list -> llvm_fixed
            | llvm_arg_list "," "..." -> llvm_variadic
        llvm_arg_list: llvm_arg -> list_one
            | llvm_arg_list "," llvm_arg -> list_app
        llvm_arg: PCT_ID ":" type -> pair
            | type -> llvm_unnamed
        llvm_result: -> nothing
            | "->" nonfn_type
    """,
    actions={
        "llvm_overflow": overflow_flags,
        "llvm_direct": lambda b, signature: (None, signature),
        "llvm_func_head": lambda b, linkage, name, args, result, written: func_head(
            b, linkage, name, args[0], args[1], result, written
        ),
        "llvm_no_args": lambda b: ([], False),
        "llvm_only_variadic": lambda b: ([], True),
        "llvm_fixed": lambda b, args: (args, False),
        "llvm_variadic": lambda b, args: (args, True),
        "llvm_unnamed": lambda b, type: (None, type),
    },
)
