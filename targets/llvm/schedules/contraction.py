"""Contractions: matrix products and windows of weights slid over data, with what is done to each result (the epilogue).

    for rows, columns: for reduction: acc += scalar * vector          (block C)
    for rows, columns: out = epilogue(acc)                            (block E)
-->
    parallel for tiles of columns and rows:
      acc[tile] = 0                                                   registers
      for outer reduction: for window: for inner reduction:
        for tile rows (unrolled): for tile vectors (unrolled): acc += broadcast(scalar) * vector
      out[tile] = epilogue(acc[tile])

The vector operand is packed when it is a constant of the model, so that a tile reads it front to back. The sums stay in
registers because the tile loops are unrolled and the buffer is local. Loop order decides what stays in the caches:
weights that fit the second-level cache are read again for each row of the data, larger ones are outermost and read
once.
"""

from __future__ import annotations

from ....core.attributes import IndexMapAttr
from ....core.symbolic import SymExpr, sym
from ....core.target import TargetInfo, element_bits
from ....dialects.loop.ops import BlockOp, ForOp
from ....passes.loop.schedule import Schedule, ScheduleError
from .lanes import constant_reads_by_lane, is_constant
from .shape import BlockShape, Contraction
from .sharing import iterations, share, worth_sharing
from .tiles import Tile, divisor_at_most, register_tile


