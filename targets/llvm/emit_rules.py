"""The table of the emitter: how each operation of `llvm` and `tllvm` is written as LLVM IR.

A rule is one short function that appends one instruction, rarely a few, to a `FunctionEmitter`; `RULES` names it for
the operation, with the properties and discardable attributes that it takes into account. To add an operation, write
its rule and add its line. `LITERALS` are the operations that need no instruction because their result is a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ...core.diagnostics import emit_error
from . import dialect as tllvm
from .emit_types import constant_text, mangled, symbol_text, type_text
from .math import math_function

if TYPE_CHECKING:
    from .emit import FunctionEmitter


@dataclass(frozen=True)
class Rule:
    """How an operation is written, and the only properties and discardable attributes it may have."""

    write: Callable[[FunctionEmitter, Any], None]
    properties: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()


def _binary(word: str) -> Callable[[FunctionEmitter, Any], None]:
    def write(to: FunctionEmitter, op: Operation) -> None:
        lhs, rhs = op.operands
        to.define(op, f"{word} {_flags(op)}{to.typed(lhs)}, {to.name(rhs)}")

    return write


def _cast(word: str) -> Callable[[FunctionEmitter, Any], None]:
    def write(to: FunctionEmitter, op: Operation) -> None:
        to.define(op, f"{word} {_flags(op)}{to.typed(op.operands[0])} to {type_text(op.results[0].type)}")

    return write


def _intrinsic(name: str) -> Callable[[FunctionEmitter, Any], None]:
    def write(to: FunctionEmitter, op: Operation) -> None:
        result = op.results[0].type
        _call(to, op, f"{name}.{mangled(result)}", _flags(op))

    return write


def _call(to: FunctionEmitter, op: Operation, symbol: str, flags: str = "") -> None:
    """A call of a function with the operation's operands and result, declared by their types."""
    types = ", ".join(type_text(operand.type) for operand in op.operands)
    arguments = ", ".join(map(to.typed, op.operands))
    result = type_text(op.results[0].type) if op.results else "void"
    to.module.declare(f"@{symbol}", result, types)
    if op.results:
        to.define(op, f"call {flags}{result} @{symbol}({arguments})")
    else:
        to.line(f"call void @{symbol}({arguments})")


def _flags(op: Operation) -> str:
    """The flags before the operands: wrapping, exactness, fast-math."""
    words: list[str] = []
    for name, value in op.properties.items():
        if name == "fastmathFlags":
            assert isinstance(value, llvm.FastMathAttr)
            words += [flag.value for flag in value.data]
        elif name == "overflowFlags":
            flags = value if isinstance(value, llvm.OverflowAttr) else llvm.OverflowAttr.from_int(value.value.data)  # type: ignore[attr-defined]
            words += [flag.value for flag in flags.data]
        elif name in _UNIT_FLAGS:
            words.append(_UNIT_FLAGS[name])
    return "".join(f"{word} " for word in sorted(words))


_UNIT_FLAGS = {"isExact": "exact", "isDisjoint": "disjoint", "nonNeg": "nneg"}


def _icmp(to: FunctionEmitter, op: llvm.ICmpOp) -> None:
    predicate = llvm.ICmpPredicateFlag.from_int(op.predicate.value.data).value
    to.define(op, f"icmp {predicate} {to.typed(op.lhs)}, {to.name(op.rhs)}")


def _llvm_fcmp(to: FunctionEmitter, op: llvm.FCmpOp) -> None:
    predicate = llvm.FCmpPredicateFlag.from_int(op.predicate.value.data).value.lstrip("_")
    to.define(op, f"fcmp {_flags(op)}{predicate} {to.typed(op.lhs)}, {to.name(op.rhs)}")


def _fcmp(to: FunctionEmitter, op: tllvm.FCmpOp) -> None:
    to.define(op, f"fcmp {op.predicate.data} {to.typed(op.lhs)}, {to.name(op.rhs)}")


def _select(to: FunctionEmitter, op: Operation) -> None:
    condition, yes, no = op.operands
    to.define(op, f"select {_flags(op)}{to.typed(condition)}, {to.typed(yes)}, {to.typed(no)}")


