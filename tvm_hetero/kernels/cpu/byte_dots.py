"""Sums of products of bytes, four at a time: words of unsigned bytes by words of signed ones.

    sum += u[0] s[0] + u[1] s[1] + u[2] s[2] + u[3] s[3]        for each lane, exact in 32 bits

With VNNI that is one instruction. Without it two that multiply pairs of 16 bits, once the bytes of
a word are taken apart; and without those, four multiplications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import broadcast, load, ramp

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

WORD = 4
"""Bytes of a word."""


@dataclass(frozen=True)
class ByteDot:
    """Which instructions there are: by LLVM's names of them, '' for none.

    Attributes
    ----------
    bytes
        Adds four products of bytes to each lane.
    pairs
        Makes the sum of two products of 16 bits of each lane.
    """

    bytes: str = ""
    pairs: str = ""


PLAIN = ByteDot()
"""Without any."""


def byte_dot(unit: VectorUnit, lanes: int) -> ByteDot:
    """What a unit has for vectors of so many words: its instructions are for whole registers."""
    return ByteDot(unit.bytes, unit.pairs) if lanes == unit.lanes else PLAIN


def add_byte_products(total: Expr, codes: Expr, weights: Expr, dot: ByteDot, lanes: int) -> Expr:
    """A vector of sums, and what four products of each lane add.

    Parameters
    ----------
    total
        Of int32.
    codes, weights
        Words (int32) of unsigned and of signed bytes.
    dot
        How it is done.
    lanes
        Of all three.
    """
    if dot.bytes:
        sides = [tirx.reinterpret(f"int8x{WORD * lanes}", side) for side in (codes, weights)]
        return tirx.call_llvm_pure_intrin(f"int32x{lanes}", dot.bytes, total, *sides)
    if dot.pairs:
        for code, weight in zip(_plain_pairs(codes, lanes), _pairs(weights, lanes), strict=True):
            total = total + tirx.call_llvm_pure_intrin(f"int32x{lanes}", dot.pairs, code, weight)
        return total
    return total + plain_dot(codes, weights, lanes)


def plain_dot(codes: Expr, weights: Expr, lanes: int = 1) -> Expr:
    """The sum of the four products of each lane, by arithmetic that every target has."""
    total = None
    for i in range(WORD):
        up, down, last = (_word(8 * n, lanes) for n in (WORD - 1 - i, i, WORD - 1))
        weight = tirx.shift_right(tirx.shift_left(weights, up), last)
        code = tirx.bitwise_and(tirx.shift_right(codes, down), _word(0xFF, lanes))
        total = code * weight if total is None else total + code * weight
    return total


def _word(value: int, lanes: int) -> Expr:
    constant = tirx.const(value, "int32")
    return constant if lanes == 1 else broadcast(constant, lanes)


def _plain_pairs(words: Expr, lanes: int) -> list[Expr]:
    """The even and the odd ones of unsigned bytes, as vectors of 16 bits."""
    moved = tirx.shift_right(words, _word(8, lanes))
    both = [tirx.bitwise_and(each, _word(0x00FF00FF, lanes)) for each in (words, moved)]
    return [tirx.reinterpret(f"int16x{2 * lanes}", each) for each in both]


def _pairs(words: Expr, lanes: int) -> list[Expr]:
    """The even and the odd ones of signed bytes."""
    halves = tirx.reinterpret(f"int16x{2 * lanes}", words)
    eight = broadcast(tirx.const(8, "int16"), 2 * lanes)
    even = tirx.shift_right(tirx.shift_left(halves, eight), eight)
    return [even, tirx.shift_right(halves, eight)]


def load_codes(buffer: tirx.Var, row: Expr, word: Expr) -> Expr:
    """Four bytes of a buffer ``[rows, bytes]`` of uint8, as a word."""
    return tirx.reinterpret("int32", load(buffer, row, ramp(word * WORD, WORD)))
