"""Pairs of bfloat16, as instructions take them that multiply and add up two numbers a lane.

    sum[i] + a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]      for each lane i of float32

Of two rows a pair has a number each. They are put in turn within each 128 bits, as the instruction
for that does it, so sums stand in an order of their own (`deinterleave_sums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

if TYPE_CHECKING:
    Expr = Any

# Numbers of 32 bits in the vectors that the functions below take, and in 128 bits.
LANES, _PART = 16, 4


def interleave_rows(one: Expr, other: Expr) -> list[Expr]:
    """Numbers of two rows in turn, in two vectors of pairs."""
    rows = [tirx.reinterpret(f"uint16x{2 * LANES}", row) for row in (one, other)]
    part = 2 * _PART
    halves = []
    for half in range(2):
        first = [p * part + half * _PART + i for p in range(LANES // _PART) for i in range(_PART)]
        order = [place for i in first for place in (i, i + 2 * LANES)]
        halves.append(tirx.reinterpret(f"float32x{LANES}", tirx.Shuffle(rows, order)))
    return halves


def deinterleave_sums(sums: Sequence[Expr]) -> list[Expr]:
    """Sums of rows that `interleave_rows` has paired, number by number."""
    part = 2 * _PART
    places = [
        n // part * _PART + n % _PART + (LANES if n % part >= _PART else 0)
        for n in range(2 * LANES)
    ]
    return [
        tirx.Shuffle(list(sums[k : k + 2]), places[half : half + LANES])
        for k in range(0, len(sums), 2)
        for half in (0, LANES)
    ]