class ContractionRule:
    """Schedules one contraction together with its epilogue, if it has one with the same iteration space."""

    def __init__(self, s: Schedule, info: TargetInfo, found: Contraction, epilogue: BlockOp | None) -> None:
        self.s = s
        self.info = info
        self.found = found
        self.shape = found.shape
        self.block = found.shape.block
        self.epilogue = epilogue
        element = found.shape.written_element
        self.lanes = info.vector_lanes(element)
        self.element_bytes = element_bits(element) // 8
        self.lane_extent = self.shape.extent(found.lane)
        self.row = self._row_iterator()
        self.block_column = self._block_column()

    def apply(self) -> None:
        """Write the schedule's steps."""
        tile = self._tile()
        inner = self._inner_reduction()
        self._pack(tile, inner)
        anchor = self.epilogue if self.epilogue is not None else self.s.cache_write(self.block, 0, "local")
        constant_reads_by_lane(self.s, anchor, self.found.lane)
        outer, at, tile_loops = self._tile_anchor(anchor, tile)
        self.s.compute_at(self.block, at)
        self._order_reduction(tile, inner)
        self.s.set_scope(self.block, 0, "local")
        for loop in tile_loops[:-1]:
            self._unroll(loop)
        self._vectorize(tile_loops[-1])
        self._parallel(outer)

    # Choices.

    def _row_iterator(self) -> int | None:
        """The iterator that gives a tile its rows: the innermost one that only the scalar read moves with; where both
        reads are vectors, the innermost one that the weights stand still for."""
        candidates = [i for i in self.found.rows if self.shape.extent(i) != 1]
        return candidates[-1] if candidates else None

    def _block_column(self) -> int | None:
        """The iterator over whole vectors beside the lanes: the blocks of a blocked layout."""
        if self.found.lanewise or (self.lane_extent or 0) > self.lanes:
            return None
        others = [i for i in self.found.columns if i != self.found.lane and self.shape.extent(i) != 1]
        return others[-1] if others else None

    def _vectors(self) -> int | None:
        """How many vectors there are along the columns."""
        if self.block_column is not None:
            return self.shape.extent(self.block_column)
        if self.found.lanewise:
            return 1
        return None if self.lane_extent is None else max(1, self.lane_extent // self.lanes)

    def _tile(self) -> Tile:
        rows = 1 if self.row is None else self.shape.extent(self.row)
        tile = register_tile(rows, self._vectors(), self.info.vector_registers)
        if rows == 1 and self.block_column is None and not self.found.lanewise:
            vectors = self._vectors() or 8
            jobs = max(1, vectors // (4 * self.info.cores))
            return Tile(1, min(8, jobs, vectors))
        return tile

    def _inner_reduction(self) -> int:
        """Block of the long reduction that stays inside the windows: a vector's worth, if it divides."""
        if len(self.shape.reduce) == 1:
            return 1
        extent = self.shape.extent(self._long_reduction())
        return 1 if extent is None else divisor_at_most(extent, self.lanes)

    def _long_reduction(self) -> int:
        """The reduction that is no window: the first one."""
        return self.shape.reduce[0]

    # Steps.

    def _pack(self, tile: Tile, inner: int) -> None:
        """The vector operand in the order in which a tile reads it."""
        vector = self.found.vector
        if not is_constant(self.s, vector.buffer):
            return
        width = tile.vectors * min(self.lanes, self.lane_extent or self.lanes)
        dims = [sym(f"d{i}") for i in range(len(vector.index))]
        column = self._dim_of(vector.index, self.found.lane)
        if column is None:
            return
        long = self._dim_of(vector.index, self._long_reduction())
        order: list[SymExpr] = [dims[column] // width]
        if long is not None:
            order.append(dims[long] // inner)  # the whole dimension where inner is 1
        order += [d for i, d in enumerate(dims) if i not in (column, long)]
        if long is not None and inner > 1:
            order.append(dims[long] % inner)
        order.append(dims[column] % width)
        number = self.s.read_buffers(self.block).index(vector.buffer)
        try:
            self.s.transform_layout(self.block, "read", number, IndexMapAttr(len(dims), tuple(order)))
        except ScheduleError:
            return

    def _dim_of(self, index: tuple[SymExpr, ...], iterator: int) -> int | None:
        """The one dimension of an access that moves with an iterator."""
        name = self.shape.names[iterator]
        found = [d for d, e in enumerate(index) if name in e.symbols()]
        return found[0] if len(found) == 1 else None

    def _tile_anchor(self, anchor: BlockOp, tile: Tile) -> tuple[list[ForOp], ForOp, list[ForOp]]:
        """Tile the loops of the block that is computed last; gives the outer loops, the loop that holds a tile, and the
        tile's loops, lanes last."""
        loops = dict(zip(self.shape.spatial, self.s.get_loops(anchor)[-len(self.shape.spatial) :]))
        tile_loops: list[ForOp] = []
        row_outer = column_outer = None
        if self.row is not None and tile.rows > 1:
            row_outer, row_inner = self.s.split(loops.pop(self.row), [None, tile.rows])
            tile_loops.append(row_inner)
        lane = loops.pop(self.found.lane)
        width = min(self.lanes, self.lane_extent or self.lanes)
        if self.block_column is not None:
            column_outer, block = self.s.split(loops.pop(self.block_column), [None, tile.vectors])
            tile_loops += [block, lane]
        elif self.lane_extent is None or self.lane_extent > width:
            column_outer, block, lane = self.s.split(lane, [None, tile.vectors, width])
            tile_loops += [block, lane]
        else:
            tile_loops.append(lane)
        outer = self._outer_order(loops, row_outer, column_outer)
        self.s.reorder(*outer, *tile_loops)
        return outer, outer[-1], tile_loops

    def _outer_order(self, rest: dict[int, ForOp], row: ForOp | None, column: ForOp | None) -> list[ForOp]:
        """Shared dimensions first; then rows before columns if the weights fit the cache, columns first if not."""
        shared = [rest.pop(i) for i in self.found.shared if i in rest]
        columns = [rest.pop(i) for i in self.found.columns if i in rest] + ([column] if column is not None else [])
        rows = list(rest.values())
        inner_row = [row] if row is not None else []
        if self._vector_bytes() <= self.info.l2_bytes // 2 and rows:
            ordered = [*shared, *rows, *columns, *inner_row]
        else:
            ordered = [*shared, *columns, *rows, *inner_row]
        if not ordered:
            raise ScheduleError("has no loop to hold a tile", self.block)
        return ordered

    def _vector_bytes(self) -> int:
        total = self.element_bytes
        for iterator in (*self.found.columns, *self.shape.reduce):
            total *= self.shape.extent(iterator) or 1
        return total

    def _order_reduction(self, tile: Tile, inner: int) -> None:
        """Inside a tile: reduction blocks, windows, the inner reduction, tile rows, tile vectors, lanes."""
        loops = self.s.get_loops(self.block)[-len(self.shape.names) :]
        spatial = {i: loops[i] for i in self.shape.spatial}
        reduce = {i: loops[i] for i in self.shape.reduce}
        long = reduce.pop(self._long_reduction())
        lane = spatial.pop(self.found.lane)
        row = spatial.pop(self.row) if self.row is not None else None
        width = min(self.lanes, self.lane_extent or self.lanes)
        vectors: list[ForOp] = []
        if self.block_column is not None:
            vectors = [spatial.pop(self.block_column)]
        elif self.lane_extent is None or self.lane_extent > width:
            block, lane = self.s.split(lane, [None, width])
            vectors = [block]
        head: list[ForOp]
        tail: list[ForOp]
        if reduce and inner > 1:
            outer_long, inner_long = self.s.split(long, [None, inner])
            head, tail = [outer_long], [inner_long]
        else:
            head, tail = [long], []
        rows = [row] if row is not None else []
        order = [*spatial.values(), *head, *reduce.values(), *tail, *rows, *vectors, lane]
        self.s.reorder(*order)
        self._vectorize(lane)
        for loop in (*vectors, *rows):
            self._unroll(loop)
        if self.found.lanewise:
            for loop in reduce.values():
                self._unroll(loop)

    def _unroll(self, loop: ForOp) -> None:
        if (self.s.constant_extent(loop) or 0) > 1:
            self.s.unroll(loop)

    def _vectorize(self, loop: ForOp) -> None:
        if (self.s.constant_extent(loop) or 0) > 1:
            self.s.vectorize(loop)

    def _parallel(self, outer: list[ForOp]) -> None:
        """Threads share the outer loops, all but the innermost one, which walks along a row."""
        if worth_sharing(self.shape):
            enough = iterations(self.s, outer[:-1]) >= 4 * self.info.cores
            share(self.s, outer[:-1] if len(outer) > 1 and enough else outer)


def epilogue_of(s: Schedule, shape: BlockShape) -> BlockOp | None:
    """The one block that takes each result of ``shape``'s block where it was computed, if there is such a block."""
    consumers = s.consumers(shape.block)
    if len(consumers) != 1 or len(shape.writes) != 1:
        return None
    consumer = BlockShape(s, consumers[0])
    if consumer.is_reduction or len(consumer.spatial) != len(shape.spatial) or consumer.lane is None:
        return None
    if [consumer.domains[i] for i in consumer.spatial] != [shape.domains[i] for i in shape.spatial]:
        return None
    place = [consumer.names[i] for i in consumer.spatial]
    written = [shape.names[i] for i in shape.spatial]
    expected = tuple(e.subs({w: sym(p) for w, p in zip(written, place)}) for e in shape.writes[0].index)
    mine = [r for r in consumer.reads if r.buffer is shape.writes[0].buffer]
    return consumers[0] if mine and all(r.index == expected for r in mine) else None
