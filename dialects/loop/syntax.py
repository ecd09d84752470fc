"""Pretty syntax of the loop dialect.

    loop.for %i = 0 to %n * 2 parallel {
      loop.block "C" spatial(%vi in 128 = %i) reduce(%vk in 256 = %k) where (%i < %n) init { ... } { ... }
      %x = loop.load %A[%i * 16 - 1] where (0 < %i) else %zero : memref<128xf32>
      %v = loop.load %A[%i * 16] : memref<128xf32> -> vector<16xf32>
      loop.store %v, %A[%i * 16] : vector<16xf32>, memref<128xf32>
      loop.if (%i * 16 < 109) { ... } else { ... }
      %C = loop.alloc "C" local : memref<2x14x16xf32>
    }

Indices are written with the values they name, so the order in which an op holds its index operands is the order
in which the text names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import DictionaryAttr, IndexType, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from ...core.attributes import IndexMapAttr
from ...core.indexmap import in_order_of_use
from ...core.symbolic import SymExpr
from ...text.builder import Builder, Operand
from ...text.driver import Token
from ...text.fragment import Fragment, OpSyntax
from ...text.printer import Printer
from .ops import AllocOp, BlockOp, ForOp, IfOp, IndexOp, LanesOp, LoadOp, StoreOp

Attributes = dict[str, Attribute]
Pairs = list[tuple[Any, Any]]


class ForHead(NamedTuple):
    """What stands before a loop's body."""

    extent: IndexMapAttr
    args: list[SSAValue]
    kind: str


class Iter(NamedTuple):
    """One iterator of a block: ``%vi in 128 = %i``."""

    var: Token
    domain: Any
    binding: Any


class BlockHead(NamedTuple):
    """What stands before a block's regions."""

    name: str
    kinds: list[str]
    args: list[SSAValue]
    bindings: IndexMapAttr
    domains: IndexMapAttr
    where: IndexMapAttr | None


# Index expressions. Printing puts the operands of each op into the order of the text.


def _maps(b: Builder, *groups: Sequence[Any]) -> tuple[list[SSAValue], list[IndexMapAttr]]:
    exprs, args = b.index_exprs([e for g in groups for e in g])
    maps: list[IndexMapAttr] = []
    start = 0
    for group in groups:
        maps.append(IndexMapAttr(len(args), exprs[start : start + len(group)]))
        start += len(group)
    return list(args), maps


def _texts(p: Printer, exprs: Sequence[SymExpr], args: Sequence[SSAValue]) -> list[str]:
    ordered, order = in_order_of_use(tuple(exprs), len(args))
    operands = [args[k] for k in order]
    return [p.index_expr(e, operands) for e in ordered]


def _flat(pairs: Pairs | None) -> list[Any]:
    return [] if pairs is None else [e for pair in pairs for e in pair]


def _pairs(texts: Sequence[str]) -> str:
    return f"({', '.join(f'{a} < {b}' for a, b in zip(texts[::2], texts[1::2]))})"


# loop.for


def for_head(b: Builder, var: Token, low: Token, extent: Any, kind: Token | None) -> ForHead:
    """``%i = 0 to %n * 2 parallel``."""
    if str(low) != "0":
        raise b.error(f"loops begin at 0, found {low}", low)
    args, (map_,) = _maps(b, [extent])
    b.enter_region([(var, IndexType())])
    return ForHead(map_, args, "serial" if kind is None else str(kind))


def build_for(b: Builder, head: ForHead, body: Region, attributes: Attributes) -> ForOp:
    """A loop."""
    op = ForOp(head.extent, head.args, body, head.kind)
    op.attributes.update(attributes)
    return op


def print_for(p: Printer, op: ForOp) -> None:
    """Prints what :func:`build_for` builds."""
    (extent,) = _texts(p, op.extent.results, op.args)
    kind = "" if op.kind.data == "serial" else f" {op.kind.data}"
    p.print_string(f" {p.value_name(op.var)} = 0 to {extent}{kind} ")
    _print_region(p, op.body)
    p.print_op_attributes(op.attributes)


