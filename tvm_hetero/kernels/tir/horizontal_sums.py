"""Sums across the lanes of many vectors at once.

To sum up the L lanes of L vectors one by one takes log L shuffles and additions for each. Two
vectors share a step instead: one vector takes one half of the lanes of both, another takes the
other half, and their sum has half as many terms left for each. So L vectors become L / 2, then
L / 4, and in the end one, whose lane i is the sum of vector i, after 2 (L - 1) shuffles.

The halves are such that each is one instruction on x86: first pairs of lanes within each part of
128 bits (4 lanes) of both vectors, then whole parts.

    a = a0 a1 a2 a3   b = b0 b1 b2 b3   c = ...
    (a0 a1 b0 b1) + (a2 a3 b2 b3) = A0 A1 B0 B1
    (A0 B0 C0 D0) + (A1 B1 C1 D1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import bind_value

if TYPE_CHECKING:
    Expr = Any
    # Which units of the first and second vector the one and the other half take.
    Halves = tuple[Sequence[int], Sequence[int]]
    Summands = tuple[Sequence[Expr], Sequence[tirx.Stmt]]

_PART = 4
_OF_TWO: Halves = ((0, 2), (1, 3))
_OF_FOUR: tuple[Halves, Halves] = (((0, 1, 4, 5), (2, 3, 6, 7)), ((0, 2, 4, 6), (1, 3, 5, 7)))


def fold_parts(summands: Callable[[int], Summands], lanes: int) -> Summands:
    """Vectors with as many sums to each part of 128 bits as it has lanes.

    Parameters
    ----------
    summands
        Gives, for i of ``0 .. part - 1``, some vectors, and the statements that they need first.
    lanes
        Of each vector.

    Returns
    -------
    As many vectors as ``summands`` gives: in lane i of each part stands the sum of that part of
    the i-th. And the statements that they need first. Two are added as soon as they are there, so
    that few are alive at a time.
    """
    part = min(_PART, lanes)
    return _folded(summands, 0, [_within_parts(halves, part, lanes) for halves in _halves(part)])


def fold(parts: Sequence[Sequence[Expr]], lanes: int) -> Summands:
    """Vectors of sums across all lanes, of what `fold_parts` gave for the first few i's, the
    next few, and so on.
    """
    part = min(_PART, lanes)
    levels = [_whole_parts(halves, part) for halves in _halves(lanes // part)]
    return _folded(lambda i: (parts[i], []), 0, levels)


def _folded(summands: Callable[[int], Summands], first: int, levels: Sequence[Halves]) -> Summands:
    """The sums of those from ``first`` on, as many as two to the number of levels."""
    if not levels:
        return summands(first)
    *before, halves = levels
    ones, statements = _folded(summands, first, before)
    others, more = _folded(summands, first + 2 ** len(before), before)
    sums, binds = [], []
    for pair in zip(ones, others, strict=True):
        one, other = (tirx.Shuffle(list(pair), half) for half in halves)
        total, bind = bind_value("fold", one + other)
        sums.append(total)
        binds.append(bind)
    return sums, [*statements, *more, *binds]


def _halves(units: int) -> list[Halves]:
    """The steps that leave one of so many units."""
    return {1: [], 2: [_OF_TWO], 4: list(_OF_FOUR)}[units]


def _within_parts(halves: Halves, part: int, lanes: int) -> Halves:
    """Lanes of parts: those of the second vector come ``lanes`` later."""

    def spread(half: Sequence[int]) -> list[int]:
        return [
            first + unit % part + lanes * (unit // part)
            for first in range(0, lanes, part)
            for unit in half
        ]

    return spread(halves[0]), spread(halves[1])


def _whole_parts(halves: Halves, part: int) -> Halves:
    """Whole parts of both vectors."""

    def spread(half: Sequence[int]) -> list[int]:
        return [unit * part + lane for unit in half for lane in range(part)]

    return spread(halves[0]), spread(halves[1])
