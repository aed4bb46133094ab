"""The register tile of a packed convolution, and what it should cost.

Problem
    Convolutions with packed weights are one loop nest: ``acc[p, c] += data[p, k] * weight[k, c]``
    over points ``p`` (columns of a row, or of all rows joined), output channels ``c`` and the
    reduction ``k``. A tile of accumulators stays in the vector registers for the whole
    reduction. Which loop becomes the lanes of the vectors, and how large is the tile?

Notation
    L lanes of a vector, R registers; ``v`` vectors and ``t`` scalars span the tile: each step
    of ``k`` loads ``v`` vectors, broadcasts ``t`` values and does ``v * t`` multiply-adds.
    Lanes are output channels (the broadcast values are data), or points (the broadcast values
    are weights). A tile of T points need not divide the P points: the last one overlaps
    (`tir.tail_tiles`), so that P / T tiles cost what ceil(P / T) do.

Cost, in cycles for each accumulated value; constants from `cpu.vector_unit`, here those of x86
    step    = norm(v t / 2, 4.5, (v + t) / 2.2, v L / 8) + v / 4
              4.5: one accumulator waits for itself, 4 cycles and some slack
              2.2: loads a cycle; a vector of points counts for two where it straddles lines
              v L / 8: the vectors come from the second-level cache, 32 bytes a cycle, or 16
              where a tile's weights, read again for every tile, take more than half of it
              norm: of order 8, since limits that come close to each other add up a little
    value   = (depth * step / (v t L) + store) * ceil(P / T) / (P / T)
    store   = 0.15 where points are the lanes (whole vectors, in NCHW), else 1.2

Constraints
    v t <= 3/4 R, and v t + v + t <= R, with AVX2 R + 3 (channels as lanes: R + 1), where loads
    fold into instructions. With AVX-512 broadcasts fold into the multiply-add, so that for v = 1
    it is t + 2 <= R. Larger tiles spill: 4 x 6 on AVX-512 200 GFLOP/s against 255 for 2 x 7
    (160 to 320 3x3 at 6x6), 2 x 6 on AVX2 60 against 134 for 2 x 5 (64 to 64 3x3), 3 x 4 with
    channels as lanes 50 against 115 for 2 x 5 (32 to 96 5x5 at 27x27).

How the constants came about
    The tiles of 40 convolutions of the light models were timed on one Zen 5 core (1,400 kernels
    for AVX-512, 900 for AVX2), and constants taken from a grid. They choose tiles with 0.98
    (AVX-512) and 0.96 (AVX2) of the best tile's speed in the geometric mean, where constants
    set by hand before gave 0.92 and 0.81. That is all they are good for: they predict no times.

`plan_tile` minimises the cost; ties go to the larger tile, then to channels as lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tvm_hetero.kernels.cpu.vector_unit import VectorUnit, combine_limits

Lanes = Literal["channels", "points"]

_ACCUMULATORS = 0.75  # of the registers
_FOLDED_CHANNELS = 1
_BYTES = 4


@dataclass(frozen=True)
class ConvolutionTile:
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

    def points(self, unit: VectorUnit) -> int:
        """Points of the tile."""
        return self.scalars if self.lanes == "channels" else self.vectors * unit.lanes


@lru_cache(maxsize=65536)
def plan_tile(block: int, points: int, depth: int, unit: VectorUnit) -> ConvolutionTile | None:
    """The cheapest tile of ``block`` channels and ``points`` points.

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

    Returns
    -------
    Tile or None
        None where the block is no multiple of the lanes and there are fewer points than lanes.
    """
    tiles = [
        _tile("channels", v, t, points / t, depth, unit)
        for v in _divisors(block, unit.lanes, unit.registers)
        for t in range(1, min(points, unit.registers) + 1)
    ]
    tiles += [
        _tile("points", v, t, points / (v * unit.lanes), depth, unit)
        for v in range(1, min(points // unit.lanes, unit.registers) + 1)
        for t in _divisors(block, 1, unit.registers)
    ]
    return min((t for t in tiles if _fits(t, unit)), key=_preference, default=None)


def _preference(tile: ConvolutionTile) -> tuple[float, int, str, int]:
    return (round(tile.cycles, 9), -tile.vectors * tile.scalars, tile.lanes, tile.vectors)


def _fits(tile: ConvolutionTile, unit: VectorUnit) -> bool:
    v, t = tile.vectors, tile.scalars
    operands = v + (1 if v == 1 and unit.broadcasts else t)
    folded = min(unit.folded, _FOLDED_CHANNELS if tile.lanes == "channels" else unit.folded)
    most = unit.registers + (0 if unit.broadcasts else folded)
    return v * t <= _ACCUMULATORS * unit.registers and v * t + operands <= most


def _tile(
    lanes: Lanes, v: int, t: int, tiles: float, depth: int, unit: VectorUnit
) -> ConvolutionTile:
    """A tile with its cost; ``tiles`` of it are the points, the last one overlapping."""
    weights = v * unit.bits // 8 if lanes == "channels" else t * _BYTES
    lines = 1 + unit.bits / 512 if lanes == "points" else 1  # vectors of data straddle lines
    near = weights * depth <= unit.l2 / 2
    limits = (
        v * t / unit.fmas,
        unit.latency,
        (v * lines + t) / unit.loads,
        v * unit.bits / 8 / (unit.stream if near else unit.far),
    )
    step = combine_limits(limits) + unit.load * v
    store = unit.store_value if lanes == "channels" else unit.store_vector
    twice = math.ceil(tiles) / tiles
    return ConvolutionTile(lanes, v, t, (depth * step / (v * t * unit.lanes) + store) * twice)


def _divisors(n: int, unit: int, limit: int) -> list[int]:
    """Numbers of units, up to ``limit``, whose multiple is ``n``."""
    return [d for d in range(1, min(n // unit, limit) + 1) if n % (d * unit) == 0]
