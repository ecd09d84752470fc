"""What stands inside the block of one ``te.compute``: loads, the element ops, and the store or the combination.

Index expressions of the compute are composed with the layouts of what is read, and simplified with the ranges of
the block's iterators. A guarded read becomes a guarded load with those ``where`` pairs that ranges cannot prove.

A reduction stores its identity in the block's init region; the body loads the accumulator, combines, and stores.
The pairs of argmax and argmin combine in any order: the more extreme value wins, of equal ones the smaller index;
NaN is the most extreme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr, MemRefType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ...core.attributes import IndexMapAttr
from ...core.symbolic import SymExpr
from ...dialects.loop.ops import BlockOp, LoadOp, StoreOp
from ...dialects.loop.ops import IndexOp as LoopIndexOp
from ...dialects.te.ops import COMBINERS, ComputeOp, IndexOp, ReadOp
from .graph_to_te.elements import Elem, ElementCode, highest, is_float, lowest
from .index_scope import IndexScope

Exprs = tuple[SymExpr, ...]


@dataclass(frozen=True)
class Buffer:
    """A memref in place of a tensor: its logical shape, and the layout that leads to its physical index."""

    memref: SSAValue
    shape: Exprs
    layout: IndexMapAttr

    @property
    def element_type(self) -> Attribute:
        """Type of one element."""
        assert isinstance(self.memref.type, MemRefType)
        element: Attribute = self.memref.type.element_type
        return element


def emit_block_body(
    op: ComputeOp,
    block: BlockOp,
    inputs: Mapping[SSAValue, Buffer],
    outputs: Sequence[Buffer],
    scope: IndexScope,
    logical: Exprs,
    reduce: Exprs,
) -> None:
    """Fills the block's regions; ``logical`` and ``reduce`` are the compute's indices over the block's iterators."""
    indices = dict(zip((*op.spatial_args, *op.reduce_args), (*logical, *reduce)))
    body = _BodyConversion(ElementCode(block.body.block), scope, inputs, indices, op.location)
    for inner in op.body.block.ops:
        if inner is not op.yield_op:
            body.convert(inner)
    values = [body.value(v) for v in op.yield_op.values]
    store = _OutputAccess(body.code, scope, outputs, logical, op.location)
    combiners = op.yield_op.combiner_names
    if not combiners:
        store.store(values)
    else:
        accumulators = store.load()
        elements = [body.code.from_storage(v, b.element_type) for v, b in zip(values, outputs)]
        combined = combine(body.code, combiners, accumulators, elements)
        store.store([body.code.to_storage(x) for x in combined])
        assert block.init is not None
        _emit_init(block.init.block, combiners, store)
    for region in block.regions:
        for inner in region.block.ops:
            inner.location = op.location


def emit_copy_body(
    block: BlockOp, source: Buffer, target: Buffer, scope: IndexScope, logical: Exprs
) -> None:
    """``target[i] = source[i]``."""
    code = ElementCode(block.body.block)
    access = _OutputAccess(code, scope, [source], logical, block.location)
    value = access.load()[0]
    _OutputAccess(code, scope, [target], logical, block.location).store([code.to_storage(value)])


def emit_identities(
    op: ComputeOp, block: BlockOp, outputs: Sequence[Buffer], scope: IndexScope, logical: Exprs
) -> None:
    """A reduction over nothing."""
    access = _OutputAccess(ElementCode(block.body.block), scope, outputs, logical, op.location)
    access.store_identities(op.yield_op.combiner_names)
    for inner in block.body.block.ops:
        inner.location = op.location


