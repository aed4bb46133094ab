"""Register tiles of matrix products, and the layout that suits all targets.

Notation
    L lanes of a vector, R registers, ``v`` vectors of columns by ``t`` rows of accumulators: each
    step of the reduction loads ``v`` vectors and broadcasts ``t`` values.

Cost in cycles of one step                                                     -> `_cycles`
    step = max(v t / fmas, v bytes / stream, (v + t) / 2, latency)

    Tiles of more than `_ROWS` rows, or of `_ROWS` that are all, make the left side a stage,
    which is charged.

Memory
    Weights beyond the second-level cache come at `_MEMORY` bytes a cycle. One tile of rows asks
    for them ahead (`prefetch`) and takes max(work, bytes / memory); of several, the first one
    waits and the others find them in the caches: work + bytes / memory.

Constraint as in `tiling`: v t + v + t <= R + folded; but a few rows of constants that come from
memory may take all registers (`_hidden`), on cores where that pays (`VectorUnit.spills`).

`choose_product_layout` takes the layout whose tiles cost all targets least together.

Derivation: docs/method/product-tiles.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

_ROWS = 8
_MOST_VECTORS = 4
# Bytes a cycle from main memory to one core (41 GB/s at about 4 GHz here) and cycles to pack a
# value of the left side (a guess).
_MEMORY = 10.0
_PACK = 1.0
# Weights of which a tile takes a part of each block come so much slower from memory, and a step
# whose accumulators do not all stay in registers takes so much longer (1 to 8 rows by 4096 x 4096,
# ms: 4 x 1 1.51; 2 x 4 1.90, 4 x 4 1.59; 1 x 8 2.03, 2 x 8 1.96, 4 x 8 1.71; Zen 5).
_PARTLY, _SPILLS = 1.2, 1.5
# Share of ``stream`` that a panel of columns comes with, from the second-level cache (C loops:
# tiles of 3 x 4 and 4 x 4 got 23 to 26 bytes a cycle) and from beyond (a guess).
_PANEL_NEAR, _PANEL_FAR = 0.75, 0.5
_MOST_POINTS_TO_PAD = 16
_MOST_POINTS_IN_A_PANEL = 32
# Rows that only fill a tile must gain this much: their addresses take registers.
_PADDING = 1.05


@dataclass(frozen=True)
class Extents:
    """What a choice depends on: rows, columns, reduction; bytes of one value on the right."""

    rows: int
    columns: int
    depth: int
    bytes_each: int = 4


@dataclass(frozen=True)
class ProductTile:
    """``vectors`` registers of columns by ``rows``; ``cycles`` for the whole product."""

    vectors: int
    rows: int
    cycles: float


@dataclass(frozen=True)
class ProductLayout:
    """``block`` columns side by side, rows padded to ``points``, left side packed if ``tall``."""

    block: int
    points: int
    tall: bool


@lru_cache(maxsize=65536)
def product_tile(block: int, points: int, extents: Extents, unit: VectorUnit) -> ProductTile | None:
    """The cheapest tile that divides ``block`` columns and ``points`` rows, None without one."""
    if block % unit.lanes:
        return None
    tiles = [
        ProductTile(v, t, _cycles(v, t, block, points, extents, unit))
        for v in range(1, block // unit.lanes + 1)
        for t in range(1, min(points, unit.registers) + 1)
        if block // unit.lanes % v == 0
        and points % t == 0
        and (t <= _ROWS or points <= _MOST_POINTS_IN_A_PANEL)
        and (
            v * t + v + t <= unit.registers + unit.folded
            or _hidden(v, t, block, points, extents, unit)
        )
    ]
    return min(
        tiles,
        key=lambda tile: (round(tile.cycles), -tile.vectors * tile.rows, tile.rows),
        default=None,
    )


def _hidden(
    vectors: int, rows: int, block: int, points: int, extents: Extents, unit: VectorUnit
) -> bool:
    """True where accumulators may spill: a few rows of a whole block, which wait for memory."""
    whole = vectors * unit.lanes == block and rows == points <= _ROWS
    step = max(vectors * rows / unit.fmas, unit.latency)
    arrives = block * extents.bytes_each / _MEMORY
    large = extents.columns * extents.depth * extents.bytes_each > unit.l2
    fits = whole and large and vectors * rows <= unit.registers
    return unit.spills and fits and _SPILLS * step <= arrives


def _cycles(
    vectors: int, rows: int, block: int, points: int, extents: Extents, unit: VectorUnit
) -> float:
    columns = -(-extents.columns // block) * block
    panel = extents.depth * vectors * unit.bits // 8
    stream = unit.stream * (_PANEL_NEAR if panel <= unit.l2 // 2 else _PANEL_FAR)
    step = max(
        vectors * rows / unit.fmas,
        vectors * unit.bits / 8 / stream,
        (vectors + rows) / 2,
        unit.latency,
    )
    passes = points // rows
    each = extents.depth * step * columns / (vectors * unit.lanes)
    whole = extents.columns % (vectors * unit.lanes) == 0
    store = (unit.store_vector if whole else unit.store_value) * columns * points
    weights = extents.columns * extents.depth * extents.bytes_each
    memory = weights / _MEMORY if weights > unit.l2 else 0.0
    memory *= 1.0 if vectors * unit.lanes == block else _PARTLY
    packing = _PACK * points * extents.depth if rows > _ROWS else 0.0
    waiting = max(each, memory) if passes == 1 else each + memory
    return each * (passes - 1) + waiting + store + packing


@lru_cache(maxsize=65536)
def choose_product_layout(
    extents: Extents, units: tuple[VectorUnit, ...], block: int | None = None
) -> ProductLayout | None:
    """The layout that costs all targets least together; None where some unit has no tile.

    Parameters
    ----------
    extents
        Of the product.
    units
        Vector units of the targets, widest first.
    block
        Fixes the columns of a block.
    """
    lanes = units[0].lanes
    # The widest unit's tile is the block, so that its panel is one piece of memory.
    blocks = [lanes * v for v in range(1, _MOST_VECTORS + 1)] if block is None else [block]
    padding = min(_MOST_POINTS_TO_PAD, max(1, extents.rows)) if extents.rows > 2 else 1
    best: tuple[float, int, int] | None = None
    for points in range(extents.rows, extents.rows + padding):
        for width in blocks:
            tiles = [product_tile(width, points, extents, unit) for unit in units]
            if any(tile is None for tile in tiles) or not _streams(tiles[0], width, lanes):
                continue
            cost = sum(tile.cycles for tile in tiles if tile is not None)
            cost *= 1.0 if points == extents.rows else _PADDING
            key = (round(cost), points, -width)
            best = key if best is None else min(best, key)
    if best is None:
        return None
    _, points, width = best[0], best[1], -best[2]
    tall = any(
        tile.rows > _ROWS or tile.rows == points == _ROWS
        for tile in (product_tile(width, points, extents, unit) for unit in units)
        if tile is not None
    )
    return ProductLayout(width, points, tall)


def _streams(tile: ProductTile | None, block: int, lanes: int) -> bool:
    return tile is not None and tile.vectors * lanes == block
