"""Builds a ``te.compute`` anew: with producers inlined, and with everything that has become plain to see simplified.

While ops are copied, index expressions are composed and simplified with the ranges of the indices, guards that ranges
prove are dropped, equal ops are made once, and ops and inputs that nothing uses are left behind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...core.attributes import shape_exprs
from ...core.symbolic import SymExpr, sym
from ...dialects.te.ops import ComputeOp, IndexOp, ReadOp, YieldOp
from ..convert.index_scope import IndexScope

Exprs = tuple[SymExpr, ...]


def compute_blocks(root: Operation) -> Iterator[Block]:
    """The blocks under ``root`` that hold computes: bodies of kernels."""
    seen: set[Block] = set()
    for op in root.walk():
        block = op.parent_block()
        if isinstance(op, ComputeOp) and block is not None and block not in seen:
            seen.add(block)
            yield block


def rebuild(op: ComputeOp, inline: Mapping[SSAValue, ComputeOp] = {}) -> ComputeOp:
    """Replaces ``op`` by an equal compute in which the results in ``inline`` are computed in place of being read."""
    builder = _Rebuild(op, inline)
    new = builder.build()
    Rewriter.insert_op(new, InsertPoint.before(op))
    for old, result in zip(op.results_, new.results_):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    Rewriter.erase_op(op)
    return new


@dataclass
class _Frame:
    """Values of one compute's body while it is copied."""

    tensors: Mapping[SSAValue, SSAValue]
    """Region arguments for inputs, and the tensors outside that they stand for."""
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    indices: dict[SSAValue, SymExpr] = field(default_factory=dict)