def _fneg(to: FunctionEmitter, op: llvm.FNegOp) -> None:
    to.define(op, f"fneg {_flags(op)}{to.typed(op.arg)}")


def _alloca(to: FunctionEmitter, op: llvm.AllocaOp) -> None:
    to.define(op, f"alloca {type_text(op.elem_type)}, {to.typed(op.size)}{_align(op.alignment)}")


def _gep(to: FunctionEmitter, op: llvm.GEPOp) -> None:
    dynamic = iter(op.ssa_indices)
    indices = [
        to.typed(next(dynamic)) if index == llvm.GEP_USE_SSA_VAL else f"i32 {index}"
        for index in op.rawConstantIndices.iter_values()
    ]
    if op.noWrapFlags.value.data:
        emit_error(op, f"has noWrapFlags {op.noWrapFlags.value.data}, expected 0")
    inbounds = "inbounds " if op.inbounds is not None else ""
    to.define(op, f"getelementptr {inbounds}{type_text(op.elem_type)}, {to.typed(op.ptr)}, {', '.join(indices)}")


def _load(to: FunctionEmitter, op: llvm.LoadOp) -> None:
    if op.ordering.value.data:
        emit_error(op, "is atomic, which the emitter does not know")
    to.define(op, f"load {type_text(op.results[0].type)}, {to.typed(op.ptr)}{_align(op.alignment)}")


def _store(to: FunctionEmitter, op: llvm.StoreOp) -> None:
    if op.ordering is not None and op.ordering.value.data:
        emit_error(op, "is atomic, which the emitter does not know")
    to.line(f"store {to.typed(op.value)}, {to.typed(op.ptr)}{_align(op.alignment)}")


def _align(alignment: Any) -> str:
    return "" if alignment is None else f", align {alignment.value.data}"


def _branch(to: FunctionEmitter, op: llvm.BrOp) -> None:
    to.line(f"br label {to.label(op.successor)}{_loop(to, op)}")


def _conditional(to: FunctionEmitter, op: llvm.CondBrOp) -> None:
    then, other = to.label(op.then_block), to.label(op.else_block)
    to.line(f"br {to.typed(op.cond)}, label {then}, label {other}{_loop(to, op)}")


def _loop(to: FunctionEmitter, op: Operation) -> str:
    kind = op.attributes.get(tllvm.UNROLL_ATTRIBUTE)
    if kind is None:
        return ""
    if not isinstance(kind, StringAttr) or kind.data not in tllvm.UNROLL_KINDS:
        emit_error(op, f"has {tllvm.UNROLL_ATTRIBUTE} = {kind}, expected full or disable")
    return f", !llvm.loop {to.module.loop_metadata(kind.data)}"


def _return(to: FunctionEmitter, op: llvm.ReturnOp) -> None:
    to.line("ret void" if op.arg is None else f"ret {to.typed(op.arg)}")


def _unreachable(to: FunctionEmitter, op: Operation) -> None:
    to.line("unreachable")


def _function_call(to: FunctionEmitter, op: llvm.CallOp) -> None:
    if op.CConv.cconv_name != "ccc" or op.op_bundle_operands or op.var_callee_type is not None:
        emit_error(op, "has a calling convention, bundle or variadic type the emitter does not know")
    if op.TailCallKind.data != llvm.TailCallKind.NONE:
        emit_error(op, "is marked as a tail call, which the emitter does not know")
    if op.callee is not None:
        callee, arguments = f"@{symbol_text(op.callee.root_reference.data)}", op.args
    else:
        callee, arguments = to.name(op.args[0]), op.args[1:]
    result = "void" if op.returned is None else type_text(op.returned.type)
    call = f"call {_flags(op)}{result} {callee}({', '.join(map(to.typed, arguments))})"
    if op.returned is None:
        to.line(call)
    else:
        to.define(op, call)


def _intrinsic_call(to: FunctionEmitter, op: llvm.CallIntrinsicOp) -> None:
    if op.op_bundle_operands:
        emit_error(op, "has operand bundles, which the emitter does not know")
    _call(to, op, op.intrin.data, _flags(op) if op.results else "")


