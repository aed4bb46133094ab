"""How the loops of `make_winograd` are divided, and what a kernel of these sizes should take.

Data      a block has as many rows of tiles of an image, or as many images, as give about `TILES`
          tiles: the weights are transformed once for each block, which costs what some
          seven tiles do.
Results   some packed blocks of output channels at a time (`together`): each value of V is used for
          all of them when it is read.
Sums      over `depth` input channels at a time, so that U takes no more than `_SHARE` of the
          second-level cache.
Tile      registers for ``vectors`` vectors of output channels and ``scalars`` tiles.

Estimate, in cycles for C input and O output channels, P results of a channel in a block, T tiles
of L lanes, f multiply-adds a cycle:

    products    36 T C O / L f
    weights     130 C O / L        transformed, 36 stores each into the second-level cache
    data        250 T C / L        transposed and transformed
    results     230 T O / L        transformed, transposed and stored
    the plain sums                 9 P C O / L f

The constants come from profiles of convolutions of ResNet-50 (AVX-512, one Intel core), and
`_LOSSES` from what whole kernels took. ``python -m benchmarks.tiles`` prints the estimate beside
what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.convolution.winograd.transforms import ELEMENTS, STEP, WINDOW
from tvm_hetero.kernels.cpu.vector_unit import combine_limits
from tvm_hetero.kernels.tir.statements import whole

if TYPE_CHECKING:
    from tvm_hetero.kernels.convolution.winograd.match import Convolution
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

TILES = 64
MOST_TOGETHER = 64
_SHARE = 0.6
_BYTES = 4
WEIGHTS, DATA, RESULTS = 130.0, 250.0, 230.0
_LOSSES = 1.2


@dataclass(frozen=True)
class WinogradPlace:
    """Where a block is: its first image, and the first of its rows of tiles."""

    image: Expr
    row: Expr


@dataclass(frozen=True)
class WinogradSizes:
    """How many of what; see the file's text.

    Attributes
    ----------
    images, rows, columns : images of a block, rows of tiles of each, tiles of a row.
    last_row : the first row of tiles of an image's last block, which begins earlier where rows do
        not come out even.
    strips : blocks of one image, 1 where a block has all of several images.
    blocks : all blocks.
    """

    lanes: int
    images: int
    rows: int
    columns: int
    last_row: int
    strips: int
    blocks: int
    together: int
    depth: int
    vectors: int
    scalars: int

    @property
    def tiles(self) -> int:
        """Tiles of a block."""
        return self.images * self.rows * self.columns

    @property
    def across(self) -> int:
        """Output channels of a register tile."""
        return self.vectors * self.lanes

    @property
    def padded(self) -> int:
        """Tiles of a block, with those that only fill the last register tile."""
        return -(-self.tiles // self.scalars) * self.scalars

    def place(self, block: Expr) -> WinogradPlace:
        """Where a block is."""
        if self.strips == 1:
            return WinogradPlace(block * self.images, whole(0))
        row = tirx.min(block % self.strips * self.rows, whole(self.last_row))
        return WinogradPlace(block // self.strips, row)


def sizes_of(conv: Convolution, unit: VectorUnit) -> WinogradSizes:
    """The sizes for a vector unit.

    Raises
    ------
    ValueError
        If vectors would be partly empty.
    """
    fit = fitting_channels(conv, unit.lanes)
    together = max((n for n in fit if n <= MOST_TOGETHER), default=min(fit))
    return sizes_with(conv, unit, _rows(*tiles_of_image(conv)), together)


def tiles_of_image(conv: Convolution) -> tuple[int, int]:
    """Rows of tiles of an image, and tiles of a row."""
    _, _, height, width = conv.results
    return -(-height // STEP), -(-width // STEP)


def sizes_with(conv: Convolution, unit: VectorUnit, rows: int, together: int) -> WinogradSizes:
    """The sizes with so many rows of tiles in a block, and output channels at a time.

    Raises
    ------
    ValueError
        As `sizes_of`.
    """
    lanes, images = unit.lanes, conv.results[0]
    all_rows, columns = tiles_of_image(conv)
    many = _images(images, rows * columns) if rows == all_rows else 1
    strips = -(-all_rows // rows)
    _require_pixels(conv, [min(s * rows, all_rows - rows) for s in range(strips)], rows, lanes)
    vectors, scalars = _tile(together, unit, many * rows * columns)
    return WinogradSizes(
        lanes, many, rows, columns, all_rows - rows, strips, images // many * strips, together,
        _depth(conv.channels, together, unit), vectors, scalars,
    )  # fmt: skip


def estimate_ratio(conv: Convolution, sizes: WinogradSizes, unit: VectorUnit) -> float:
    """What the kernel should take, as a share of what plain sums take; see the file's text."""
    inner, outer, tiles = conv.channels, conv.results[1], sizes.padded
    pixels = conv.results[0] * conv.results[2] * conv.results[3] / sizes.blocks
    products = (ELEMENTS * tiles / unit.fmas + WEIGHTS) * inner * outer
    moved = tiles * (DATA * inner + RESULTS * outer)
    return _LOSSES * (products + moved) * unit.fmas / (WINDOW**2 * pixels * inner * outer)


