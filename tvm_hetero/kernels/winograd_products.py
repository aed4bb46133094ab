"""The products of `winograd`: weights transformed, then a product of matrices for each element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tvm import tirx

from .prefetch import LINE, OUTER, ask
from .statements import load, loop, ramp, real, sequence, spread, store, tensor, whole
from .straight import Straight
from .winograd_pixels import Matrices, block
from .winograd_sizes import Sizes
from .winograd_tiles import ELEMENTS, TILE, WINDOW, both_ways, window_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from .winograd_convolution import Convolution

    Expr = Any

_IN_LINE = LINE // 4
# Bytes of weights that are in some near cache after the first block of tiles.
NEAR = 1 << 18


def products(
    conv: Convolution, sizes: Sizes, data: Matrices, sums: Matrices, first: Expr
) -> tirx.Stmt:
    """M for `together` output channels from ``first`` on, of all tiles of a block."""
    weights = Matrices.of("U", sizes.depth, sizes.together)

    def some(step: Expr) -> list[tirx.Stmt]:
        at = first, step * sizes.depth
        return [
            loop("channel", sizes.depth, lambda c: loop("vector", sizes.together // sizes.lanes,
                lambda v: _window(conv, sizes, weights, at, c, v))),
            loop("element", ELEMENTS, lambda e: _product(conv, sizes, data, weights, sums, at, e)),
        ]  # fmt: skip

    steps = loop("depth", conv.channels // sizes.depth, some)
    return block("winograd_products", steps, [weights.buffer])


def _window(
    conv: Convolution, sizes: Sizes, weights: Matrices, at: tuple[Expr, Expr], c: Expr, v: Expr
) -> list[tirx.Stmt]:
    """A vector of windows, transformed."""
    code, lanes, (first, channel) = Straight(), sizes.lanes, at
    out = first + v * lanes

    def value(i: int, j: int) -> Expr:
        """Of a vector's channels, be they in several packed blocks."""
        part = math.gcd(conv.packed, lanes)
        firsts = [out + k for k in range(0, lanes, part)]
        loads = [
            load(conv.weights, o // conv.packed, channel + c, i, j, ramp(o % conv.packed, part))
            for o in firsts
        ]
        return loads[0] if part == lanes else tirx.Shuffle(loads, list(range(lanes)))

    square = [[code.let(value(i, j)) for j in range(WINDOW)] for i in range(WINDOW)]
    for i, row in enumerate(both_ways(code, window_line, square)):
        for j, value in enumerate(row):
            code.add(weights.store(whole(i * TILE + j), c, v * lanes, value))
    return code.statements


def _product(
    conv: Convolution, sizes: Sizes, data: Matrices, weights: Matrices, sums: Matrices,
    place: tuple[Expr, Expr], e: Expr,
) -> tirx.Stmt:  # fmt: skip
    """The product of one element: register tile by register tile."""
    first, at = place
    across = sizes.together // sizes.across
    count = sizes.padded // sizes.scalars

    def tile(t: Expr, v: Expr) -> tirx.Stmt:
        asks = _asks(conv, sizes, (first, at), (e * count + t) * across + v)
        place = (e, t * sizes.scalars, v)
        return _register_tile(sizes, data, weights, sums, at, place, asks)

    return loop("tile", count, lambda t: loop("across", across, lambda v: tile(t, v)))


def _register_tile(
    sizes: Sizes, data: Matrices, weights: Matrices, sums: Matrices, at: Expr,
    place: tuple[Expr, Expr, Expr], asks: Any,
) -> tirx.Stmt:  # fmt: skip
    (e, row, v), lanes, vectors = place, sizes.lanes, sizes.vectors
    acc = tensor("acc", [sizes.scalars * vectors * lanes], scope="local")

    def column(j: int) -> Expr:
        return v * (vectors * lanes) + j * lanes

    def each(body: Any) -> list[tirx.Stmt]:
        places = [(i, j) for i in range(sizes.scalars) for j in range(vectors)]
        return [body(i, j, ramp(whole((i * vectors + j) * lanes), lanes)) for i, j in places]

    zero = each(lambda _i, _j, where: store(acc, [where], spread(real(0), lanes)))
    again = each(lambda i, j, where: store(acc, [where], sums.load(e, row + i, column(j), lanes)))

    def step(block_: Expr, lane: Expr) -> list[tirx.Stmt]:
        code = Straight()
        c = block_ * lanes + lane
        right = [code.let(weights.load(e, c, column(j), lanes)) for j in range(vectors)]
        for i in range(sizes.scalars):
            channel = (at // lanes) + block_
            left = code.let(spread(data.load(channel * ELEMENTS + e, row + i, lane, 1), lanes))
            for j in range(vectors):
                where = ramp(whole((i * vectors + j) * lanes), lanes)
                code.add(store(acc, [where], load(acc, where) + left * right[j]))
        return code.statements

    return block("winograd_tile", [
        tirx.IfThenElse(tirx.EQ(at, whole(0)), sequence(zero), sequence(again)),
        loop("block", sizes.depth // lanes, lambda b: [
            *asks(b), loop("lane", lanes, lambda k: step(b, k))
        ]),
        *each(lambda i, j, where: sums.store(e, row + i, column(j), load(acc, where))),
    ], [acc])  # fmt: skip


def _asks(
    conv: Convolution, sizes: Sizes, at: tuple[Expr, Expr], tile: Expr
) -> Callable[[Expr], list[tirx.Stmt]]:
    """Asking for the weights that are transformed next, some lines in each step of a tile.

    Behind the last ones lies nothing; to ask for it does no harm.
    """
    (first, channel), steps = at, sizes.depth // sizes.lanes
    blocks = sizes.together // conv.packed
    each = sizes.depth * conv.packed * WINDOW**2 // _IN_LINE
    tiles = ELEMENTS * (sizes.padded // sizes.scalars) * (blocks * conv.packed // sizes.across)
    lines = -(-each * blocks // (tiles * steps))
    ends = channel + sizes.depth >= conv.channels
    begin = tirx.Select(ends, first + sizes.together, first) // conv.packed
    after = tirx.Select(ends, whole(0), channel + sizes.depth)

    def asks(step: Expr) -> list[tirx.Stmt]:
        line = (tile * steps + step) * lines
        place = [begin + line // each, after, whole(0), whole(0)]
        offsets = [(line % each + n) * _IN_LINE for n in range(lines)]
        return [ask(conv.weights, [*place, offset], OUTER) for offset in offsets]

    return asks if conv.bytes_of_weights > NEAR else lambda _step: []
