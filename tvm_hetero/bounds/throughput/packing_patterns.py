"""What one device can hold where memory and time both bind: all its largest patterns, if few.

Of kinds k with n_k whole items, of s_k bytes and c_k seconds, a device of C bytes takes in time T

    P = { a : 0 <= a_k <= n_k whole,  sum_k s_k a_k <= C  and  sum_k c_k a_k <= T }

and a bound asks, for prices v >= 0 of the items, for max of v a over P. Two knapsacks
(`knapsack.py`), one with each limit, answer min(max over P_memory, max over P_time), which may be
much more: of items with 3 bytes and 1 s and of others with 1 byte and 3 s a device of 6 bytes has
in 6 s room for 2, and is credited with 6.

With few kinds, or devices that hold few items, P can be gone through. The kinds are taken in turn,
the largest items first; each row so far, with what it uses, is followed by every number of the
next kind that still fits, and by the largest number alone of the last        -> `largest_patterns`
Every a in P is at most one of these rows (raise its number of the last kind as far as it fits),
so no price >= 0 has its maximum outside of them; and of the kinds that take nothing all are taken.
Sizes that are too large by less than rounding still fit: P may only be too large. Where there are
more rows than `_MOST`, the two knapsacks are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.knapsack import Knapsack
from tvm_hetero.views.array_types import FloatArray, IntArray

Pattern = tuple[int, ...]
# Patterns that are listed at most, and what is too large by less than this part of a limit fits.
_MOST = 10_000
_SLACK = 1 + 1e-12
# Levels of the knapsacks, where there are more.
_LEVELS = 20_000


@dataclass(frozen=True)
class MaximalPatterns:
    """What a device can hold: its largest patterns, or a knapsack for each of its two limits."""

    rows: IntArray | None
    sacks: tuple[Knapsack, ...] = ()

    @classmethod
    def of(
        cls,
        sizes: Sequence[Sequence[float]],
        counts: Sequence[int],
        limits: Sequence[float],
        most: int = _MOST,
    ) -> MaximalPatterns:
        """Fillings that keep every limit (see `largest_patterns`)."""
        rows = largest_patterns(sizes, counts, limits, most)
        if rows is not None:
            return cls(rows)
        sacks = (Knapsack.of(s, counts, limit, _LEVELS)
                 for s, limit in zip(sizes, limits, strict=True))  # fmt: skip
        return cls(None, tuple(sacks))

    def best(self, prices: Sequence[float]) -> tuple[float, Pattern]:
        """A value that no filling exceeds at these prices (>= 0), and a filling of about it."""
        if self.rows is None:
            return min((sack.best(prices) for sack in self.sacks), key=lambda found: found[0])
        values = self.rows @ np.asarray(prices, dtype=np.float64)
        i = int(values.argmax())
        return float(values[i]), tuple(self.rows[i].tolist())


def largest_patterns(
    sizes: Sequence[Sequence[float]],
    counts: Sequence[int],
    limits: Sequence[float],
    most: int = _MOST,
) -> IntArray | None:
    """Rows that every pattern within the limits is at most one of; None if there are too many.

    Parameters
    ----------
    sizes : [limit][kind] what an item takes of each limit, in any unit, inf where it cannot be.
    counts : items of each kind.
    limits : how much there is; inf without limit. Below 0 it is taken as 0.
    most : rows that are listed at most.
    """
    each = np.array(sizes, dtype=np.float64)
    room = np.maximum(0.0, np.array(limits, dtype=np.float64))[:, None] * _SLACK
    rows = np.zeros((1, len(counts)), dtype=np.int64)
    used = np.zeros((len(limits), 1))
    order = _largest_first(each, room)
    for k in order:
        able = _able(each[:, k], counts[k], room - used)
        if k == order[-1] or not each[:, k].any():
            number, source = able, np.arange(len(rows))
        else:
            if int(able.sum()) + len(able) > most:
                return None
            source = np.repeat(np.arange(len(rows)), able + 1)
            ends = np.cumsum(able + 1)
            number = np.arange(len(source)) - np.repeat(ends - able - 1, able + 1)
        rows = rows[source]
        rows[:, k] = number
        taken = np.where(number > 0, each[:, k, None], 0.0) * number
        used = used[:, source] + taken
    return rows


def _largest_first(each: FloatArray, room: FloatArray) -> list[int]:
    """The kinds, those first of which the least items fit; equal ones by number."""
    with np.errstate(invalid="ignore", over="ignore"):  # inf of inf: it fits nowhere
        part = np.where(np.isinf(each), np.inf, each / np.maximum(room, 1e-300))
    return [int(k) for k in np.argsort(-part.max(axis=0), kind="stable")]


def _able(size: FloatArray, count: int, left: FloatArray) -> IntArray:
    """How many items of a kind fit into what each row has left."""
    fits = np.full(left.shape[1], float(count))
    for one, room in zip(size.tolist(), left, strict=True):
        if one == np.inf:
            fits = np.zeros_like(fits)
        elif one > 0:
            fits = np.minimum(fits, np.floor(np.maximum(room, 0.0) / one * _SLACK))
    whole: IntArray = fits.astype(np.int64)
    return whole
