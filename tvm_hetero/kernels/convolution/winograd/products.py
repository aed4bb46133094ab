"""The products of `winograd`: weights transformed, then a product of matrices for each element.

A register tile is ``scalars`` tiles times ``vectors`` vectors of output channels. Its sums begin at
zero for the first input channels and with what M holds for all others. While tiles are computed,
they ask for the weights that are transformed next, each for its share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.convolution.winograd.match import Convolution
from tvm_hetero.kernels.convolution.winograd.pixels import Matrices, block
from tvm_hetero.kernels.convolution.winograd.sizes import WinogradSizes
from tvm_hetero.kernels.convolution.winograd.transforms import (
    ELEMENTS,
    TILE,
    WINDOW,
    both_ways,
    window_line,
)
from tvm_hetero.kernels.tir.prefetch import LINE, OUTER, ask
from tvm_hetero.kernels.tir.statements import (
    load,
    loop,
    ramp,
    real,
    sequence,
    spread,
    store,
    tensor,
    whole,
)
from tvm_hetero.kernels.tir.straight_line import Straight

if TYPE_CHECKING:
    Expr = Any

_IN_LINE = LINE // 4
# Bytes of weights that are in some near cache after the first block of tiles.
_NEAR = 1 << 18


@dataclass(frozen=True)
class _ProductPart:
    """Some output channels, from ``first`` on, and some input channels, from ``channel`` on."""

    conv: Convolution
    sizes: WinogradSizes
    data: Matrices
    weights: Matrices
    sums: Matrices
    first: Expr
    channel: Expr


def products(
    conv: Convolution, sizes: WinogradSizes, data: Matrices, sums: Matrices, first: Expr
) -> tirx.Stmt:
    """M for `together` output channels from ``first`` on, of all tiles of a block."""
    weights = Matrices.of("U", sizes.depth, sizes.together)

    def some(step: Expr) -> list[tirx.Stmt]:
        part = _ProductPart(conv, sizes, data, weights, sums, first, step * sizes.depth)
        vectors = sizes.together // sizes.lanes
        return [
            loop("c", sizes.depth, lambda c: loop("v", vectors, lambda v: _window(part, c, v))),
            loop("element", ELEMENTS, lambda e: _product(part, e)),
        ]

    steps = loop("depth", conv.channels // sizes.depth, some)
    return block("winograd_products", steps, [weights.buffer])


def _window(part: _ProductPart, c: Expr, v: Expr) -> list[tirx.Stmt]:
    """U for a vector of output channels and one input channel."""
    code, lanes = Straight(), part.sizes.lanes
    square = [[code.let(_weights(part, c, v, i, j)) for j in range(WINDOW)] for i in range(WINDOW)]
    for i, row in enumerate(both_ways(code, window_line, square)):
        for j, value in enumerate(row):
            code.add(part.weights.store(whole(i * TILE + j), c, v * lanes, value))
    return code.statements


def _weights(part: _ProductPart, c: Expr, v: Expr, i: int, j: int) -> Expr:
    """A weight of each of a vector's output channels, be they in several packed blocks."""
    conv, lanes = part.conv, part.sizes.lanes
    each = math.gcd(conv.packed, lanes)
    firsts = [part.first + v * lanes + k for k in range(0, lanes, each)]
    loads = [
        load(conv.weights, o // conv.packed, part.channel + c, i, j, ramp(o % conv.packed, each))
        for o in firsts
    ]
    return loads[0] if each == lanes else tirx.Shuffle(loads, list(range(lanes)))


def _product(part: _ProductPart, e: Expr) -> tirx.Stmt:
    """The product of one element, register tile by register tile."""
    sizes = part.sizes
    across = sizes.together // sizes.across
    count = sizes.padded // sizes.scalars

    def tile(t: Expr, v: Expr) -> tirx.Stmt:
        asks = _asks(part, (e * count + t) * across + v)
        return _register_tile(part, e, t * sizes.scalars, v * sizes.across, asks)

    return loop("tile", count, lambda t: loop("across", across, lambda v: tile(t, v)))


def _register_tile(
    part: _ProductPart, e: Expr, row: Expr, column: Expr, asks: Callable[[Expr], list[tirx.Stmt]]
) -> tirx.Stmt:
    """The sums of some tiles and output channels."""
    lanes, scalars, vectors = part.sizes.lanes, part.sizes.scalars, part.sizes.vectors
    acc = tensor("acc", [scalars * vectors * lanes], scope="local")
    places = [(i, j) for i in range(scalars) for j in range(vectors)]

    def at(i: int, j: int) -> Expr:
        return ramp(whole((i * vectors + j) * lanes), lanes)

    def begun(i: int, j: int) -> Expr:
        return part.sums.load(e, row + i, column + j * lanes, lanes)

    zero = [store(acc, [at(i, j)], spread(real(0), lanes)) for i, j in places]
    again = [store(acc, [at(i, j)], begun(i, j)) for i, j in places]
    done = [part.sums.store(e, row + i, column + j * lanes, load(acc, at(i, j))) for i, j in places]

    def step(some: Expr, lane: Expr) -> list[tirx.Stmt]:
        code, c = Straight(), some * lanes + lane
        right = [
            code.let(part.weights.load(e, c, column + j * lanes, lanes)) for j in range(vectors)
        ]
        element = (part.channel // lanes + some) * ELEMENTS + e
        for i in range(scalars):
            left = code.let(spread(part.data.load(element, row + i, lane, 1), lanes))
            for j in range(vectors):
                code.add(store(acc, [at(i, j)], load(acc, at(i, j)) + left * right[j]))
        return code.statements

    def steps(some: Expr) -> list[tirx.Stmt]:
        return [*asks(some), loop("lane", lanes, lambda lane: step(some, lane))]

    begin = tirx.IfThenElse(tirx.EQ(part.channel, whole(0)), sequence(zero), sequence(again))
    body = [begin, loop("some", part.sizes.depth // lanes, steps), *done]
    return block("winograd_tile", body, [acc])


def _asks(part: _ProductPart, tile: Expr) -> Callable[[Expr], list[tirx.Stmt]]:
    """Asking for the weights that are transformed next, some lines in each step of a tile.

    Behind the last ones lies nothing; to ask for it does no harm.
    """
    conv, sizes = part.conv, part.sizes
    steps, blocks = sizes.depth // sizes.lanes, sizes.together // conv.packed
    each = sizes.depth * conv.packed * WINDOW**2 // _IN_LINE
    tiles = ELEMENTS * (sizes.padded // sizes.scalars) * (sizes.together // sizes.across)
    lines = -(-each * blocks // (tiles * steps))
    ends = part.channel + sizes.depth >= conv.channels
    begin = tirx.Select(ends, part.first + sizes.together, part.first) // conv.packed
    after = tirx.Select(ends, whole(0), part.channel + sizes.depth)

    def asks(step: Expr) -> list[tirx.Stmt]:
        line = (tile * steps + step) * lines
        place = [begin + line // each, after, whole(0), whole(0)]
        offsets = [(line % each + n) * _IN_LINE for n in range(lines)]
        return [ask(conv.weights, [*place, offset], OUTER) for offset in offsets]

    return asks if conv.bytes_of_weights > _NEAR else lambda _step: []