def _masked_llvm_store(to: FunctionEmitter, op: llvm.MaskedStoreOp) -> None:
    _masked_store_call(to, op.value, op.data, op.mask, op.alignment.value.data)


def _masked_store(to: FunctionEmitter, op: tllvm.MaskedStoreOp) -> None:
    _masked_store_call(to, op.value, op.pointer, op.mask, op.alignment.value.data)


def _masked_store_call(to: FunctionEmitter, value: Any, pointer: Any, mask: Any, alignment: int) -> None:
    vector = type_text(value.type)
    symbol = f"@llvm.masked.store.{mangled(value.type)}.p0"
    to.module.declare(symbol, "void", f"{vector}, ptr, i32, {type_text(mask.type)}")
    to.line(f"call void {symbol}({to.typed(value)}, {to.typed(pointer)}, i32 {alignment}, {to.typed(mask)})")


def _masked_load(to: FunctionEmitter, op: tllvm.MaskedLoadOp) -> None:
    vector, mask = type_text(op.result.type), type_text(op.mask.type)
    symbol = f"@llvm.masked.load.{mangled(op.result.type)}.p0"
    to.module.declare(symbol, vector, f"ptr, i32, {mask}, {vector}")
    arguments = f"{to.typed(op.pointer)}, i32 {op.alignment.value.data}, {to.typed(op.mask)}"
    to.define(op, f"call {vector} {symbol}({arguments}, {to.typed(op.default)})")


def _gather(to: FunctionEmitter, op: tllvm.GatherOp) -> None:
    vector, mask = type_text(op.result.type), type_text(op.mask.type)
    pointers, pointers_type, size = _lane_pointers(to, op.base, op.indices, op.result.type)
    symbol = f"@llvm.masked.gather.{mangled(op.result.type)}.v{tllvm.lanes(op.result.type)}p0"
    to.module.declare(symbol, vector, f"{pointers_type}, i32, {mask}, {vector}")
    arguments = f"{pointers_type} {pointers}, i32 {size}, {to.typed(op.mask)}, {to.typed(op.default)}"
    to.define(op, f"call {vector} {symbol}({arguments})")


def _scatter(to: FunctionEmitter, op: tllvm.ScatterOp) -> None:
    vector, mask = type_text(op.value.type), type_text(op.mask.type)
    pointers, pointers_type, size = _lane_pointers(to, op.base, op.indices, op.value.type)
    symbol = f"@llvm.masked.scatter.{mangled(op.value.type)}.v{tllvm.lanes(op.value.type)}p0"
    to.module.declare(symbol, "void", f"{vector}, {pointers_type}, i32, {mask}")
    arguments = f"{to.typed(op.value)}, {pointers_type} {pointers}, i32 {size}, {to.typed(op.mask)}"
    to.line(f"call void {symbol}({arguments})")


def _lane_pointers(to: FunctionEmitter, base: Any, indices: Any, vector: Any) -> tuple[str, str, int]:
    """The addresses of the lanes: their name, their type, and the alignment of an element in bytes."""
    element = vector.element_type
    pointers = to.fresh()
    to.line(f"{pointers} = getelementptr {type_text(element)}, {to.typed(base)}, {to.typed(indices)}")
    return pointers, f"<{tllvm.lanes(vector)} x ptr>", element.size


def _splat(to: FunctionEmitter, op: tllvm.SplatOp) -> None:
    vector, first = type_text(op.result.type), to.fresh()
    to.line(f"{first} = insertelement {vector} poison, {to.typed(op.value)}, i64 0")
    zeros = f"<{tllvm.lanes(op.result.type)} x i32> zeroinitializer"
    to.define(op, f"shufflevector {vector} {first}, {vector} poison, {zeros}")


def _extract_element(to: FunctionEmitter, op: tllvm.ExtractElementOp) -> None:
    to.define(op, f"extractelement {to.typed(op.vector)}, {to.typed(op.index)}")


