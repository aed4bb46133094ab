"""A tile of a product in integers (`integer_product`): which, and what it does in a group.

For each row and each vector of columns a sum of integers, in registers. A vector of words is
read once; two codes at a time are taken out of each word and meet the pairs of every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.matmul.product_tiles import ProductTile
from tvm_hetero.kernels.quantized.int16_operand import WORD, Numbers
from tvm_hetero.kernels.tir.conversions import to_float32
from tvm_hetero.kernels.tir.prefetch import LINE, prefetch_line
from tvm_hetero.kernels.tir.statements import bind_value, broadcast, load, loop, ramp, store, whole

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# Share of the registers that hold sums within a group, and rows of a tile; the same for a few rows.
_SUMS, _MOST_ROWS = 0.5, 8
_SUMS_OF_FEW, _FEW = 0.75, 4
# Multiplications in straight code: the instructions of more may not stay decoded, which differs
# from one build of the same code to the next.
_CODE = 64


@dataclass(frozen=True)
class WholeProduct:
    """The product of a kernel: its place, its sides, how it is divided."""

    numbers: Numbers
    codes: tirx.Var
    scales: tirx.Var
    sums: tirx.Var  # [matrix, part of the columns, row, column]
    block: int
    tile: ProductTile
    dot: str
    ahead: int

    @property
    def width(self) -> int:
        """Columns of a part."""
        return self.tile.vectors * self.numbers.lanes

    @property
    def parts(self) -> int:
        """Parts of a block."""
        return self.block // self.width


def tile_of(block: int, rows: int, unit: VectorUnit) -> ProductTile:
    """Of a few rows whole blocks, whose codes come in the order in which they stand.

    Of more rows as many as can be, so that codes are taken out of their words once.
    """
    widest = block // unit.lanes
    few = [t for t in range(1, min(rows, _FEW) + 1) if rows % t == 0]
    few = [t for t in few if widest * t <= _SUMS_OF_FEW * unit.registers]
    if rows <= _FEW and few:
        return ProductTile(widest, few[-1], 0.0)
    most = int(_SUMS * unit.registers)
    t = max(t for t in range(1, min(rows, _MOST_ROWS, most) + 1) if rows % t == 0)
    v = max(v for v in range(1, widest + 1) if widest % v == 0 and v * t <= most)
    return ProductTile(v, t, 0.0)


def group_of(
    main: WholeProduct,
    row: Sequence[Expr],
    q: Expr,
    o: Expr,
    column: Expr,
    inside: Sequence[tirx.Var],
    over: Sequence[tirx.Var],
) -> list[tirx.Stmt]:
    """What a group adds to a tile: its sums, then those times its scales."""
    numbers, lanes, (z, m) = main.numbers, main.numbers.lanes, row
    rows, words = range(main.tile.rows), numbers.group * numbers.bits // WORD
    statements: list[tirx.Stmt] = []

    def named(name: str, value: Expr) -> tirx.Var:
        var, bind = bind_value(name, value)
        statements.append(bind)
        return var

    for r in rows:
        first = named("less", broadcast(load(numbers.less, z, m + r, q), lanes))
        statements += [
            store(inside[r], [ramp(whole(v), lanes)], first) for v in range(0, main.width, lanes)
        ]
    together = _together(words, main.tile.rows * main.tile.vectors * numbers.half)

    def step(w: Expr) -> list[tirx.Stmt]:
        first = q * words + w * together
        return [s for u in range(together) for s in _word(main, row, first + u, o, column, inside)]

    statements.append(loop("w", words // together, step))
    for v in range(0, main.width, lanes):
        scale = named("scale", to_float32(load(main.scales, o, q, ramp(column + v, lanes)), lanes))
        for r in rows:
            here = ramp(whole(v), lanes)
            total = tirx.Cast(f"float32x{lanes}", load(inside[r], here))
            step = broadcast(load(numbers.step, z, m + r, q), lanes)
            statements.append(store(over[r], [here], load(over[r], here) + total * step * scale))
    return statements


def _together(words: int, each: int) -> int:
    """How many words of a group, of so many instructions each, are straight code."""
    return max(u for u in range(1, words + 1) if words % u == 0 and (u == 1 or u * each <= _CODE))


def _word(
    main: WholeProduct,
    row: Sequence[Expr],
    w: Expr,
    o: Expr,
    column: Expr,
    inside: Sequence[tirx.Var],
) -> list[tirx.Stmt]:
    """What the ``w``-th words of the columns add to the sums of their group."""
    numbers, lanes, (z, m) = main.numbers, main.numbers.lanes, row
    statements: list[tirx.Stmt] = _asked(main, w, o, column) if main.ahead else []
    for v in range(0, main.width, lanes):
        word, bind = bind_value("word", load(main.codes, o, w, ramp(column + v, lanes)))
        statements.append(bind)
        for p in range(numbers.half):
            code, bind = bind_value("code", _codes(word, p, numbers))
            statements.append(bind)
            for r in range(main.tile.rows):
                pair = broadcast(load(numbers.pairs, z, m + r, w * numbers.half + p), lanes)
                here = [ramp(whole(v), lanes)]
                total = load(inside[r], *here) + _dot(main.dot, code, pair, lanes)
                statements.append(store(inside[r], here, total))
    return statements


def _asked(main: WholeProduct, w: Expr, o: Expr, column: Expr) -> list[tirx.Stmt]:
    """Ask for words of the columns that come later, line by line (`prefetch`)."""
    width = WORD // 8 * main.width
    later = w + max(1, main.ahead // width)
    lines = range(0, width, LINE)
    return [prefetch_line(main.codes, [o, later, column + line // (WORD // 8)]) for line in lines]


def _codes(word: Expr, p: int, numbers: Numbers) -> Expr:
    """Two codes of each word, in its halves."""
    lanes, ones = numbers.lanes, 2**numbers.bits - 1
    moved = word
    if p:
        moved = tirx.shift_right(word, broadcast(tirx.const(p * numbers.bits, "int32"), lanes))
    return tirx.bitwise_and(moved, broadcast(tirx.const(ones << 16 | ones, "int32"), lanes))


def _dot(name: str, one: Expr, other: Expr, lanes: int) -> Expr:
    """For each lane the sum of two products of 16 bits."""
    halves = [tirx.reinterpret(f"int16x{2 * lanes}", side) for side in (one, other)]
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", name, *halves)
