"""Products of bfloat16 with constants of bfloat16 by tile registers (`amx`).

As with vectors (`product_pairs`) the left side is put in pairs: 16 rows of these are a register's
left side. What constants must be for a right side, two steps in turn, is made of them by vectors, a
stretch of steps and a block of columns at a time, and stays in the first cache while all rows of a
tile meet it:

    for each block of columns, each tile of rows, each stretch of steps:
        turned    two steps at a time: 32 columns of both in turn, within each 128 bits
        sums      16 rows by 16 columns to a register, of all rows and columns
    the sums of the tile, number by number again (`cpu.bfloat16_pairs.in_order`)

Sixteen times as much arithmetic as with vectors, so two rows already are enough, and with up to 16
of them the memory is what is waited for.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from tvm_hetero.kernels.cpu.amx import (
    BFLOAT16,
    NARROW,
    REGISTERS,
    ROWS,
    WIDE,
    begun,
    dot,
    ended,
    load_tile,
    rows_of,
    store_tile,
    tile_functions,
    zero,
)
from tvm_hetero.kernels.cpu.bfloat16_pairs import in_order
from tvm_hetero.kernels.cpu.llvm_functions import with_functions
from tvm_hetero.kernels.matmul.product_amx_tile import SUMS, AmxTile, Coming, put_in_turn, tile_of
from tvm_hetero.kernels.matmul.product_bfloat16 import (
    Bfloat16Product,
    find_product,
    largest_divisor,
    packing,
)
from tvm_hetero.kernels.matmul.written_products import CYCLES, Sums, region_of, with_sums
from tvm_hetero.kernels.tir.nests import iterators, nest_over, range_of
from tvm_hetero.kernels.tir.prefetch import LINE
from tvm_hetero.kernels.tir.statements import load, loop, ramp, real, spread, store, whole

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# Rows from which on, and rows at most that meet constants while these are near.
_LEAST, _MOST = 5, 256
# Registers beside those of `SUMS`: the left side; the right side.
_LEFT, _RIGHT = 4, 5
_PRODUCTS = [(BFLOAT16, c, _LEFT, _RIGHT) for c in SUMS]


def by_tiles(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """The kernel by tile registers, to be scheduled by `written_products.schedule_parts`.

    Raises
    ------
    ValueError
        If it is no such product, or there are no such registers.
    """
    if not unit.amx:
        raise ValueError("there are no tile registers")
    found = find_product(func, _LEAST, lambda rows, _: _tile_rows(rows))
    main, nest = found.main, found.nests[found.at]
    if main.depth % NARROW or main.tile < _LEAST:
        raise ValueError(f"{main.depth} steps, {main.rows} rows: no whole registers")
    far = main.weights > unit.l2 // 2
    made = [packing(main, found.read), _summing(main, nest.block.annotations, far=far)]
    sums = Sums(main.sums, 1, main.block, made, [main.pairs])
    return with_sums(func, found.nests, found.at, sums)


def _tile_rows(rows: int) -> int:
    """Rows that meet constants while these are near: whole registers, or a part of a single one."""
    if rows % ROWS == 0:
        return ROWS * largest_divisor(rows // ROWS, _MOST // ROWS)
    return largest_divisor(rows, ROWS)


def _summing(main: Bfloat16Product, annotations: dict[str, Any], *, far: bool) -> tirx.Stmt:
    """The nest over blocks of columns, matrices and tiles of rows."""
    t, tile = main.tile, tile_of(main)
    extents = (main.blocks, main.matrices, main.rows // t)
    rows = rows_of([min(t, ROWS)] * (_LEFT + 1) + [ROWS] * (REGISTERS - _LEFT - 1))
    cycles = main.depth // NARROW * tile.parts * ROWS * tile.rows

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        o, z, at = variables

        def each(s: Expr) -> list[tirx.Stmt]:
            comes = Coming(tile, o, s + 1) if far else None
            turning = loop("j", tile.stretch // 2, lambda j: put_in_turn(tile, o, s, j, comes))
            return [turning, *_multiplied(tile, [z, at * t, s * tile.stretch], comes)]

        first = whole(0)
        nothing = [zero(c) for c in SUMS] if tile.alone else [_nothing(tile)]
        kept = tile.moved(store_tile, first, 0) if tile.alone else []
        steps = loop("stretch", main.depth // tile.stretch, each)
        ordered = loop("r", t, lambda r: _ordered(tile, [z, o, at * t + r], r))
        right = [range_of(0, 1)] * (len(main.right.indices) - 3)
        mine = range_of(at * t, t)
        body = [begun(rows), *nothing, steps, *kept, ended(), ordered]
        return s_tir.SBlock(
            iterators(variables, extents),
            [
                region_of(main.right.source, [*right, range_of(o, 1), None, None]),
                region_of(main.pairs, [range_of(z, 1), mine, None]),
            ],
            [region_of(main.sums, [range_of(z, 1), range_of(o, 1), mine, None])],
            "product",
            with_functions(tile_functions([rows], _PRODUCTS), body),
            alloc_buffers=[tile.sums, tile.turned],
            annotations={**annotations, CYCLES: cycles},
        )

    return nest_over(("part", "z", "tile"), extents, block)


def _nothing(tile: AmxTile) -> tirx.Stmt:
    """Sums of zero."""

    def zeros(q: Expr, r: Expr, v: Expr) -> tirx.Stmt:
        return store(tile.sums, [q, r, ramp(v * WIDE, WIDE)], spread(real(0), WIDE))

    return loop("q", tile.chains, lambda q: loop("r", tile.main.tile, lambda r: loop(
        "v", tile.parts, lambda v: zeros(q, r, v)
    )))  # fmt: skip


def _multiplied(tile: AmxTile, place: Sequence[Expr], comes: Coming | None) -> list[tirx.Stmt]:
    """What a stretch of steps adds to the sums of a tile, some columns at a time.

    The ``place`` is the matrix, row and step that the left side begins with.
    """
    z, first, step = place
    pairs, most = tile.main.pairs, len(SUMS)

    def product(r: Expr, at: int, k: Expr, q: int) -> list[tirx.Stmt]:
        statements = comes.multiplying(r, k) if comes and at == 0 else []
        left = [z, first + r * ROWS, step // 2 + k * WIDE]
        statements.append(load_tile(_LEFT, pairs, left, 4 * int(pairs.ty.shape[-1])))
        for c in range(min(most, tile.parts - at)):
            right = (k * tile.parts + at + c) * (ROWS * WIDE)
            statements.append(load_tile(_RIGHT, tile.turned, [right], LINE))
            statements.append(dot(BFLOAT16, c * tile.chains + q, _LEFT, _RIGHT))
        return statements

    def some(r: Expr, at: int) -> list[tirx.Stmt]:
        def steps(k: Expr) -> list[tirx.Stmt]:
            chains = range(tile.chains)
            return [s for q in chains for s in product(r, at, k * tile.chains + q, q)]

        products = loop("k", tile.stretch // NARROW // tile.chains, steps)
        if tile.alone:
            return [products]
        return [*tile.moved(load_tile, r, at), products, *tile.moved(store_tile, r, at)]

    parts = range(0, tile.parts, most)
    return [loop("r", tile.rows, lambda r, at=at: some(r, at)) for at in parts]  # type: ignore[misc]


def _ordered(tile: AmxTile, place: Sequence[Expr], r: Expr) -> list[tirx.Stmt]:
    """A row's sums of all chains, number by number."""
    z, o, m = place

    def total(part: int) -> Expr:
        at = ramp(whole(part * WIDE), WIDE)
        chains = [load(tile.sums, q, r, at) for q in range(tile.chains)]
        return functools.reduce(operator.add, chains)

    read, whole_pairs = [total(part) for part in range(tile.parts)], tile.parts // 2 * 2
    ordered = [*in_order(read[:whole_pairs]), *read[whole_pairs:]]
    return [
        store(tile.main.sums, [z, o, m, ramp(whole(v * WIDE), WIDE)], value)
        for v, value in enumerate(ordered)
    ]