def _insert_element(to: FunctionEmitter, op: llvm.InsertElementOp) -> None:
    to.define(op, f"insertelement {to.typed(op.vector)}, {to.typed(op.value)}, {to.typed(op.index)}")


def _shuffle(to: FunctionEmitter, op: llvm.ShuffleVectorOp) -> None:
    indices = ", ".join("i32 poison" if index < 0 else f"i32 {index}" for index in op.mask.get_values())
    mask = f"<{len(op.mask)} x i32> <{indices}>"
    to.define(op, f"shufflevector {to.typed(op.v1)}, {to.typed(op.v2)}, {mask}")


def _extract_value(to: FunctionEmitter, op: llvm.ExtractValueOp) -> None:
    path = ", ".join(map(str, op.position.iter_values()))
    to.define(op, f"extractvalue {to.typed(op.container)}, {path}")


def _insert_value(to: FunctionEmitter, op: llvm.InsertValueOp) -> None:
    path = ", ".join(map(str, op.position.iter_values()))
    to.define(op, f"insertvalue {to.typed(op.container)}, {to.typed(op.value)}, {path}")


def _conversion(to: FunctionEmitter, op: tllvm.CastOp) -> None:
    kind = op.kind.data
    if kind == "uitofp":
        to.define(op, f"uitofp {to.typed(op.value)} to {type_text(op.result.type)}")
        return
    _call(to, op, f"llvm.{kind}.sat.{mangled(op.result.type)}.{mangled(op.value.type)}")


def _math(to: FunctionEmitter, op: tllvm.MathOp) -> None:
    function = math_function(op.function.data, mangled(op.result.type), len(op.arguments))
    to.module.add_math(function)
    vector = type_text(op.result.type)
    to.define(op, f"call {vector} @{function.symbol}({', '.join(map(to.typed, op.arguments))})")


def _address(op: Any) -> str:
    return f"@{symbol_text(op.global_name.root_reference.data)}"


LITERALS: dict[type[Operation], tuple[Callable[[Any], str], frozenset[str]]] = {
    llvm.ConstantOp: (lambda op: constant_text(op.value, op.result.type), frozenset({"value"})),
    llvm.ZeroOp: (
        lambda op: "null" if isinstance(op.res.type, llvm.LLVMPointerType) else "zeroinitializer",
        frozenset(),
    ),
    llvm.UndefOp: (lambda op: "undef", frozenset()),
    llvm.AddressOfOp: (_address, frozenset({"global_name"})),
}

_FAST = frozenset({"fastmathFlags"})
_WRAP = frozenset({"overflowFlags"})
_EXACT = frozenset({"isExact"})
_SEGMENTS = frozenset({"operandSegmentSizes"})
_UNROLL = frozenset({tllvm.UNROLL_ATTRIBUTE})
_ALIGNMENT = frozenset({"alignment"})