def _print_region(p: Printer, region: Region) -> None:
    p.print_region(region, print_entry_block_args=False, print_empty_block=False)


# loop.block


def block_head(b: Builder, name: str, groups: list[tuple[Token, list[Iter]]], where: Pairs | None) -> BlockHead:
    """``"C" spatial(%vi in 128 = %i) reduce(%vk in 256 = %k) where (%i < %n)``."""
    iters = [i for _, group in groups for i in group]
    kinds = [str(kind) for kind, group in groups for _ in group]
    mixed = [e for i in iters for e in (i.domain, i.binding)]
    args, (both, guard) = _maps(b, mixed, _flat(where))
    domains = IndexMapAttr(len(args), both.results[::2])
    bindings = IndexMapAttr(len(args), both.results[1::2])
    b.enter_region([(i.var, IndexType()) for i in iters])
    return BlockHead(name, kinds, args, bindings, domains, guard if where else None)


def init_word(b: Builder) -> Any:
    """``init``: both regions have the iterators that the head names."""
    return b._entry


def init_region(b: Builder, entry: Any, region: Region) -> Region:
    """The init region; the body's follows."""
    b.enter_region(entry)
    return region


def build_block(b: Builder, head: BlockHead, init: Region | None, body: Region, attributes: Attributes) -> BlockOp:
    """A block."""
    op = BlockOp(head.name, head.kinds, head.args, head.bindings, head.domains, body, init, head.where)
    op.attributes.update(attributes)
    return op


def print_block(p: Printer, op: BlockOp) -> None:
    """Prints what :func:`build_block` builds."""
    where = () if op.where is None else op.where.results
    mixed = [e for d, b in zip(op.domains.results, op.bindings.results, strict=True) for e in (d, b)]
    texts = _texts(p, [*mixed, *where], op.args)
    count = len(mixed)
    names = [p.value_name(a) for a in op.body.block.args]
    iters = [f"{n} in {d} = {b}" for n, d, b in zip(names, texts[:count:2], texts[1:count:2])]
    p.print_string(f' "{op.block_name.data}"{_groups(op.iter_kinds, iters)}')
    if where:
        p.print_string(f" where {_pairs(texts[count:])}")
    if op.init is not None:
        for arg, name in zip(op.init.block.args, names):
            p._ssa_values[arg] = name
        p.print_string(" init ")
        _print_region(p, op.init)
    p.print_string(" ")
    _print_region(p, op.body)
    p.print_op_attributes(op.attributes)


def _groups(kinds: Sequence[str], iters: Sequence[str]) -> str:
    groups: list[tuple[str, list[str]]] = []
    for kind, text in zip(kinds, iters):
        if not groups or groups[-1][0] != kind:
            groups.append((kind, []))
        groups[-1][1].append(text)
    return "".join(f" {kind}({', '.join(texts)})" for kind, texts in groups)


# Accesses


def build_load(
    b: Builder,
    memref: Operand,
    indices: list[Any],
    guard: tuple[Pairs, Operand] | None,
    attributes: Attributes,
    type_: Attribute,
    result: Attribute | None,
) -> LoadOp:
    """``%A[%i] where (0 < %i) else %zero : memref<128xf32> -> vector<8xf32>``."""
    pairs, default = (None, None) if guard is None else guard
    args, (map_, where) = _maps(b, indices, _flat(pairs))
    buffer = b.resolve(memref, type_)
    if not isinstance(type_, MemRefType):
        raise ValueError(f"loads from a memref, found {type_}")
    found = type_.element_type if result is None else result
    value = None if default is None else b.resolve(default, found)
    op = LoadOp(buffer, args, map_, where if pairs else None, value, found)
    op.attributes.update(attributes)
    return op


def print_load(p: Printer, op: LoadOp) -> None:
    """Prints what :func:`build_load` builds."""
    p.print_string(f" {p.value_name(op.memref)}")
    where = _print_access(p, op)
    if op.default is not None:
        p.print_string(f" where {where} else {p.value_name(op.default)}")
    p.print_op_attributes(op.attributes)
    vector = f" -> {p.attribute_text(op.result.type)}" if isinstance(op.result.type, VectorType) else ""
    p.print_string(f" : {p.attribute_text(op.memref.type)}{vector}")


