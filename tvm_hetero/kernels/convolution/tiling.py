"""The register tile of a packed convolution, and what it should cost.

Problem
    Convolutions with packed weights are one loop nest: ``acc[p, c] += data[p, k] * weight[k, c]``
    over points ``p`` (columns of a row, or of all rows joined), output channels ``c`` and the
    reduction ``k``. A tile of accumulators stays in the vector registers. Which loop
    becomes the lanes of the vectors, and how large is the tile?

Notation
    L lanes of a vector, R registers, P points, T of a tile; ``v`` vectors and ``t`` scalars span
    it: each step of ``k`` loads ``v`` and broadcasts ``t``. Lanes are channels or points.

Cost, in cycles for each accumulated value, here with x86's constants              -> `_tile`
    step    = norm(v t / 2, 4.5, (v + t) / 2.2, v L / 8) + v / 4
    value   = (depth * step / (v t L) + store) * ceil(P / T) / (P / T)

Constraints                                                                        -> `_fits`
    v t <= 3/4 R, and v t + v + t <= R, with allowances where operands fold into instructions

`plan_tile` minimises the cost; ties go to the larger tile, then to channels as lanes.

Derivation: docs/method/convolution-tiles.md.
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