RULES: dict[type[Operation], Rule] = {
    llvm.AddOp: Rule(_binary("add"), _WRAP),
    llvm.SubOp: Rule(_binary("sub"), _WRAP),
    llvm.MulOp: Rule(_binary("mul"), _WRAP),
    llvm.ShlOp: Rule(_binary("shl"), _WRAP),
    llvm.UDivOp: Rule(_binary("udiv"), _EXACT),
    llvm.SDivOp: Rule(_binary("sdiv"), _EXACT),
    llvm.LShrOp: Rule(_binary("lshr"), _EXACT),
    llvm.AShrOp: Rule(_binary("ashr"), _EXACT),
    llvm.URemOp: Rule(_binary("urem")),
    llvm.SRemOp: Rule(_binary("srem")),
    llvm.AndOp: Rule(_binary("and")),
    llvm.OrOp: Rule(_binary("or"), frozenset({"isDisjoint"})),
    llvm.XOrOp: Rule(_binary("xor")),
    llvm.FAddOp: Rule(_binary("fadd"), _FAST),
    llvm.FSubOp: Rule(_binary("fsub"), _FAST),
    llvm.FMulOp: Rule(_binary("fmul"), _FAST),
    llvm.FDivOp: Rule(_binary("fdiv"), _FAST),
    llvm.FRemOp: Rule(_binary("frem"), _FAST),
    llvm.FNegOp: Rule(_fneg, _FAST),
    llvm.ICmpOp: Rule(_icmp, frozenset({"predicate"})),
    llvm.FCmpOp: Rule(_llvm_fcmp, _FAST | {"predicate"}),
    tllvm.FCmpOp: Rule(_fcmp, frozenset({"predicate"})),
    llvm.SelectOp: Rule(_select, _FAST),
    tllvm.SelectOp: Rule(_select),
    llvm.TruncOp: Rule(_cast("trunc"), _WRAP),
    llvm.ZExtOp: Rule(_cast("zext"), frozenset({"nonNeg"})),
    llvm.SExtOp: Rule(_cast("sext")),
    llvm.SIToFPOp: Rule(_cast("sitofp")),
    llvm.FPExtOp: Rule(_cast("fpext")),
    llvm.FPTruncOp: Rule(_cast("fptrunc")),
    llvm.BitcastOp: Rule(_cast("bitcast")),
    llvm.PtrToIntOp: Rule(_cast("ptrtoint")),
    llvm.IntToPtrOp: Rule(_cast("inttoptr")),
    tllvm.CastOp: Rule(_conversion, frozenset({"kind"})),
    llvm.FAbsOp: Rule(_intrinsic("llvm.fabs"), _FAST),
    llvm.FCeilOp: Rule(_intrinsic("llvm.ceil"), _FAST),
    llvm.FFloorOp: Rule(_intrinsic("llvm.floor"), _FAST),
    llvm.FSqrtOp: Rule(_intrinsic("llvm.sqrt"), _FAST),
    llvm.FCopySignOp: Rule(_intrinsic("llvm.copysign"), _FAST),
    llvm.VectorFMaxOp: Rule(_intrinsic("llvm.maxnum"), _FAST),
    llvm.VectorFMinOp: Rule(_intrinsic("llvm.minnum"), _FAST),
    llvm.FMAOp: Rule(_intrinsic("llvm.fma"), _FAST),
    llvm.CallIntrinsicOp: Rule(_intrinsic_call, _FAST | _SEGMENTS | {"intrin", "op_bundle_sizes"}),
    tllvm.MathOp: Rule(_math, frozenset({"function"})),
    tllvm.SplatOp: Rule(_splat),
    tllvm.ExtractElementOp: Rule(_extract_element),
    llvm.InsertElementOp: Rule(_insert_element),
    llvm.ShuffleVectorOp: Rule(_shuffle, frozenset({"mask"})),
    llvm.ExtractValueOp: Rule(_extract_value, frozenset({"position"})),
    llvm.InsertValueOp: Rule(_insert_value, frozenset({"position"})),
    llvm.AllocaOp: Rule(_alloca, _ALIGNMENT | {"elem_type"}),
    llvm.GEPOp: Rule(_gep, frozenset({"elem_type", "noWrapFlags", "rawConstantIndices", "inbounds"})),
    llvm.LoadOp: Rule(_load, _ALIGNMENT | {"ordering"}),
    llvm.StoreOp: Rule(_store, _ALIGNMENT | {"ordering"}),
    llvm.MaskedStoreOp: Rule(_masked_llvm_store, _ALIGNMENT),
    tllvm.MaskedLoadOp: Rule(_masked_load, _ALIGNMENT),
    tllvm.MaskedStoreOp: Rule(_masked_store, _ALIGNMENT),
    tllvm.GatherOp: Rule(_gather),
    tllvm.ScatterOp: Rule(_scatter),
    llvm.BrOp: Rule(_branch, frozenset(), _UNROLL),
    llvm.CondBrOp: Rule(_conditional, _SEGMENTS, _UNROLL),
    llvm.ReturnOp: Rule(_return),
    llvm.UnreachableOp: Rule(_unreachable),
    llvm.CallOp: Rule(
        _function_call,
        _FAST | _SEGMENTS | {"callee", "CConv", "op_bundle_sizes", "TailCallKind", "var_callee_type"},
    ),
}