def _print_access(p: Printer, op: LoadOp | StoreOp) -> str:
    """Prints ``[indices]`` and returns the guard."""
    where = () if op.where is None else op.where.results
    texts = _texts(p, [*op.map.results, *where], op.args)
    count = len(op.map.results)
    p.print_string(f"[{', '.join(texts[:count])}]")
    return _pairs(texts[count:])


def build_store(
    b: Builder,
    value: Operand,
    memref: Operand,
    indices: list[Any],
    pairs: Pairs | None,
    attributes: Attributes,
    types: list[Attribute],
) -> StoreOp:
    """``%v, %A[%i] where (0 < %i) : memref<128xf32>``; a vector's type stands before the memref's."""
    args, (map_, where) = _maps(b, indices, _flat(pairs))
    if not 1 <= len(types) <= 2 or not isinstance(types[-1], MemRefType):
        raise ValueError("expected the type of a memref, perhaps after that of a vector")
    buffer = b.resolve(memref, types[-1])
    stored = types[0] if len(types) == 2 else types[-1].element_type
    op = StoreOp(b.resolve(value, stored), buffer, args, map_, where if pairs else None)
    op.attributes.update(attributes)
    return op


def print_store(p: Printer, op: StoreOp) -> None:
    """Prints what :func:`build_store` builds."""
    p.print_string(f" {p.value_name(op.value)}, {p.value_name(op.memref)}")
    where = _print_access(p, op)
    if op.where is not None:
        p.print_string(f" where {where}")
    p.print_op_attributes(op.attributes)
    vector = f"{p.attribute_text(op.value.type)}, " if isinstance(op.value.type, VectorType) else ""
    p.print_string(f" : {vector}{p.attribute_text(op.memref.type)}")


# The rest


def build_index(b: Builder, expr: Any, attributes: Attributes, type_: Attribute | None) -> IndexOp:
    """``%i * 2 + %j``, perhaps with a vector type."""
    args, (map_,) = _maps(b, [expr])
    op = IndexOp(args, map_, type_)
    op.attributes.update(attributes)
    return op


def print_index(p: Printer, op: IndexOp) -> None:
    """Prints what :func:`build_index` builds."""
    p.print_string(f" {_texts(p, op.map.results, op.args)[0]}")
    p.print_op_attributes(op.attributes)
    if op.result.type != IndexType():
        p.print_string(f" : {p.attribute_text(op.result.type)}")


def if_head(b: Builder, pairs: Pairs) -> tuple[list[SSAValue], IndexMapAttr]:
    """``(%i < %n, 0 < %j)``."""
    args, (where,) = _maps(b, _flat(pairs))
    b.enter_region([])
    return args, where


def else_word(b: Builder) -> None:
    """``else``."""
    b.enter_region([])


def else_region(b: Builder, word: None, region: Region) -> Region:
    """The region after ``else``."""
    return region


def build_if(
    b: Builder,
    head: tuple[list[SSAValue], IndexMapAttr],
    body: Region,
    orelse: Region | None,
    attributes: Attributes,
) -> IfOp:
    """A condition."""
    args, where = head
    for region in (body, orelse):
        if region is not None and not region.blocks:
            region.add_block(Block())
    op = IfOp(args, where, body, orelse)
    op.attributes.update(attributes)
    return op


def print_if(p: Printer, op: IfOp) -> None:
    """Prints what :func:`build_if` builds."""
    p.print_string(f" {_pairs(_texts(p, op.where.results, op.args))} ")
    _print_region(p, op.body)
    if op.orelse is not None:
        p.print_string(" else ")
        _print_region(p, op.orelse)
    p.print_op_attributes(op.attributes)


def build_alloc(b: Builder, name: str, scope: Token, attributes: Attributes, type_: Attribute) -> AllocOp:
    """``"C" local : memref<2x14x16xf32>``."""
    if not isinstance(type_, MemRefType):
        raise ValueError(f"allocates a memref, found {type_}")
    op = AllocOp(name, type_, str(scope))
    op.attributes.update(attributes)
    return op


