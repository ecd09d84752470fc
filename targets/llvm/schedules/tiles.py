"""Sizes of register tiles.

A contraction keeps ``rows x vectors`` accumulators in vector registers. A step of the reduction loads ``vectors``
vectors and ``rows`` scalars and does ``rows * vectors`` multiply-adds, so the tile wants to be large and near square.
The vectors of a step stay live while its rows go by, and each broadcast scalar takes a register for a moment: those
must fit beside the accumulators, or else the allocator moves accumulators through memory in the innermost loop.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """Accumulators of one register tile: rows (scalars) times vectors."""

    rows: int
    vectors: int


def register_tile(rows: int | None, vectors: int | None, registers: int) -> Tile:
    """The best tile for a contraction of ``rows`` by ``vectors`` in all (``None``: symbolic).

    Scores the work of a tile against its loads and against what tiles that do not divide the extents waste.
    """
    best, best_score = Tile(1, 1), 0.0
    for tile_vectors in range(1, min(vectors or 4, 6) + 1):
        for tile_rows in range(1, min(rows or 8, (registers - 1 - tile_vectors) // tile_vectors) + 1):
            score = _score(tile_rows, tile_vectors, rows, vectors)
            if score > best_score:
                best, best_score = Tile(tile_rows, tile_vectors), score
    return best


def _score(tile_rows: int, tile_vectors: int, rows: int | None, vectors: int | None) -> float:
    """Multiply-adds per cycle, roughly: two loads go with each multiply-add, and four are needed in flight to hide its
    latency; times the share of full tiles (a tail is code of its own, smaller and slower)."""
    work = tile_rows * tile_vectors
    loads = (tile_vectors + tile_rows) / 2
    cycles = max(work, loads, 4.0) + 0.25 * (tile_rows + tile_vectors)
    return work / cycles * _fit(tile_rows, rows) * _fit(tile_vectors, vectors)


def _fit(tile: int, extent: int | None) -> float:
    if extent is None or extent % tile == 0:
        return 1.0
    tail = extent % tile
    full = extent - tail
    return 0.97 * (full + 0.6 * tail) / extent


def divisor_at_most(extent: int, limit: int) -> int:
    """The largest divisor of ``extent`` that is at most ``limit``."""
    return max(d for d in range(1, min(extent, limit) + 1) if extent % d == 0)
