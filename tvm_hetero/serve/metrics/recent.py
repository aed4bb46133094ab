"""The last minute of a model: what ended in each second, and how long it took.

A ring of seconds, so that memory does not grow with the traffic. Times are kept in bins of a
twentieth of a decade each: a percentile is within 12 % of the true one whatever the times are, and
mostly within 2 %, since it is interpolated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_hetero.serve.models.statistics import EndedQuery

SECONDS = 60
_PER_DECADE = 20
_LEAST = 1e-5  # the upper end of the lowest bin (s)
_MOST = 7 * _PER_DECADE  # bins up to 100 s; what is longer is in the last one


def bin_of(seconds: float) -> int:
    """The number of the bin of a time; bin n reaches from `bin_end` (n - 1) to `bin_end` (n)."""
    if seconds <= _LEAST:
        return 0
    return min(_MOST, math.ceil(math.log10(seconds / _LEAST) * _PER_DECADE - 1e-9))


def bin_end(number: float) -> float:
    """The upper end of a bin (s)."""
    return float(_LEAST * 10.0 ** (number / _PER_DECADE))


def percentile(bins: Mapping[int, int], share: float) -> float | None:
    """The time (s) within which a share (0 to 1) of all were; None if there were none."""
    total = sum(bins.values())
    if not total:
        return None
    wanted, reached = share * total, 0
    for number, count in sorted(bins.items()):
        if reached + count >= wanted:
            inside = (wanted - reached) / count
            return bin_end(number - 1 + inside)
        reached += count
    return bin_end(max(bins))


@dataclass
class OneSecond:
    """What ended in one second.

    Attributes
    ----------
    number : which second, by the clock of who adds.
    outcomes, refused : queries by outcome, and refused ones by reason.
    bins : answered ones by `bin_of` the time from door to end.
    items, tokens : elements computed, and tokens generated.
    joined, batches : queries that were computed together with others, and runs that did it.
    met, missed : of those that had an objective.
    slowest : the answered query that took longest.
    first, between : a decoder's times to the first token, and between two, by `bin_of`.
    """

    number: int = -1
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    bins: Counter[int] = field(default_factory=Counter)
    items: int = 0
    tokens: int = 0
    joined: int = 0
    batches: int = 0
    met: int = 0
    missed: int = 0
    slowest: EndedQuery | None = None
    first: Counter[int] = field(default_factory=Counter)
    between: Counter[int] = field(default_factory=Counter)


class RecentMinute:
    """A ring of the last `SECONDS` seconds."""

    def __init__(self) -> None:
        self._ring = [OneSecond() for _ in range(SECONDS)]

    def at(self, second: int) -> OneSecond:
        """Where what ends in this second is added."""
        place = second % SECONDS
        if self._ring[place].number != second:
            self._ring[place] = OneSecond(second)
        return self._ring[place]

    def before(self, second: int) -> list[OneSecond]:
        """The `SECONDS` whole seconds before this one, the oldest first."""
        wanted = range(second - SECONDS, second)
        rows = {row.number: row for row in self._ring}
        return [rows.get(number) or OneSecond(number) for number in wanted]