def print_alloc(p: Printer, op: AllocOp) -> None:
    """Prints what :func:`build_alloc` builds."""
    p.print_string(f' "{op.buffer_name.data}" {op.scope.data}')
    p.print_op_attributes(op.attributes)
    p.print_string(f" : {p.attribute_text(op.result.type)}")


def build_lanes(
    b: Builder,
    scalar: str,
    operands: list[Operand],
    parameters: Attributes,
    types: list[Attribute],
    result: Attribute,
) -> LanesOp:
    """``"arith.cmpf" %a, %b {predicate = 2 : i64} : vector<8xf32>, vector<8xf32> -> vector<8xi1>``."""
    return LanesOp(scalar, b.resolve_all(operands, types), DictionaryAttr(parameters), result)


def print_lanes(p: Printer, op: LanesOp) -> None:
    """Prints what :func:`build_lanes` builds."""
    if op.attributes:
        raise ValueError("the pretty form has no place for attributes")
    p.print_string(f' "{op.scalar.data}" {", ".join(map(p.value_name, op.args))}')
    p.print_op_attributes(dict(op.parameters.data))
    p.print_string(f" : {p.types(op.args)} -> {p.attribute_text(op.result.type)}")


FRAGMENT = Fragment(
    ops=(
        OpSyntax(ForOp, "loop_for_head region attr_dict_opt", build_for, print_for),
        OpSyntax(BlockOp, "loop_block_head loop_init region attr_dict_opt", build_block, print_block),
        OpSyntax(
            LoadOp,
            'operand "[" exprs_opt "]" loop_guard attr_dict_opt ":" type loop_vector',
            build_load,
            print_load,
        ),
        OpSyntax(
            StoreOp,
            'operand "," operand "[" exprs_opt "]" loop_where attr_dict_opt ":" types',
            build_store,
            print_store,
        ),
        OpSyntax(IndexOp, "expr attr_dict_opt loop_type", build_index, print_index),
        OpSyntax(IfOp, "loop_if_head region loop_else attr_dict_opt", build_if, print_if),
        OpSyntax(AllocOp, 'string name attr_dict_opt ":" type', build_alloc, print_alloc),
        OpSyntax(LanesOp, 'string operands attr_dict_opt ":" types "->" type', build_lanes, print_lanes),
    ),
    rules="""
        loop_for_head: PCT_ID "=" INT "to" expr loop_kind -> loop_for_head
        loop_kind: -> nothing
            | name
        loop_block_head: string loop_groups loop_where -> loop_block_head
        loop_groups: -> list_empty
            | loop_groups loop_group -> list_app
        loop_group: name "(" loop_iters ")" -> pair
        loop_iters: loop_iter -> list_one
            | loop_iters "," loop_iter -> list_app
        loop_iter: PCT_ID "in" expr "=" expr -> loop_iter
        loop_where: -> nothing
            | "where" "(" loop_pairs ")"
        loop_pairs: loop_pair -> list_one
            | loop_pairs "," loop_pair -> list_app
        loop_pair: expr "<" expr -> pair
        loop_init: -> nothing
            | loop_init_word region -> loop_init
        loop_init_word: "init" -> loop_init_word
        loop_guard: -> nothing
            | "where" "(" loop_pairs ")" "else" operand -> pair
        loop_vector: -> nothing
            | "->" type
        loop_type: -> nothing
            | ":" type
        loop_if_head: "(" loop_pairs ")" -> loop_if_head
        loop_else: -> nothing
            | loop_else_word region -> loop_else
        loop_else_word: "else" -> loop_else_word
    """,
    actions={
        "loop_for_head": for_head,
        "loop_block_head": block_head,
        "loop_iter": lambda b, var, domain, binding: Iter(var, domain, binding),
        "loop_init_word": init_word,
        "loop_init": init_region,
        "loop_if_head": if_head,
        "loop_else_word": else_word,
        "loop_else": else_region,
    },
)
"""Syntax of the loop dialect."""
