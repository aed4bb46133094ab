"""How weights are laid out so that every target can read them with full vectors.

The weights of a convolution or a matrix product are known when a model is compiled. They are
packed once, in numpy, so that the output channels of one register tile lie side by side:

    plain     W[o, i, kh, kw]            packed   W[o // B, i, kh, kw, o % B]

(every group of a grouped convolution on its own). All devices share one copy of the weights, so
the block ``B`` suits the widest vectors among the targets, and a target with narrower ones
splits it in its schedule. Channels are padded with zeros up to a multiple of ``B``, points up
to a number with a good tile; what is computed there is never stored. `choose_layout` weighs
the padding against the tiles (`tiling`), for all targets together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.kernels.convolution.tiling import plan_tile
from tvm_hetero.kernels.cpu.vector_unit import AVX2, AVX512, VectorUnit, vector_unit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tvm.target import Target

_MOST_VECTORS_IN_A_BLOCK = 4
# Groups may not be padded, so their blocks are divisors; 68 = 4 x 17 channels have no small ones
# that tiles divide.
_LARGEST_OF_A_GROUP = 144
# A copy of the data only to pad the points: cycles for each value that is copied (a guess).
_COPY = 0.5
# Padded points must gain a tenth: stores behind the guard of a last tile are not vectorised. With
# 224 columns padded to 225, 64 to 64 3x3 fell from 256 to 149 GFLOP/s (other lanes were chosen).
_PADDING = 1.1


@dataclass(frozen=True)
class PackedLayout:
    """``block`` channels side by side in the weights, the loop over ``points`` points."""

    block: int
    points: int


def packing_units(targets: Sequence[Target] | None) -> tuple[VectorUnit, ...]:
    """The vector units that packed weights must suit, widest first.

    Without CPU targets (none given, or GPUs alone) AVX-512 and AVX2 are assumed.
    """
    cpus = [t for t in targets or () if str(t.kind.name) == "llvm"]
    # Targets that differ in nothing else are one.
    found = {vector_unit(t).of_layouts for t in cpus}
    if not found:
        return (AVX512, AVX2)
    return tuple(sorted(found, key=lambda unit: (-unit.bits, -unit.registers)))


def choose_layout(
    channels: int,
    points: int,
    depth: int,
    units: Sequence[VectorUnit],
    *,
    groups: int = 1,
    staged: bool = False,
) -> PackedLayout | None:
    """The block and the number of points that cost the targets least together.

    Parameters
    ----------
    channels
        Output channels of one group.
    points
        Points that are needed (of one row, or of one image where rows can be joined).
    depth
        Length of the reduction.
    units
        Vector units of the targets, widest first.
    groups
        Groups of channels. With more than one, blocks never straddle groups and channels are
        not padded (the schedule could not tell padding from the next group).
    staged
        True where the data are copied anyway, so that padding the points costs no extra copy.

    Returns
    -------
    Layout or None
        None where some unit has no tile.
    """
    lanes = units[0].lanes
    most = lanes * _MOST_VECTORS_IN_A_BLOCK
    largest = most if groups == 1 else max(most, _LARGEST_OF_A_GROUP)
    blocks = {b for b in range(min(channels, 8), largest + 1) if channels % b == 0}
    if groups == 1:
        blocks |= set(range(lanes, most + 1, lanes))
    blocks = blocks or {channels}

    def cost(layout: PackedLayout) -> float:
        padded = layout.points != points
        work = round_up(channels, layout.block) * layout.points * (_PADDING if padded else 1.0)
        copied = _COPY * depth * layout.points if padded and not staged else 0.0
        total = 0.0
        for unit in units:
            tile = plan_tile(layout.block, layout.points, depth, unit)
            if tile is None:
                return float("inf")
            total += work * tile.cycles + copied
        return total

    extents = {points, max(points, lanes)}
    candidates = [PackedLayout(b, p) for b in sorted(blocks) for p in sorted(extents)]
    best = min(candidates, key=lambda layout: (cost(layout), layout.points, layout.block))
    return None if cost(best) == float("inf") else best


def round_up(n: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that is >= ``n``."""
    return -(-n // multiple) * multiple


def pack_conv2d(weight: NDArray[Any], groups: int, block: int) -> NDArray[Any]:
    """Pack ``[O, I, KH, KW]`` into ``[groups * blocks, I, KH, KW, block]``."""
    out_channels, *rest = weight.shape
    per_group = out_channels // groups
    padded = round_up(per_group, block)
    grouped = weight.reshape(groups, per_group, *rest)
    if padded != per_group:
        grouped = np.pad(grouped, [(0, 0), (0, padded - per_group)] + [(0, 0)] * len(rest))
    blocked = grouped.reshape(groups * (padded // block), block, *rest)
    return np.ascontiguousarray(np.moveaxis(blocked, 1, -1))
