"""What a schedule rule sees of a block: which iterators each access depends on, and how.

A *contraction* is a block that sums products of two reads: matrix products, and everything that slides a window of
weights over data. Its two reads are told apart by the *lane* iterator, the one along which results are consecutive in
memory: the *vector* read depends on it, the *scalar* read does not and is broadcast to all lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.arith import AddfOp, AddiOp, MulfOp, MuliOp
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from ....core.symbolic import SymExpr
from ....dialects.loop.ops import BlockOp, LoadOp, StoreOp
from ....passes.loop.schedule import Schedule


@dataclass(frozen=True)
class Access:
    """A read or write of a block: its op and its index expressions over the names of the block's iterators."""

    op: LoadOp | StoreOp
    buffer: SSAValue
    index: tuple[SymExpr, ...]

    def depends_on(self, name: str) -> bool:
        """Whether any index moves with the iterator."""
        return any(name in e.symbols() for e in self.index)


class BlockShape:
    """Iterators and accesses of one block."""

    def __init__(self, s: Schedule, block: BlockOp) -> None:
        self.block = block
        self.names = tuple(s.space.name(v) for v in block.body.block.args)
        self.domains = s.space.read(block, "domains")
        kinds = block.iter_kinds
        self.spatial = tuple(i for i, k in enumerate(kinds) if k == "spatial")
        self.reduce = tuple(i for i, k in enumerate(kinds) if k == "reduce")
        written = s.written_buffers(block)
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        for op in block.body.walk():
            if isinstance(op, LoadOp) and op.memref not in written:
                self.reads.append(Access(op, op.memref, s.space.read(op, "map")))
            elif isinstance(op, StoreOp):
                self.writes.append(Access(op, op.memref, s.space.read(op, "map")))

    def extent(self, iterator: int) -> int | None:
        """The extent of an iterator where it is a number."""
        domain = self.domains[iterator]
        return domain.const_value() if domain.is_const() else None

    @property
    def points(self) -> int | None:
        """How many points the block has, where all extents are numbers."""
        total = 1
        for i in range(len(self.names)):
            extent = self.extent(i)
            if extent is None:
                return None
            total *= extent
        return total

    @property
    def lane(self) -> int | None:
        """The spatial iterator along which the write is consecutive in memory: the innermost one with more than one
        point, if it moves the write's last index (but for trailing dimensions of size 1) by one."""
        if len(self.writes) != 1 or not self.spatial:
            return None
        write = self.writes[0]
        wide = [i for i in self.spatial if self.extent(i) != 1]
        if not wide:
            return None
        position = last_wide_dim(write.buffer.type)
        if position is None or write.index[position].coefficient(self.names[wide[-1]]) != 1:
            return None
        return wide[-1]

    @property
    def written_element(self) -> Attribute:
        """The element type of what the block writes."""
        type_ = self.writes[0].buffer.type
        assert isinstance(type_, MemRefType)
        element: Attribute = type_.element_type
        return element

    @property
    def is_reduction(self) -> bool:
        """Whether the block combines over some iterator."""
        return bool(self.reduce)


def last_wide_dim(type_: Attribute) -> int | None:
    """The innermost dimension of a memref that has not size 1."""
    assert isinstance(type_, MemRefType)
    shape = type_.get_shape()
    return next((i for i in range(len(shape) - 1, -1, -1) if shape[i] != 1), None)


@dataclass(frozen=True)
class Contraction:
    """A block that sums products, seen from its lane iterator; numbers are iterators of the block.

    ``scalar`` is broadcast, ``vector`` moves with the lanes. ``rows`` are spatial iterators of the scalar read alone,
    ``columns`` of the vector read alone (the lane is one of them), ``shared`` of both. Where both reads move with the
    lanes (``lanewise``), ``vector`` is the one that is constant or smaller, and lanes are shared.
    """

    shape: BlockShape
    lane: int
    scalar: Access
    vector: Access
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    shared: tuple[int, ...]
    lanewise: bool


def find_contraction(shape: BlockShape) -> Contraction | None:
    """The block as a contraction, or ``None``."""
    lane = shape.lane
    reads = _factors(shape)
    if lane is None or reads is None or not shape.reduce:
        return None
    name = shape.names[lane]
    moving = [r for r in reads if r.depends_on(name)]
    if not moving:
        return None
    if len(moving) == 2:
        vector, scalar = _smaller_first(reads)
    else:
        vector, scalar = moving[0], next(r for r in reads if r is not moving[0])
    rows: list[int] = []
    columns: list[int] = []
    shared: list[int] = []
    for i in shape.spatial:
        by_scalar, by_vector = scalar.depends_on(shape.names[i]), vector.depends_on(shape.names[i])
        (shared if by_scalar and by_vector else columns if by_vector else rows).append(i)
    return Contraction(
        shape, lane, scalar, vector, tuple(rows), tuple(columns), tuple(shared), lanewise=len(moving) == 2
    )


def _factors(shape: BlockShape) -> tuple[Access, Access] | None:
    """The two reads whose product the block sums."""
    if len(shape.writes) != 1:
        return None
    store = shape.writes[0].op
    assert isinstance(store, StoreOp)
    total = store.value.owner
    if not isinstance(total, AddfOp | AddiOp):
        return None
    for operand in total.operands:
        product = operand.owner
        if isinstance(product, MulfOp | MuliOp):
            found = [next((r for r in shape.reads if r.op is _load(v)), None) for v in product.operands]
            if found[0] is not None and found[1] is not None and found[0] is not found[1]:
                return found[0], found[1]
    return None


def _load(value: SSAValue) -> Operation | None:
    owner = value.owner
    return owner if isinstance(owner, LoadOp) else None


def _smaller_first(reads: tuple[Access, Access]) -> tuple[Access, Access]:
    first, second = reads
    return (first, second) if _elements(first.buffer.type) <= _elements(second.buffer.type) else (second, first)


def _elements(type_: Attribute) -> int:
    assert isinstance(type_, MemRefType)
    total = 1
    for extent in type_.get_shape():
        total *= max(extent, 1)
    return total