def _rows(all_rows: int, columns: int) -> int:
    """Rows of tiles of a block, such that blocks are about equal."""
    strips = max(1, round(all_rows * columns / TILES))
    return -(-all_rows // min(strips, all_rows))


def _images(images: int, tiles: int) -> int:
    """Images of a block, each of so many tiles."""
    return max(
        n for n in range(1, images + 1) if images % n == 0 and (n == 1 or n * tiles <= TILES)
    )


def _require_pixels(conv: Convolution, firsts: list[int], rows: int, lanes: int) -> None:
    """Raise where a block has fewer pixels of an image, or of its results, than a vector has."""
    _, _, height, width = conv.results
    for first in firsts:
        above = max(0, STEP * first - conv.top)
        below = min(conv.height, STEP * (first + rows) + 2 - conv.top)
        stored = min(height - STEP * first, STEP * rows)
        if min((below - above) * conv.width, stored * width) < lanes:
            raise ValueError(f"blocks of an image are expected to have {lanes} pixels")


def fitting_channels(conv: Convolution, lanes: int) -> list[int]:
    """How many output channels may be computed at a time: whole packed blocks, whole vectors.

    Raises
    ------
    ValueError
        If there are none, or input channels do not fill vectors.
    """
    if conv.channels % lanes or conv.results[1] % lanes:
        raise ValueError(f"channels are expected to be multiples of {lanes}")
    every = range(conv.packed, conv.packed_channels + 1, conv.packed)
    fit = [n for n in every if conv.packed_channels % n == 0 and n % lanes == 0]
    if not fit:
        raise ValueError(f"output channels are expected to be multiples of {lanes}")
    return fit


def _depth(channels: int, together: int, unit: VectorUnit) -> int:
    """Input channels at a time."""
    steps = channels // unit.lanes
    most = unit.l2 * _SHARE / (ELEMENTS * together * _BYTES)
    fit = [n for n in range(1, steps + 1) if steps % n == 0 and n * unit.lanes <= most]
    return unit.lanes * max(fit, default=1)


def cycles_of_products(vectors: int, scalars: int, unit: VectorUnit, tiles: int) -> float:
    """Cycles for an input channel and a vector of output channels, all tiles, one element."""
    taken = (vectors * scalars / unit.fmas, unit.latency, (vectors + scalars) / unit.loads)
    return -(-tiles // scalars) * combine_limits(taken) / vectors


def _tile(together: int, unit: VectorUnit, tiles: int) -> tuple[int, int]:
    """Vectors and scalars of the register tile that takes the fewest cycles for each product."""

    def cycles(tile: tuple[int, int]) -> float:
        return cycles_of_products(*tile, unit, tiles)

    across = together // unit.lanes
    fit = [
        (v, t)
        for v in (1, 2, 3, 4)
        for t in range(1, min(unit.registers, tiles) + 1)
        if across % v == 0 and v * t + v + 1 <= unit.registers
    ]
    return min(fit, key=lambda tile: (cycles(tile), -tile[0] * tile[1]))
