"""The data of `winograd`: an image with its channels side by side, then tiles transformed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.convolution.winograd.pixels import Matrices, block, pixels
from tvm_hetero.kernels.convolution.winograd.sizes import WinogradPlace, WinogradSizes
from tvm_hetero.kernels.convolution.winograd.transforms import (
    ELEMENTS,
    STEP,
    TILE,
    both_ways,
    data_line,
)
from tvm_hetero.kernels.tir.statements import loop, ramp, real, spread, store, tensor, when, whole
from tvm_hetero.kernels.tir.straight_line import Straight, transposed

if TYPE_CHECKING:
    from tvm_hetero.kernels.convolution.winograd.match import Convolution

    Expr = Any


def transform_data(
    conv: Convolution, sizes: WinogradSizes, data: Matrices, place: WinogradPlace, channels: Expr
) -> tirx.Stmt:
    """V for some channels, a vector's, of all tiles of a block."""
    height, width = STEP * sizes.rows + 2, STEP * sizes.columns + 2
    image = tensor("image", [height, width, sizes.lanes])
    return block(
        "winograd_data",
        [
            loop("image", sizes.images, lambda g: [
                *_zeros(conv, sizes, image, place),
                *_filled(conv, sizes, image, place, g, channels),
                loop("row", sizes.rows, lambda r: loop("column", sizes.columns, lambda c:
                    _tile(sizes, data, image, channels, (g, r, c)))),
            ]),
            *_rest(sizes, data, channels),
        ],
        [image],
    )  # fmt: skip


def _rest(sizes: WinogradSizes, data: Matrices, channels: Expr) -> list[tirx.Stmt]:
    """Zeros for the tiles that only fill the last register tile."""
    zero = spread(real(0), sizes.lanes)
    more = sizes.padded - sizes.tiles
    if not more:
        return []
    return [loop("element", ELEMENTS, lambda e: loop("more", more, lambda t:
        data.store(channels * ELEMENTS + e, t + sizes.tiles, whole(0), zero)))]  # fmt: skip


def _inside(
    conv: Convolution, sizes: WinogradSizes, place: WinogradPlace
) -> tuple[Expr, Expr, Expr]:
    """The image's row in the first row of a block, and the rows of the image that it has."""
    first = place.row * STEP - conv.top
    rows = STEP * sizes.rows + 2
    return first, tirx.max(first, whole(0)), tirx.min(first + rows, whole(conv.height))


def _zeros(
    conv: Convolution, sizes: WinogradSizes, image: tirx.Var, place: WinogradPlace
) -> list[tirx.Stmt]:
    """Zeros where the block is outside of the image."""
    height, width = (int(e) for e in image.ty.shape[:2])
    first, low, high = _inside(conv, sizes, place)
    zero = spread(real(0), sizes.lanes)

    def zeros(y: Expr, x: Expr) -> tirx.Stmt:
        return store(image, [y, x, ramp(whole(0), sizes.lanes)], zero)

    def row(y: Expr) -> list[tirx.Stmt]:
        outside = tirx.any(y + first < low, y + first >= high)
        right = conv.left + conv.width
        sides = [loop("x", conv.left, lambda x: zeros(y, x))] if conv.left else []
        if right < width:
            sides.append(loop("x", width - right, lambda x: zeros(y, x + right)))
        return [*sides, when(outside, loop("x", width, lambda x: zeros(y, x)))]

    return [loop("y", height, row)]


def _filled(
    conv: Convolution,
    sizes: WinogradSizes,
    image: tirx.Var,
    place: WinogradPlace,
    g: Expr,
    channels: Expr,
) -> list[tirx.Stmt]:
    """What the block has of the image, its channels side by side."""
    lanes, width = sizes.lanes, conv.width
    first, low, high = _inside(conv, sizes, place)

    def some(start: Expr) -> list[tirx.Stmt]:
        code = Straight()
        at = low * width + start
        rows = [
            code.let(tirx.BufferLoad(conv.data, [
                place.image + g, channels * lanes + i, whole(0), ramp(at, lanes)
            ]))
            for i in range(lanes)
        ]  # fmt: skip
        for i, vector in enumerate(transposed(code, rows)):
            pixel = at + i
            y, x = pixel // width - first, pixel % width + conv.left
            code.add(store(image, [y, x, ramp(whole(0), lanes)], vector))
        return [block("winograd_image", code.statements)]

    return [pixels((high - low) * width, lanes, some)]


def _tile(
    sizes: WinogradSizes,
    data: Matrices,
    image: tirx.Var,
    channels: Expr,
    at: tuple[Expr, Expr, Expr],
) -> list[tirx.Stmt]:
    """A tile, transformed."""
    code, lanes, (g, r, c) = Straight(), sizes.lanes, at
    lane = ramp(whole(0), lanes)
    square = [
        [code.let(tirx.BufferLoad(image, [r * STEP + i, c * STEP + j, lane])) for j in range(TILE)]
        for i in range(TILE)
    ]
    tile = (g * sizes.rows + r) * sizes.columns + c
    for i, row in enumerate(both_ways(code, data_line, square)):
        for j, value in enumerate(row):
            code.add(data.store(channels * ELEMENTS + (i * TILE + j), tile, whole(0), value))
    return code.statements
