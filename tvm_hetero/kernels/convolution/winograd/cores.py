"""How a Winograd kernel is shared among cores: by blocks of tiles and by output channels.

Notation as in `kernel` and `sizes`: C, O input and output channels, T tiles of a block, of which
there are B; n cores. Of O there are G groups of `together` channels, P parts of G / P groups. A
piece is a block and a part, and has all that it needs to itself, in cycles

    G / P group     of which each transforms weights, multiplies and stores results
    C / L data      the transformed data of L input channels each

    the slowest core    ceil(B P / n) (G / P group + C / L data) + fork

So data are transformed P times, and weights B times. That is less than it takes to hand them from
core to core: the lines that another core has written take longer to fetch than to make again. All
rows of tiles, groups and parts that fit are compared.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from tvm_hetero.kernels.convolution.winograd.sizes import (
    DATA,
    MOST_TOGETHER,
    RESULTS,
    TILES,
    WEIGHTS,
    WinogradSizes,
    cycles_of_products,
    fitting_channels,
    sizes_of,
    sizes_with,
    tiles_of_image,
)
from tvm_hetero.kernels.convolution.winograd.transforms import ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tvm_hetero.kernels.convolution.winograd.match import Convolution
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# A fork and join of all cores, with what they have to hand to each other at least, cycles.
_FORK = 1e4
# Tiles of a block at most, in units of what one core has.
_MOST = 2


def shared_sizes(conv: Convolution, unit: VectorUnit, cores: int) -> tuple[WinogradSizes, int]:
    """The sizes that take several cores least, and into how many parts output channels are cut.

    Raises
    ------
    ValueError
        As `sizes_of`.
    """
    ways = [
        (sizes, parts)
        for sizes in _all_sizes(conv, unit)
        for parts in _divisors(conv.packed_channels // sizes.together)
    ]
    return min(ways, key=lambda way: _cycles(conv, way[0], way[1], unit, cores))


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _all_sizes(conv: Convolution, unit: VectorUnit) -> Iterator[WinogradSizes]:
    """Those of one core, and all others of which a block is not too large."""
    own = sizes_of(conv, unit)
    yield own
    rows, columns = tiles_of_image(conv)
    most = max(own.tiles, _MOST * TILES)
    groups = [n for n in fitting_channels(conv, unit.lanes) if n <= MOST_TOGETHER]
    for row in range(1, rows + 1):
        for together in groups if row * columns <= most else ():
            with suppress(ValueError):
                yield sizes_with(conv, unit, row, together)


def _cycles(
    conv: Convolution, sizes: WinogradSizes, parts: int, unit: VectorUnit, cores: int
) -> float:
    """What the slowest core takes; see the file's text."""
    vectors = sizes.together / sizes.lanes
    each = cycles_of_products(sizes.vectors, sizes.scalars, unit, sizes.tiles)
    group = vectors * (conv.channels * (ELEMENTS * each + WEIGHTS) + RESULTS * sizes.padded)
    data = DATA * sizes.padded * conv.channels / sizes.lanes
    groups = conv.packed_channels // sizes.together // parts
    pieces = sizes.blocks * parts
    fork = _FORK if pieces > 1 else 0.0
    return math.ceil(pieces / cores) * (groups * group + data) + fork
