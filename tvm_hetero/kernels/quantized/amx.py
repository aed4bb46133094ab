"""Products with weights of few bits by tile registers (`amx`), for several rows.

The left side is integers of 16 bits, as for vectors (`quantized.int16_operand`), each of two
bytes, x = 256 h + l with h signed. Codes are bytes without a sign, and so for a group of codes

    sum of x[k] code[k, n]  =  256 (sum of h[k] code[k, n])  +  sum of l[k] code[k, n]

two products of bytes, exact in 32 bits: the same sums as vectors make of them
(`quantized.integer_product`).

    bytes      words of four bytes of the numbers, in the order in which codes stand in their words:
               of 8 bits as they are, of 4 bits first the lower halves of bytes, then the upper ones
    product    for each block of columns, tile of rows and group:
                 turned   codes of 4 bits: two words of bytes of each word (`_turned`)
                 inside   both products, 16 columns to a register
                 over     += (256 h + l + less) step scale, in vectors

A word of codes of 8 bits is four steps of a column: a right side as it stands in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from tvm_hetero.kernels.cpu.amx import (
    PLAIN,
    SIGNED,
    WIDE,
    configure_tiles,
    dot_tiles,
    load_tile,
    release_tiles,
    store_tile,
    tile_functions,
    zero_tile,
)
from tvm_hetero.kernels.cpu.llvm_functions import with_functions
from tvm_hetero.kernels.matmul.written_products import CYCLES, region_of
from tvm_hetero.kernels.quantized.int8_operand import STEPS, CodeTile
from tvm_hetero.kernels.tir.conversions import to_float32
from tvm_hetero.kernels.tir.nests import iterators, nest_over, range_of
from tvm_hetero.kernels.tir.prefetch import LINE, prefetch_line
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    real,
    store,
    tensor,
    whole,
)

if TYPE_CHECKING:
    Expr = Any

# Registers: two pairs of sums (plain, signed) in turn, the left sides, two right sides in turn.
_SUMS, _LEFT, _RIGHT = ((0, 1), (2, 3)), (4, 5), (6, 7)
_PRODUCTS = [
    (kind, sums[i], _LEFT[i], right)
    for sums, right in zip(_SUMS, _RIGHT, strict=True)
    for i, kind in enumerate((PLAIN, SIGNED))
]
# About how many cycles a group takes for 16 columns.
_CYCLES = 80


def sum_tiles(tile: CodeTile, annotations: dict[str, Any]) -> tirx.Stmt:
    """The nest over blocks of columns, matrices and tiles of rows."""
    numbers, t = tile.numbers, tile.rows
    blocks, parts = int(tile.codes.ty.shape[0]), tile.width // WIDE
    extents = (blocks, numbers.matrices, numbers.rows // t)
    left, right = (t, 4 * tile.steps), (tile.steps, 4 * WIDE)
    sizes = [*[(t, 4 * WIDE)] * 4, *[left] * 2, *[right] * 2]
    over = tensor("over", [t, tile.width])
    inside = tensor("inside", [parts, 2, t, WIDE], "int32")
    turned = tensor("turned", [parts, tile.steps, WIDE], "int32")
    some = [turned] if numbers.half > 2 else []

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        o, z, at = variables

        def group(q: Expr) -> list[tirx.Stmt]:
            where = [z, at * t, o, q]
            return [
                *(_ask(tile, o, q) if tile.ahead else []),
                *(_turned(tile, o, q, turned) if some else []),
                *_left_sides(tile, where),
                *_of_all_columns(tile, where, inside, turned, over),
            ]

        rows = range_of(at * t, t)
        body = [
            _nothing(over, t, parts),
            configure_tiles(sizes),
            loop("q", numbers.groups, group),
            release_tiles(),
            loop("r", t, lambda r: _kept(tile, [z, o, at * t + r], r, over)),
        ]
        left_side = (numbers.step, numbers.less, tile.plain, tile.signed)
        read = [*((b, [range_of(o, 1), None, None]) for b in (tile.codes, tile.scales)),
                *((b, [range_of(z, 1), rows, None]) for b in left_side)]  # fmt: skip
        return s_tir.SBlock(
            iterators(variables, extents),
            [region_of(buffer, ranges) for buffer, ranges in read],
            [region_of(tile.sums, [range_of(z, 1), range_of(o, 1), rows, None])],
            "product",
            with_functions(tile_functions([sizes], _PRODUCTS), body),
            alloc_buffers=[over, inside, *some],
            annotations={**annotations, CYCLES: numbers.groups * parts * _CYCLES},
        )

    return nest_over(("part", "z", "tile"), extents, block)


def _nothing(over: tirx.Var, rows: int, parts: int) -> tirx.Stmt:
    def zeros(r: Expr, c: Expr) -> tirx.Stmt:
        return store(over, [r, ramp(c * WIDE, WIDE)], broadcast(real(0), WIDE))

    return loop("r", rows, lambda r: loop("c", parts, lambda c: zeros(r, c)))


def _ask(tile: CodeTile, o: Expr, q: Expr) -> list[tirx.Stmt]:
    """Ask for as many words as a group has, some ahead."""
    later = q * tile.words + max(tile.words, tile.ahead // (4 * tile.width))
    lines = range(0, 4 * tile.width * tile.words, LINE)
    return [prefetch_line(tile.codes, [o, later, whole(line // 4)]) for line in lines]


def _turned(tile: CodeTile, o: Expr, q: Expr, turned: tirx.Var) -> list[tirx.Stmt]:
    """Of each word of codes of 4 bits the lower and the upper halves of its bytes, as two words.

    Of 32 codes first all lower ones, as `quantized.int8_operand` has the numbers.
    """
    each = STEPS // 2
    mask, four = (broadcast(tirx.const(n, "int32"), WIDE) for n in (0x0F0F0F0F, 4))

    def column(c: Expr) -> list[tirx.Stmt]:
        statements = []
        for w in range(tile.words):
            place = [o, q * tile.words + w, ramp(c * WIDE, WIDE)]
            word, bind = bind_value("word", load(tile.codes, *place))
            statements.append(bind)
            first = w // each * STEPS + w % each
            for k, half in enumerate((word, tirx.shift_right(word, four))):
                there = [c, first + k * each, ramp(whole(0), WIDE)]
                statements.append(store(turned, there, tirx.bitwise_and(half, mask)))
        return statements

    return [loop("c", tile.width // WIDE, column)]


def _left_sides(tile: CodeTile, where: Sequence[Expr]) -> list[tirx.Stmt]:
    """The bytes of a group into their registers."""
    z, first, _, q = where
    stride = 4 * int(tile.plain.ty.shape[-1])
    return [
        load_tile(register, side, [z, first, q * tile.steps], stride)
        for register, side in zip(_LEFT, (tile.plain, tile.signed), strict=True)
    ]


def _of_all_columns(
    tile: CodeTile, where: Sequence[Expr], inside: tirx.Var, turned: tirx.Var, over: tirx.Var
) -> list[tirx.Stmt]:
    """What a group adds: all its products first, since a register is stored late, and then sums."""
    parts = tile.width // WIDE
    together = 2 if parts % 2 == 0 else 1

    def products(at: Expr) -> list[tirx.Stmt]:
        sets = range(together)
        each = [_products(tile, where, at * together + i, i, inside, turned) for i in sets]
        return [statement for statements in each for statement in statements]

    sums = loop("c", parts, lambda c: _over(tile, where, c, inside, over))
    return [loop("c", parts // together, products), sums]


def _products(
    tile: CodeTile, where: Sequence[Expr], at: Expr, i: int, inside: tirx.Var, turned: tirx.Var
) -> list[tirx.Stmt]:
    """Both products of a group and the ``at``-th 16 columns, in the ``i``-th set of registers."""
    _, _, o, q = where
    if tile.numbers.half > 2:
        right = load_tile(_RIGHT[i], turned, [at, whole(0), whole(0)], LINE)
    else:
        right = load_tile(_RIGHT[i], tile.codes, [o, q * tile.words, at * WIDE], 4 * tile.width)
    statements = [right]
    for k, kind in enumerate((PLAIN, SIGNED)):
        register = _SUMS[i][k]
        statements += [
            zero_tile(register),
            dot_tiles(kind, register, _LEFT[k], _RIGHT[i]),
            store_tile(register, inside, [at, whole(k), whole(0), whole(0)], LINE),
        ]
    return statements


def _over(
    tile: CodeTile, where: Sequence[Expr], at: Expr, inside: tirx.Var, over: tirx.Var
) -> list[tirx.Stmt]:
    """16 columns of a group, times its steps and scales, to the sums of all groups."""
    z, first, o, q = where
    numbers, eight = tile.numbers, broadcast(tirx.const(8, "int32"), WIDE)
    here, all_lanes = ramp(at * WIDE, WIDE), ramp(whole(0), WIDE)
    scale, bind = bind_value("scale", to_float32(load(tile.scales, o, q, here), WIDE))
    statements = [bind]
    for r in range(tile.rows):
        low, high = (load(inside, at, k, r, all_lanes) for k in (0, 1))
        less = broadcast(load(numbers.less, z, first + r, q), WIDE)
        step = broadcast(load(numbers.step, z, first + r, q), WIDE)
        total = tirx.Cast(f"float32x{WIDE}", low + tirx.shift_left(high, eight) + less)
        statements.append(store(over, [r, here], load(over, r, here) + total * step * scale))
    return statements


def _kept(tile: CodeTile, place: Sequence[Expr], r: Expr, over: tirx.Var) -> tirx.Stmt:
    """A row's sums, where what follows reads them."""

    def part(c: Expr) -> tirx.Stmt:
        here = ramp(c * WIDE, WIDE)
        return store(tile.sums, [*place, here], load(over, r, here))

    return loop("c", tile.width // WIDE, part)
