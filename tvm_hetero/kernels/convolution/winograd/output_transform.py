"""The results of `winograd`: transformed back, what is fused behind, and stored as images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.convolution.winograd.pixels import Matrices, block, pixels
from tvm_hetero.kernels.convolution.winograd.sizes import WinogradPlace, WinogradSizes
from tvm_hetero.kernels.convolution.winograd.transforms import STEP, TILE, both_ways, result_line
from tvm_hetero.kernels.tir.statements import (
    VECTORIZED,
    load,
    loop,
    ramp,
    store,
    tensor,
    when,
    whole,
)
from tvm_hetero.kernels.tir.straight_line import Straight, transposed

if TYPE_CHECKING:
    from tvm_hetero.kernels.convolution.winograd.match import Convolution

    Expr = Any


def store_results(
    conv: Convolution, sizes: WinogradSizes, sums: Matrices, place: WinogradPlace, first: Expr
) -> tirx.Stmt:
    """The kernel's results for `together` output channels from ``first`` on."""
    lanes = sizes.lanes
    image = tensor("results", [STEP * sizes.rows, STEP * sizes.columns, lanes])

    def vector(v: Expr) -> tirx.Stmt:
        out = first + v * lanes
        body = loop("image", sizes.images, lambda g: [
            loop("row", sizes.rows, lambda r: loop("column", sizes.columns, lambda c:
                _tile(sizes, sums, image, v, (g, r, c)))),
            _stored(conv, sizes, image, place, g, out),
        ])  # fmt: skip
        real = conv.results[1]
        return body if conv.packed_channels == real else when(out < real, body)

    return block("winograd_results", loop("vector", sizes.together // lanes, vector), [image])


def _tile(
    sizes: WinogradSizes, sums: Matrices, image: tirx.Var, v: Expr, at: tuple[Expr, Expr, Expr]
) -> list[tirx.Stmt]:
    """A tile, transformed back."""
    code, lanes, (g, r, c) = Straight(), sizes.lanes, at
    tile = (g * sizes.rows + r) * sizes.columns + c
    square = [
        [code.let(sums.load(whole(i * TILE + j), tile, v * lanes, lanes)) for j in range(TILE)]
        for i in range(TILE)
    ]
    for i, row in enumerate(both_ways(code, result_line, square)):
        for j, value in enumerate(row):
            place = [r * STEP + i, c * STEP + j, ramp(whole(0), lanes)]
            code.add(store(image, place, value))
    return code.statements


def _stored(
    conv: Convolution,
    sizes: WinogradSizes,
    image: tirx.Var,
    place: WinogradPlace,
    g: Expr,
    out: Expr,
) -> tirx.Stmt:
    """A vector's channels of one image, with what is fused behind."""
    lanes, (_, _, height, width) = sizes.lanes, conv.results
    rows = tirx.min(whole(height) - place.row * STEP, whole(STEP * sizes.rows))
    square = tensor("square", [lanes * lanes], scope="local")

    def some(start: Expr) -> tirx.Stmt:
        code = Straight()
        vectors = []
        for i in range(lanes):
            pixel = start + i
            at = [pixel // width, pixel % width, ramp(whole(0), lanes)]
            vectors.append(code.let(tirx.BufferLoad(image, at)))
        for i, channel in enumerate(transposed(code, vectors)):
            code.add(store(square, [ramp(whole(i * lanes), lanes)], channel))
        first = place.row * (STEP * width) + start
        code.add(loop("channel", lanes, lambda o: loop("lane", lanes, lambda i: conv.result(
            place.image + g, out + o, first + i, load(square, o * lanes + i)
        ), VECTORIZED)))  # fmt: skip
        return block("winograd_store", code.statements, [square])

    return pixels(rows * width, lanes, some)
