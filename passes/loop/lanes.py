"""The body of a vectorised loop, one operation after the other, for a given number of lanes: the emitter behind
``loop-vectorize``.

A value is *uniform* (one scalar for all lanes) or a vector. Uniform values become vectors
(``vector.broadcast``) only where they meet one.
"""

from __future__ import annotations

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DictionaryAttr, IndexType, VectorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from ...core.symbolic import SymExpr, const
from ...dialects.loop.ops import LANE_OPS, AllocOp, ForOp, IfOp, IndexOp, LanesOp, LoadOp, StoreOp
from .index import Exprs, IndexSpace
from .legality import COMBINING, combining_load


class NotVectorizableError(Exception):
    """Why a loop body has no vector form."""


class LaneEmitter:
    """Emits ``lanes`` iterations of a loop, from ``base`` on, as vector code before an operation."""

    def __init__(self, space: IndexSpace, loop: ForOp, base: int, lanes: int) -> None:
        self.space = space
        self.lane = space.name(loop.var)
        self.base = base
        self.lanes = lanes
        self.renamed: dict[str, SymExpr] = {self.lane: const(base)}
        self.values: dict[SSAValue, SSAValue] = {loop.var: loop.var}
        self.vectors: set[SSAValue] = set()
        self.reductions: dict[Operation, SSAValue] = {}
        """Combining operations of reductions over the lanes, with the accumulator's load."""

    def block(self, source: Block, target: Block) -> None:
        """Emit all operations of ``source`` at the end of ``target``."""
        for op in source.ops:
            if isinstance(op, StoreOp):
                self._find_reduction(op)
        for op in source.ops:
            self._operation(op, target)

    def _find_reduction(self, store: StoreOp) -> None:
        if self._depends(self.space.read(store, "map")) or store.where is not None:
            return
        found = combining_load(store)
        if found is not None and found[0].parent is store.parent:
            self.reductions[found[1]] = found[0].result

    def _operation(self, op: Operation, target: Block) -> None:
        if isinstance(op, LoadOp):
            self._load(op, target)
        elif isinstance(op, StoreOp):
            self._store(op, target)
        elif isinstance(op, IndexOp):
            self._index(op, target)
        elif isinstance(op, ForOp):
            self._for(op, target)
        elif isinstance(op, IfOp):
            self._if(op, target)
        elif isinstance(op, AllocOp) or op.regions or not is_side_effect_free(op) or len(op.results) != 1:
            raise NotVectorizableError(f"'{op.name}' has no vector form")
        else:
            self._element(op, target)

    # Values.

    def _use(self, value: SSAValue) -> SSAValue:
        found = self.values.get(value, value)
        if found is not value or value not in self.values:
            return found
        raise NotVectorizableError("the loop variable is used as a value")

    def _vector(self, value: SSAValue, target: Block) -> SSAValue:
        """The value as a vector."""
        new = self._use(value)
        if new in self.vectors:
            return new
        op = vector.BroadcastOp(new, VectorType(new.type, [self.lanes]))
        target.add_op(op)
        return self._mark(op.vector)

    def _mark(self, value: SSAValue) -> SSAValue:
        self.vectors.add(value)
        return value

    def _bind(self, old: SSAValue, new: SSAValue, is_vector: bool) -> None:
        new.name_hint = old.name_hint
        self.values[old] = new
        if is_vector:
            self.vectors.add(new)
        elif isinstance(new.type, IndexType):
            self.renamed[self.space.name(old)] = self.space.var(new)

    # Indices.

    def _depends(self, exprs: Exprs) -> bool:
        return any(self.lane in e.symbols() or not self._varying(e).isdisjoint(self.vectors) for e in exprs)

    def _varying(self, expr: SymExpr) -> set[SSAValue]:
        values = [self.space.value(n) for n in expr.symbols()]
        return {self.values.get(v, v) for v in values}

    def _at(self, exprs: Exprs, lane: int = 0) -> list[SymExpr]:
        """Expressions for one lane."""
        mapping = {**self.renamed, self.lane: const(self.base + lane)}
        return [self.space.simplify(e.subs(mapping)) for e in exprs]

    def _indices_vary(self, exprs: Exprs) -> bool:
        return any(not self._varying(e).isdisjoint(self.vectors) for e in exprs)

    def _is_consecutive(self, exprs: Exprs) -> bool:
        *outer, last = exprs
        return last.coefficient(self.lane) == 1 and all(self.lane not in e.symbols() for e in outer)

    # Memory.

    def _load(self, op: LoadOp, target: Block) -> None:
        index, where = self.space.read(op, "map"), self.space.read(op, "where")
        if self._indices_vary((*index, *where)):
            self._gather_by_values(op, target)
        elif not self._depends((*index, *where)) and not self._is_vector(op.default):
            self._bind(op.result, self._emit_load(op, 0, op.result.type, target, self._scalar(op.default)), False)
        elif index and self._is_consecutive(index) and not self._depends(where):
            type_ = VectorType(op.result.type, [self.lanes])
            default = None if op.default is None else self._vector(op.default, target)
            self._bind(op.result, self._emit_load(op, 0, type_, target, default), True)
        else:
            self._gather(op, target)

    def _is_vector(self, value: SSAValue | None) -> bool:
        return value is not None and self._use(value) in self.vectors

    def _scalar(self, value: SSAValue | None) -> SSAValue | None:
        return None if value is None else self._use(value)

    def _emit_load(self, op: LoadOp, lane: int, type_: Attribute, target: Block, default: SSAValue | None) -> SSAValue:
        index, where = self._at(self.space.read(op, "map"), lane), self._at(self.space.read(op, "where"), lane)
        args, maps = self.space.pack(index, where)
        new = LoadOp(self._use(op.memref), args, maps[0], maps[1] if where else None, default, type_)
        new.location = op.location
        target.add_op(new)
        return new.result

    def _gather(self, op: LoadOp, target: Block) -> None:
        """One scalar load per lane."""
        element = op.result.type
        loads: list[SSAValue] = []
        for lane in range(self.lanes):
            default = None if op.default is None else self._lane(op.default, lane, target)
            loads.append(self._emit_load(op, lane, element, target, default))
        self._bind(op.result, self._assemble(loads, target), True)

    def _assemble(self, scalars: list[SSAValue], target: Block) -> SSAValue:
        first = vector.BroadcastOp(scalars[0], VectorType(scalars[0].type, [self.lanes]))
        target.add_op(first)
        current: SSAValue = first.vector
        for lane, scalar in enumerate(scalars[1:], start=1):
            insert = vector.InsertOp(scalar, current, [lane])
            target.add_op(insert)
            current = insert.result
        return current

    def _lane(self, value: SSAValue, lane: int, target: Block) -> SSAValue:
        """The scalar of one lane."""
        new = self._use(value)
        if new not in self.vectors:
            return new
        assert isinstance(new.type, VectorType)
        extract = vector.ExtractOp(new, [lane], new.type.element_type)
        target.add_op(extract)
        return extract.result

    def _gather_by_values(self, op: LoadOp, target: Block) -> None:
        """Data-dependent indices: each lane takes its own."""
        element = op.result.type
        loads: list[SSAValue] = []
        for lane in range(self.lanes):
            saved = dict(self.renamed)
            for value in {v for e in self._all_exprs(op) for v in self._sources(e)}:
                scalar = self._lane(value, lane, target)
                self.renamed[self.space.name(value)] = self.space.var(scalar)
            default = None if op.default is None else self._lane(op.default, lane, target)
            loads.append(self._emit_load(op, lane, element, target, default))
            self.renamed = saved
        self._bind(op.result, self._assemble(loads, target), True)

    def _all_exprs(self, op: LoadOp | StoreOp) -> Exprs:
        return (*self.space.read(op, "map"), *self.space.read(op, "where"))

    def _sources(self, expr: SymExpr) -> list[SSAValue]:
        values = [self.space.value(n) for n in sorted(expr.symbols())]
        return [v for v in values if self.values.get(v, v) in self.vectors]

    def _store(self, op: StoreOp, target: Block) -> None:
        index, where = self.space.read(op, "map"), self.space.read(op, "where")
        if self._indices_vary((*index, *where)):
            raise NotVectorizableError("a store to data-dependent places has no vector form")
        if not self._depends((*index, *where)):
            if self._is_vector(op.value):
                raise NotVectorizableError("lanes store different values to one place")
            self._emit_store(op, 0, self._use(op.value), target)
        elif index and self._is_consecutive(index) and not self._depends(where):
            self._emit_store(op, 0, self._vector(op.value, target), target)
        else:
            for lane in range(self.lanes):
                self._emit_store(op, lane, self._lane(op.value, lane, target), target)

    def _emit_store(self, op: StoreOp, lane: int, value: SSAValue, target: Block) -> None:
        index, where = self._at(self.space.read(op, "map"), lane), self._at(self.space.read(op, "where"), lane)
        args, maps = self.space.pack(index, where)
        new = StoreOp(value, self._use(op.memref), args, maps[0], maps[1] if where else None)
        new.location = op.location
        target.add_op(new)

    # Everything else.

    def _index(self, op: IndexOp, target: Block) -> None:
        (expr,) = self.space.read(op, "map")
        if self._indices_vary((expr,)):
            raise NotVectorizableError("an index expression over data-dependent values has no vector form")
        scale = expr.coefficient(self.lane)
        (at_base,) = self._at((expr,))
        args, (map_,) = self.space.pack((at_base,))
        if scale == 0:
            scalar = IndexOp(args, map_)
            target.add_op(scalar)
            self._bind(op.result, scalar.result, False)
        elif scale == 1:
            consecutive = IndexOp(args, map_, VectorType(IndexType(), [self.lanes]))
            target.add_op(consecutive)
            self._bind(op.result, consecutive.result, True)
        else:
            self._bind(op.result, self._assemble(self._index_lanes(expr, target), target), True)

    def _index_lanes(self, expr: SymExpr, target: Block) -> list[SSAValue]:
        found: list[SSAValue] = []
        for lane in range(self.lanes):
            args, (map_,) = self.space.pack(self._at((expr,), lane))
            op = IndexOp(args, map_)
            target.add_op(op)
            found.append(op.result)
        return found

    def _for(self, op: ForOp, target: Block) -> None:
        extent = self.space.read(op, "extent")
        if self._depends(extent):
            raise NotVectorizableError("the extent of an inner loop depends on the lane")
        loop = self.space.new_loop(self._at(extent)[0], op.var.name_hint, op.kind.data)
        loop.attributes.update(op.attributes)
        loop.location = op.location
        self.renamed[self.space.name(op.var)] = self.space.var(loop.var)
        self.values[op.var] = loop.var
        self.block(op.body.block, loop.body.block)
        target.add_op(loop)

    def _if(self, op: IfOp, target: Block) -> None:
        where = self.space.read(op, "where")
        if self._depends(where):
            raise NotVectorizableError("a condition depends on the lane")
        args, (map_,) = self.space.pack(self._at(where))
        new = IfOp(args, map_, Region(Block()), None if op.orelse is None else Region(Block()))
        new.location = op.location
        self.block(op.body.block, new.body.block)
        if op.orelse is not None:
            assert new.orelse is not None
            self.block(op.orelse.block, new.orelse.block)
        target.add_op(new)

    def _element(self, op: Operation, target: Block) -> None:
        if op in self.reductions:
            self._reduce(op, target)
            return
        if not any(self._is_vector(v) for v in op.operands):
            new = op.clone({v: self._use(v) for v in op.operands})
            target.add_op(new)
            self._bind(op.results[0], new.results[0], False)
            return
        if isinstance(op, arith.SelectOp) and not self._is_vector(op.cond):
            operands = [self._use(op.cond), self._vector(op.lhs, target), self._vector(op.rhs, target)]
        else:
            operands = [self._vector(v, target) for v in op.operands]
        type_ = VectorType(op.results[0].type, [self.lanes])
        new = type(op).create(operands=operands, result_types=[type_], properties=dict(op.properties))
        if op.name in LANE_OPS and not _verifies(new):
            new.erase()
            new = LanesOp(op.name, operands, DictionaryAttr(dict(op.properties)), type_)
        new.location = op.location
        target.add_op(new)
        self._bind(op.results[0], new.results[0], True)

    def _reduce(self, op: Operation, target: Block) -> None:
        """x[i] = combine(x[i], lanes) --> x[i] = combine(x[i], reduction of lanes)."""
        accumulator = self.reductions[op]
        other = op.operands[1] if op.operands[0] is accumulator else op.operands[0]
        lanes = self._vector(other, target)
        assert isinstance(lanes.type, VectorType)
        kind = vector.CombiningKindAttr(vector.CombiningKindFlag(COMBINING[type(op)]))
        flags = arith.FastMathFlagsAttr("none")
        fold = vector.ReductionOp.create(
            operands=[lanes],
            result_types=[lanes.type.element_type],
            properties={"kind": kind, "fastmath": flags},
        )
        target.add_op(fold)
        new = type(op).create(
            operands=[self._use(accumulator), fold.results[0]],
            result_types=[op.results[0].type],
            properties=dict(op.properties),
        )
        target.add_op(new)
        self._bind(op.results[0], new.results[0], False)


def _verifies(op: Operation) -> bool:
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException:
        return False
    return True
