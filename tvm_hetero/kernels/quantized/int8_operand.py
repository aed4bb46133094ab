"""The left side of a product with weights of few bits as bytes, for tile registers.

A number of 16 bits is two bytes, x = 256 h + l with h signed; four of either kind are a word, in
the order in which the codes that they meet stand in a word of theirs (`quantized.amx`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from tvm_hetero.kernels.cpu.amx import ROWS, WIDE
from tvm_hetero.kernels.matmul.written_products import region_of
from tvm_hetero.kernels.quantized.int16_operand import WORD, Numbers
from tvm_hetero.kernels.tir.nests import iterators, nest_over, range_of
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    store,
    tensor,
    whole,
)

if TYPE_CHECKING:
    Expr = Any

# Rows from which on; codes that a register of so many rows takes, and most of them in a group.
LEAST = 5
CODES, STEPS = 32, 8
_MOST_OF_A_GROUP = 64


@dataclass(frozen=True)
class CodeTile:
    """A product of some rows and blocks of columns.

    Attributes
    ----------
    numbers
        The left side.
    codes, scales
        The weights: [block, word, column] and [block, group, column].
    sums
        [matrix, block, row, column].
    rows
        Of a tile.
    ahead
        Bytes ahead that codes are asked for.
    plain, signed
        Bytes of the left side: [matrix, row, word].
    """

    numbers: Numbers
    codes: tirx.Var
    scales: tirx.Var
    sums: tirx.Var
    rows: int
    ahead: int
    plain: tirx.Var
    signed: tirx.Var

    @property
    def width(self) -> int:
        """Columns of a block."""
        return int(self.codes.ty.shape[-1])

    @property
    def words(self) -> int:
        """Words of codes of a group."""
        return self.numbers.group * self.numbers.bits // WORD

    @property
    def steps(self) -> int:
        """Rows of a right side: four steps each."""
        return self.numbers.group // 4


def code_tile(
    numbers: Numbers, codes: tirx.Var, scales: tirx.Var, sums: tirx.Var, ahead: int
) -> CodeTile:
    """The tile of a product, with fresh buffers for bytes.

    Raises
    ------
    ValueError
        If tile registers do not take it.
    """
    rows = max(d for d in range(1, ROWS + 1) if numbers.rows % d == 0)
    width = int(codes.ty.shape[-1])
    if rows < LEAST or numbers.group > _MOST_OF_A_GROUP or width % WIDE:
        raise ValueError(f"{rows} rows, groups of {numbers.group}, {width} columns: no registers")
    # Rows of many lengths would begin in the same set of the first cache.
    shape = [numbers.matrices, numbers.rows, numbers.groups * numbers.group // 4 + WIDE]
    plain, signed = (tensor(name, shape, "int32") for name in ("plain", "signed"))
    return CodeTile(numbers, codes, scales, sums, rows, ahead, plain, signed)


def taking_apart(tile: CodeTile) -> tirx.Stmt:
    """The nest that makes bytes of the numbers, row by row; behind a row's end there are zeros."""
    numbers, both = tile.numbers, (tile.plain, tile.signed)
    extents = (numbers.matrices, numbers.rows)
    units = numbers.groups * numbers.group // CODES

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        z, m = variables

        def unit(u: Expr) -> list[tirx.Stmt]:
            words = ramp(u * (CODES // 2), CODES // 2)
            pairs, bind = bind_value("pairs", load(numbers.pairs, z, m, words))
            made = zip(both, _bytes(pairs, numbers.half), strict=True)
            place = [z, m, ramp(u * STEPS, STEPS)]
            return [bind, *(store(buffer, place, value) for buffer, value in made)]

        nothing = broadcast(tirx.const(0, "int32"), WIDE)
        end = [z, m, ramp(whole(units * STEPS), WIDE)]
        row = [range_of(z, 1), range_of(m, 1), None]
        return s_tir.SBlock(
            iterators(variables, extents),
            [region_of(numbers.pairs, row)],
            [region_of(buffer, row) for buffer in both],
            "bytes",
            tirx.SeqStmt([loop("u", units, unit), *(store(b, end, nothing) for b in both)]),
        )

    return nest_over("zm", extents, block)


def _bytes(pairs: Expr, half: int) -> tuple[Expr, Expr]:
    """Lower and upper bytes of 32 numbers, four to a word.

    The numbers that meet the codes at places p and p + half / 2 of a word's halves (of 8 bits: 0
    and 1) are a word's bytes 0, 2 and 1, 3.
    """
    words = range(0, CODES // 2, half)
    places = range(half // 2)
    first = tirx.Shuffle([pairs], [w + p for p in places for w in words])
    second = tirx.Shuffle([pairs], [w + p + half // 2 for p in places for w in words])
    even, odd = (broadcast(tirx.const(mask, "int32"), STEPS) for mask in (0x00FF00FF, -0x00FF0100))
    eight = broadcast(tirx.const(8, "int32"), STEPS)
    both, shifted = tirx.bitwise_and(second, even), tirx.shift_right(first, eight)
    plain = tirx.bitwise_or(tirx.bitwise_and(first, even), tirx.shift_left(both, eight))
    signed = tirx.bitwise_or(tirx.bitwise_and(shifted, even), tirx.bitwise_and(second, odd))
    return plain, signed
