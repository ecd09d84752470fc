"""Pretty syntax of the te dialect.

    %c = te.compute "matmul" (%A as %a, %B as %b) [%i, %j] in [n, 64] reduce [%k] in [256] -> tensor<...> {
      %x = te.read %a[%i, %k] : f32
      %y = te.read %b[%k, %j] else %zero : f32
      %p = arith.mulf %x, %y : f32
      te.yield sum %p : f32
    }

Indices are written with the values they name, so the order in which an op holds its index operands is the order in
which the text names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Region, SSAValue

from ...core.attributes import ExprListAttr, IndexMapAttr
from ...core.indexmap import in_order_of_use
from ...text.builder import Builder, Operand
from ...text.driver import Token
from ...text.fragment import Fragment, OpSyntax
from ...text.printer import Printer
from .ops import ComputeOp, IndexOp, ReadOp, YieldOp


class Head(NamedTuple):
    """What stands before a compute's body."""

    name: str | None
    inputs: list[SSAValue]
    extents: ExprListAttr
    reduce_extents: ExprListAttr
    types: list[Attribute]


Indices = tuple[list[Token], list[Any]]


def compute_head(
    b: Builder,
    name: str | None,
    inputs: list[tuple[Operand, Token]],
    spatial: Indices,
    reduce: Indices | None,
    types: list[Attribute],
) -> Head:
    """``"name" (%A as %a) [%i] in [64] reduce [%k] in [256] -> type``."""
    variables, extents = spatial
    reduce_variables, reduce_extents = ([], []) if reduce is None else reduce
    for names, sizes in ((variables, extents), (reduce_variables, reduce_extents)):
        if len(names) != len(sizes):
            raise b.error(f"{len(names)} indices for {len(sizes)} extents", names[0] if names else None)
    values = [b.defined(operand) for operand, _ in inputs]
    arguments = [(token, value.type) for (_, token), value in zip(inputs, values)]
    b.enter_region([*arguments, *((v, IndexType()) for v in (*variables, *reduce_variables))])
    return Head(
        name,
        values,
        ExprListAttr([b.named_expr(e) for e in extents]),
        ExprListAttr([b.named_expr(e) for e in reduce_extents]),
        types,
    )


def build_compute(b: Builder, head: Head, body: Region, attributes: dict[str, Attribute]) -> ComputeOp:
    """A tensor expression."""
    op = ComputeOp(head.inputs, head.types, head.extents, head.reduce_extents, body, head.name)
    op.attributes.update(attributes)
    return op


def print_compute(p: Printer, op: ComputeOp) -> None:
    """Prints what :func:`build_compute` builds."""
    name = "" if op.block_name is None else f' "{op.block_name.data}"'
    pairs = (f"{p.value_name(v)} as {p.value_name(a)}" for v, a in zip(op.inputs, op.input_args, strict=True))
    p.print_string(f"{name} ({', '.join(pairs)}) {_indices(p, op.spatial_args, op.extents)}")
    if op.reduce_extents.exprs:
        p.print_string(f" reduce {_indices(p, op.reduce_args, op.reduce_extents)}")
    p.print_string(f" -> {p.types(op.results_)} ")
    p.print_region(op.body, print_entry_block_args=False, print_empty_block=False)
    p.print_op_attributes(op.attributes)


def _indices(p: Printer, arguments: Sequence[SSAValue], extents: ExprListAttr) -> str:
    if len(arguments) != len(extents.exprs):
        raise ValueError("indices and extents disagree")
    return f"[{', '.join(map(p.value_name, arguments))}] in [{', '.join(map(str, extents.exprs))}]"


def build_read(
    b: Builder,
    tensor: Operand,
    indices: list[Any],
    default: Operand | None,
    attributes: dict[str, Attribute],
    type: Attribute,
) -> ReadOp:
    """``%a[%i, %j + 1] else %zero : f32``."""
    exprs, args = b.index_exprs(indices)
    value = None if default is None else b.resolve(default, type)
    op = ReadOp(b.defined(tensor), args, IndexMapAttr(len(args), exprs), value)
    if op.result.type != type:
        raise ValueError(f"reads elements of type {op.result.type}, found {type}")
    op.attributes.update(attributes)
    return op


def print_read(p: Printer, op: ReadOp) -> None:
    """Prints what :func:`build_read` builds."""
    default = "" if op.default is None else f" else {p.value_name(op.default)}"
    p.print_string(f" {p.value_name(op.tensor)}[{_exprs(p, op.map, op.args)}]{default}")
    p.print_op_attributes(op.attributes)
    p.print_string(f" : {p.attribute_text(op.result.type)}")


def _exprs(p: Printer, map_: IndexMapAttr, args: Sequence[SSAValue]) -> str:
    results, order = in_order_of_use(map_.results, map_.num_inputs)
    return p.index_exprs(results, [args[k] for k in order])


def build_index(b: Builder, expr: Any, attributes: dict[str, Attribute]) -> IndexOp:
    """``%i * 2 + %j``."""
    exprs, args = b.index_exprs([expr])
    op = IndexOp(args, IndexMapAttr(len(args), exprs))
    op.attributes.update(attributes)
    return op


def print_index(p: Printer, op: IndexOp) -> None:
    """Prints what :func:`build_index` builds."""
    p.print_string(f" {_exprs(p, op.map, op.args)}")
    p.print_op_attributes(op.attributes)


def build_yield(
    b: Builder,
    combiners: list[Token],
    values: list[Operand],
    attributes: dict[str, Attribute],
    types: list[Attribute],
) -> YieldOp:
    """``sum %v : f32``."""
    op = YieldOp(b.resolve_all(values, types), [str(c) for c in combiners])
    op.attributes.update(attributes)
    return op


def print_yield(p: Printer, op: YieldOp) -> None:
    """Prints what :func:`build_yield` builds."""
    combiners = " " + ", ".join(op.combiner_names) if op.combiner_names else ""
    p.print_string(f"{combiners} {', '.join(map(p.value_name, op.values))}")
    p.print_op_attributes(op.attributes)
    p.print_string(f" : {p.types(op.values)}")


FRAGMENT = Fragment(
    ops=(
        OpSyntax(ComputeOp, "te_compute_head region attr_dict_opt", build_compute, print_compute),
        OpSyntax(
            ReadOp, 'operand "[" exprs_opt "]" te_else attr_dict_opt ":" type', build_read, print_read
        ),
        OpSyntax(IndexOp, "expr attr_dict_opt", build_index, print_index),
        OpSyntax(YieldOp, 'te_combiners operands attr_dict_opt ":" types', build_yield, print_yield),
    ),
    rules="""
        te_compute_head: te_name "(" te_inputs_opt ")" te_indices te_reduce "->" types -> te_compute_head
        te_name: -> nothing
            | string
        te_inputs_opt: -> list_empty
            | te_inputs
        te_inputs: te_input -> list_one
            | te_inputs "," te_input -> list_app
        te_input: operand "as" PCT_ID -> pair
        te_indices: "[" te_variables "]" "in" "[" exprs_opt "]" -> pair
        te_variables: -> list_empty
            | value_names
        te_reduce: -> nothing
            | "reduce" te_indices
        te_else: -> nothing
            | "else" operand
        te_combiners: -> list_empty
            | names
    """,
    actions={"te_compute_head": compute_head},
)
"""Syntax of the te dialect."""