@dataclass
class _BodyConversion:
    """Maps the values of the compute's body to values in the block."""

    code: ElementCode
    scope: IndexScope
    inputs: Mapping[SSAValue, Buffer]
    indices: dict[SSAValue, SymExpr]
    """Index values that are expressions over the block's iterators."""
    location: LocationAttr
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)

    def convert(self, op: Operation) -> None:
        if isinstance(op, ReadOp):
            self.values[op.result] = self._load(op)
        elif isinstance(op, IndexOp):
            (expr,) = op.map.apply([self.index(a) for a in op.args])
            self.indices[op.result] = self.scope.simplified(expr)
        else:
            for operand in op.operands:
                self.values[operand] = self.value(operand)
            self.code.block.add_op(op.clone(self.values))

    def value(self, value: SSAValue) -> SSAValue:
        """The value in the block; an index expression is computed where it is first needed as a value."""
        if value not in self.values and value in self.indices:
            args, map_ = self.scope.operands([self.indices[value]])
            if map_.is_identity:
                self.values[value] = args[0]
            else:
                self.values[value] = self.code.emit(LoopIndexOp(args, map_)).value
        return self.values[value]

    def index(self, value: SSAValue) -> SymExpr:
        """The expression of an index value; a data-dependent one gets a name of its own."""
        if value not in self.indices:
            self.indices[value] = self.scope.add("v", self.values[value])
        return self.indices[value]

    def _load(self, op: ReadOp) -> SSAValue:
        buffer = self.inputs[op.tensor]
        logical = [self.scope.simplified(e) for e in op.map.apply([self.index(a) for a in op.args])]
        guards = self.scope.guards(logical, buffer.shape) if op.default is not None else []
        physical = [self.scope.simplified(e) for e in buffer.layout.apply(logical)]
        args, both = self.scope.operands((*physical, *guards))
        rank = len(physical)
        where = IndexMapAttr(both.num_inputs, both.results[rank:]) if guards else None
        default = self.value(op.default) if guards and op.default is not None else None
        access = IndexMapAttr(both.num_inputs, both.results[:rank])
        return self.code.emit(LoadOp(buffer.memref, args, access, where, default)).value


@dataclass
class _OutputAccess:
    """Loads and stores of the element that the block's iterators stand on."""

    code: ElementCode
    scope: IndexScope
    outputs: Sequence[Buffer]
    logical: Exprs
    location: LocationAttr

    def _operands(self, buffer: Buffer) -> tuple[list[SSAValue], IndexMapAttr]:
        return self.scope.operands(self.scope.simplified(e) for e in buffer.layout.apply(self.logical))

    def load(self) -> list[Elem]:
        """The present elements."""
        loaded = [LoadOp(b.memref, *self._operands(b)) for b in self.outputs]
        return [
            self.code.from_storage(self.code.emit(op).value, b.element_type)
            for op, b in zip(loaded, self.outputs)
        ]

    def store(self, values: Sequence[SSAValue]) -> None:
        for value, buffer in zip(values, self.outputs):
            self.code.block.add_op(StoreOp(value, buffer.memref, *self._operands(buffer)))


    def store_identities(self, combiners: Sequence[str]) -> None:
        """What the combiners start from."""
        elements = [
            self.code.constant(number, buffer.element_type)
            for number, buffer in zip(identities(combiners, self.outputs), self.outputs)
        ]
        self.store([self.code.to_storage(x) for x in elements])


def _emit_init(init: Block, combiners: Sequence[str], body: _OutputAccess) -> None:
    """Stores the identities; the init region has iterators of its own, in the same order."""
    scope = IndexScope()
    for name, value in body.scope.values.items():
        if isinstance(value, BlockArgument) and value.block is body.code.block:
            value = init.args[value.index]
        scope.bind(name, value, body.scope.ranges[name])
    scope.extents = body.scope.extents
    for arg, of_body in zip(init.args, body.code.block.args):
        arg.name_hint = of_body.name_hint
    access = _OutputAccess(ElementCode(init), scope, body.outputs, body.logical, body.location)
    access.store_identities(combiners)


def identities(combiners: Sequence[str], outputs: Sequence[Buffer]) -> list[float | int]:
    """What each accumulator starts from; an index starts at the largest, which loses every comparison."""
    result: list[float | int] = []
    for name in combiners:
        element = outputs[len(result)].element_type
        if name in ("sum", "or"):
            result.append(0)
        elif name == "prod":
            result.append(1)
        elif name == "and":
            result.append(-1)
        else:
            result.append(highest(element) if name in ("min", "argmin") else lowest(element))
        if COMBINERS[name] == 2:
            result.append(highest(outputs[len(result)].element_type))
    return result


_BINARY = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or"}


def combine(
    code: ElementCode, combiners: Sequence[str], accumulators: Sequence[Elem], values: Sequence[Elem]
) -> list[Elem]:
    """The accumulators after taking ``values`` in."""
    result: list[Elem] = []
    for name in combiners:
        position = len(result)
        if COMBINERS[name] == 1:
            result.append(code.binary(_BINARY[name], accumulators[position], values[position]))
            continue
        best, best_index = accumulators[position : position + 2]
        value, index = values[position : position + 2]
        wins = code.compare("gt" if name == "argmax" else "lt", value, best)
        ties = code.compare("eq", value, best)
        if is_float(value.type):
            value_nan, best_nan = code.compare("ne", value, value), code.compare("ne", best, best)
            wins = wins | (value_nan & code.logical_not(best_nan))
            ties = ties | (value_nan & best_nan)
        takes = wins | (ties & code.compare("lt", index, best_index))
        result += [code.select(takes, value, best), code.select(takes, index, best_index)]
    return result
