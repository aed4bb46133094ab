"""The register tile of a packed multiply-accumulate, and what it should cost.

Problem
    Convolutions and matrix products with packed weights are one loop nest:
    ``acc[p, c] += data[p, k] * weight[k, c]`` over points ``p`` (columns of a row, or rows of a
    matrix), output channels ``c`` and the reduction ``k``. A tile of accumulators stays in the
    vector registers for the whole reduction. Which loop becomes the lanes of the vectors, and
    how large is the tile?

Notation
    L lanes of a vector, R registers; ``v`` vectors and ``t`` scalars span the tile: each step
    of ``k`` loads ``v`` vectors, broadcasts ``t`` values and does ``v * t`` multiply-adds.
    Lanes are output channels (the broadcast values are data), or points (the broadcast values
    are weights).

Cost, in cycles for each accumulated value; constants from `facts`, here those of x86
    step    = max(v t / 2, v L / 8, 4.5) + v / 4
              v L / 8: the vectors come from the second-level cache, 32 bytes a cycle
              4.5: one accumulator waits for itself, 4 cycles and some slack
              v / 4: a vector needs a load of its own, a broadcast folds into the FMA
    value   = depth * step / (v t L) + store
    store   = 0.15 where the lanes are contiguous in the output (whole vectors), else 1.2
              (points are, for NCHW; channels are, for a matrix)
The constants were set by hand, so that the order of the tiles agrees with sweeps on one loaded
Zen 5 machine (512 to 512 3x3 at 14x14 and 7x7, 512 to 1000 1x1 at 13x13, 256 to 64 1x1 at
56x56); they are no fit and predict no absolute times. Seen there at 14x14: with AVX-512 1 x 14
reached 258 GFLOP/s, 2 x 7 246, 4 x 2 108; with AVX2 2 x 5 118, 1 x 8 102, 8 x 1 55. The cost
of storing single values was read off one case (64 to 256, 1x1); 32 bytes a cycle is assumed.

Constraint
    v t + v + t <= R + 3. All operands alive at once would be ``<= R``; three more are free
    since a load folds into the instruction. Larger tiles were much slower (3x3, 64 to 64:
    2 x 14 on AVX-512 105 GFLOP/s against 250 for 2 x 7; 2 x 6 on AVX2 60 against 134 for
    2 x 5), presumably since LLVM spills; the assembly was not looked at.

`plan_tile` minimises the cost over all tiles that divide the loops; ties go to the larger tile,
then to channels as lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from .facts import VectorUnit

Lanes = Literal["channels", "points"]


@dataclass(frozen=True)
class Tile:
    """A register tile: ``vectors`` registers along ``lanes``, ``scalars`` along the other loop.

    Attributes
    ----------
    cycles
        Estimated core cycles for each accumulated value, its store included.
    """

    lanes: Lanes
    vectors: int
    scalars: int
    cycles: float


@lru_cache(maxsize=65536)
def plan_tile(
    block: int, points: int, depth: int, unit: VectorUnit, contiguous: Lanes = "points"
) -> Tile | None:
    """The cheapest tile that divides ``block`` channels and ``points`` points.

    Parameters
    ----------
    block
        Channels that stand together in the packed weights.
    points
        Extent of the loop over points.
    depth
        Length of the reduction.
    unit
        The vector unit.
    contiguous
        Which of the two lie side by side in the output.

    Returns
    -------
    Tile or None
        None where neither loop is a multiple of the lanes.
    """
    store = {contiguous: unit.store_vector}
    tiles = _tiles("channels", block, points, depth, unit, store.get("channels", unit.store_value))
    tiles += _tiles("points", points, block, depth, unit, store.get("points", unit.store_value))
    return min(tiles, key=_preference, default=None)


def _preference(tile: Tile) -> tuple[float, int, str, int]:
    return (round(tile.cycles, 9), -tile.vectors * tile.scalars, tile.lanes, tile.vectors)


def _tiles(
    lanes: Lanes, along: int, across: int, depth: int, unit: VectorUnit, store: float
) -> list[Tile]:
    if along % unit.lanes:
        return []
    return [
        Tile(lanes, v, t, depth * _step(v, t, unit) / (v * t * unit.lanes) + store)
        for v in _divisors(along // unit.lanes, unit.registers)
        for t in _divisors(across, unit.registers)
        if v * t + v + t <= unit.registers + unit.folded
    ]


def _step(vectors: int, scalars: int, unit: VectorUnit) -> float:
    arithmetic = vectors * scalars / unit.fmas
    traffic = vectors * unit.bits / 8 / unit.stream
    return max(arithmetic, traffic, unit.latency) + unit.load * vectors


def _divisors(n: int, limit: int) -> list[int]:
    return [d for d in range(1, min(n, limit) + 1) if n % d == 0]
