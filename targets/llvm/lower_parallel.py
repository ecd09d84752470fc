"""Outermost parallel loops: outlined bodies that the thread pool calls.

    loop.for %i = 0 to 64 parallel { body using %x, %n }
    --> captures = {ctx, x, n} on the stack; ctx.parallel_for(ctx, @k.parallel0.body, captures, 64)
        @k.parallel0.body(captures, begin, end): loads the captures and calls
        @k.parallel0(ctx, x, n, begin, end): the loop from begin to end

The body is split in two because what a pointer loaded from memory may overlap is unknown, while the arguments of the
inner function say that they do not overlap. LLVM inlines it and keeps that knowledge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import llvm
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import SymbolRefAttr, i64
from xdsl.ir import Attribute, SSAValue

from ...core.symbolic import SymExpr
from ...dialects.loop import ops as loop
from .lower_buffers import indirect_call
from .lower_build import POINTER, FunctionBuilder, lowered_type
from .lower_index import is_index
from .lower_ops import ELEMENT_OPS
from .runtime_ir import CONTEXT_FIELDS

if TYPE_CHECKING:
    from .lower import FunctionLowering


def lower_parallel(outer: FunctionLowering, op: loop.ForOp, extent: SymExpr) -> None:
    """Lower a parallel loop in the function `outer` to a call of the thread pool."""
    state, build = outer.state, outer.builder
    name = f"{state.name}.parallel{state.parallel_loops}"
    state.parallel_loops += 1
    captured = _captured(outer, op)
    count = outer.index.value(extent)
    values = [outer.context, *(outer.value(value) for value in captured)]
    build.location = op.location
    _outline(outer, op, name, captured, extent)
    struct = llvm.LLVMStructType.from_type_list([value.type for value in values])
    state.functions.append(_body(name, struct, build))
    data = build.stack_struct(struct)
    for number, value in enumerate(values):
        build.store(value, build.field_pointer(data, struct, number), 8)
    slot = build.field_pointer(outer.context, i64, CONTEXT_FIELDS.index("parallel_for"))
    parallel_for = build.load(slot, POINTER, 8)
    body = build.make(llvm.AddressOfOp, [], POINTER, {"global_name": SymbolRefAttr(f"{name}.body")})
    build.add(indirect_call([parallel_for, outer.context, body, data, count]))


def _captured(outer: FunctionLowering, op: loop.ForOp) -> list[SSAValue]:
    """What the loop uses from around it, in order of use; symbols of the kernel come first."""
    used: dict[SSAValue, None] = dict.fromkeys(outer.state.symbols.values())
    inside: set[SSAValue] = {op.var}
    for inner in op.body.walk():
        inside.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.args)
        for operand in inner.operands:
            if operand not in inside:
                used[operand] = None
    return [value for value in used if not _is_constant(outer, value)]


def _outline(outer: FunctionLowering, op: loop.ForOp, name: str, captured: list[SSAValue], extent: SymExpr) -> None:
    """The function that runs iterations begin to end, with the captured values as arguments."""
    from .lower import FunctionLowering, pointer_attributes

    state = outer.state
    types: list[Attribute] = [POINTER, *(lowered_type(value.type, op) for value in captured)]
    attributes = [{}, *(pointer_attributes(value.type, state.may_alias) for value in captured)]
    build = FunctionBuilder(name, [*types, i64, i64], [*attributes, {}, {}], "internal", op.location)
    inner = FunctionLowering(state, build, build.arguments[0], in_parallel=True)
    names = {argument: symbol for symbol, argument in state.symbols.items()}
    for source, argument in zip(captured, build.arguments[1:], strict=False):
        if is_index(source):
            inner.index.bind(source, argument, outer.index.range_of(source), names.get(source))
        else:
            inner.values[source] = argument
    _repeat_constants(outer, inner, op)
    begin, end = build.arguments[-2:]
    _, high = outer.index.bounds(extent)
    inner.count(op, begin, end, high, runs=True)
    build.add(llvm.ReturnOp())
    state.functions.append(build.finish())


def _is_constant(outer: FunctionLowering, value: SSAValue) -> bool:
    if is_index(value):
        return outer.index.is_bound(value) and outer.index.expression_of(value).is_const()
    return isinstance(value.owner, ConstantOp)


def _repeat_constants(outer: FunctionLowering, inner: FunctionLowering, op: loop.ForOp) -> None:
    """Constants from outside of the loop are made again, so that LLVM sees their values."""
    for user in op.body.walk():
        for value in user.operands:
            if is_index(value):
                if _is_constant(outer, value):
                    inner.index.bind_constant(value, outer.index.expression_of(value).const_value())
            elif isinstance(value.owner, ConstantOp) and value not in inner.values:
                inner.values[value] = ELEMENT_OPS[value.owner.name](inner.builder, value.owner, [])


def _body(name: str, struct: llvm.LLVMStructType, like: FunctionBuilder) -> llvm.FuncOp:
    """The function that the pool calls: unpacks the captured values."""
    build = FunctionBuilder(f"{name}.body", [POINTER, i64, i64], [{}, {}, {}], "internal", like.location)
    data, begin, end = build.arguments
    values = [
        build.load(build.field_pointer(data, struct, number), type, 8) for number, type in enumerate(struct.types)
    ]
    build.add(llvm.CallOp(name, *values, begin, end))
    build.add(llvm.ReturnOp())
    return build.finish()