class _Rebuild:
    def __init__(self, op: ComputeOp, inline: Mapping[SSAValue, ComputeOp]) -> None:
        self.op, self.inline = op, inline
        count = op.rank + len(op.reduce_extents.exprs)
        self.block = Block(arg_types=[IndexType()] * count)
        self.inputs: list[SSAValue] = []
        self.scope = IndexScope()
        self.made: dict[Hashable, SSAValue] = {}
        self.inlined: dict[tuple[SSAValue, Exprs], SSAValue] = {}
        self.named: dict[SSAValue, SymExpr] = {}

    def build(self) -> ComputeOp:
        op = self.op
        frame = _Frame(dict(zip(op.input_args, op.inputs)))
        extents = (*op.extents.exprs, *op.reduce_extents.exprs)
        for old, new, extent in zip((*op.spatial_args, *op.reduce_args), self.block.args, extents):
            new.name_hint = old.name_hint
            frame.indices[old] = self.scope.add_index("i", new, extent)
        values = self.copy(op, frame)
        terminator = YieldOp(values, op.yield_op.combiner_names)
        terminator.location = op.yield_op.location
        self.block.add_op(terminator)
        self._erase_unused(terminator)
        name = None if op.block_name is None else op.block_name.data
        types = [r.type for r in op.results_]
        new_op = ComputeOp(self.inputs, types, op.extents, op.reduce_extents, Region(self.block), name)
        new_op.attributes.update(op.attributes)
        new_op.location = op.location
        return new_op

    def _erase_unused(self, terminator: YieldOp) -> None:
        """Ops and inputs that were needed before a guard went."""
        for op in reversed(list(self.block.ops)):
            if op is not terminator and not any(r.uses for r in op.results):
                self.block.erase_op(op)
        for position in reversed(range(len(self.inputs))):
            if not self.block.args[position].uses:
                self.block.erase_arg(self.block.args[position])
                del self.inputs[position]

    def copy(self, op: ComputeOp, frame: _Frame) -> list[SSAValue]:
        """Copies a body; gives the yielded values."""
        needed = _needed_ops(op)
        for inner in op.body.block.ops:
            if inner not in needed:
                continue
            if isinstance(inner, ReadOp):
                frame.values[inner.result] = self.read(inner, frame)
            elif isinstance(inner, IndexOp):
                (expr,) = inner.map.apply([self.index(a, frame) for a in inner.args])
                frame.indices[inner.result] = self.scope.simplified(expr)
            else:
                for operand in inner.operands:
                    frame.values[operand] = self.value(operand, frame)
                self._emit(inner.clone(frame.values), inner)
                for old, new in zip(inner.results, self.last):
                    frame.values[old] = new
        return [self.value(v, frame) for v in op.yield_op.values]

    def value(self, value: SSAValue, frame: _Frame) -> SSAValue:
        """The copied value; an index expression becomes a value where it is first used as one."""
        if value not in frame.values and value in frame.indices:
            args, map_ = self.scope.operands([frame.indices[value]])
            if map_.is_identity:
                frame.values[value] = args[0]
            else:
                self._emit(IndexOp(args, map_), self.op)
                frame.values[value] = self.last[0]
        return frame.values[value]

    def index(self, value: SSAValue, frame: _Frame) -> SymExpr:
        """The expression of an index value; a data-dependent one gets a name of its own."""
        if value in frame.indices:
            return frame.indices[value]
        copied = frame.values[value]
        if copied not in self.named:
            self.named[copied] = self.scope.add("v", copied)
        return self.named[copied]

    def read(self, op: ReadOp, frame: _Frame) -> SSAValue:
        tensor = frame.tensors[op.tensor]
        exprs = tuple(self.scope.simplified(e) for e in op.map.apply([self.index(a, frame) for a in op.args]))
        producer = self.inline.get(tensor)
        while producer is not None and op.default is not None:
            source = identity_source(producer)
            assert source is not None, "only an identity is inlined into a read with a default"
            tensor, producer = source, self.inline.get(source)
        if producer is not None:
            return self._inlined(tensor, producer, exprs)
        default = op.default
        if default is not None and not self.scope.guards(exprs, shape_exprs(tensor.type)):
            default = None
        args, map_ = self.scope.operands(exprs)
        fallback = None if default is None else self.value(default, frame)
        self._emit(ReadOp(self._input(tensor), args, map_, fallback), op)
        return self.last[0]

    def _inlined(self, tensor: SSAValue, producer: ComputeOp, exprs: Exprs) -> SSAValue:
        key = (tensor, exprs)
        if key not in self.inlined:
            inner = _Frame(dict(zip(producer.input_args, producer.inputs)))
            inner.indices.update(zip(producer.spatial_args, exprs))
            results = self.copy(producer, inner)
            for result, value in zip(producer.results_, results):
                self.inlined[result, exprs] = value
        return self.inlined[key]

    def _input(self, tensor: SSAValue) -> SSAValue:
        for position, known in enumerate(self.inputs):
            if known is tensor:
                return self.block.args[position]
        self.inputs.append(tensor)
        argument = self.block.insert_arg(tensor.type, len(self.inputs) - 1)
        letter = len(self.inputs) - 1
        argument.name_hint = "abcdefgh"[letter] if letter < 8 else None
        return argument

    def _emit(self, op: Operation, origin: Operation) -> None:
        """Appends ``op``, or takes an equal one that is there; leaves the results in ``last``."""
        attributes = (*op.properties.items(), *op.attributes.items())
        key = (op.name, tuple(op.operands), attributes, tuple(r.type for r in op.results))
        known = self.made.get(key)
        if known is not None:
            op.drop_all_references()
            self.last: Sequence[SSAValue] = [known]
            return
        op.location = origin.location
        self.block.add_op(op)
        self.last = op.results
        if len(op.results) == 1:
            self.made[key] = op.results[0]


def identity_source(op: ComputeOp) -> SSAValue | None:
    """The tensor that ``op`` copies element by element to the same shape (into another layout, say)."""
    value = op.yield_op.values[0].owner
    if len(op.results_) != 1 or op.reduce_extents.exprs or not isinstance(value, ReadOp):
        return None
    source = op.inputs[op.input_args.index(value.tensor)]
    if value.default is not None or shape_exprs(source.type) != op.extents.exprs:
        return None
    spatial = dict(zip(op.spatial_args, op.extents.exprs))
    if any(arg not in spatial for arg in value.args):
        return None
    index = value.map.apply([sym(f"i{op.spatial_args.index(arg)}") for arg in value.args])
    same = (e == sym(f"i{k}") or (extent == 1 and e == 0) for k, (e, extent) in enumerate(zip(index, op.extents.exprs)))
    return source if all(same) else None


def _needed_ops(op: ComputeOp) -> set[Operation]:
    """The ops whose results the yield depends on."""
    needed: set[Operation] = set()
    pending = list(op.yield_op.values)
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            pending += owner.operands
    return needed
