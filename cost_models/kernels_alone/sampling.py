"""How often a kernel is run before its time is believed.

The time of a kernel is the smallest of its repeats, because what else runs on the machine only
adds. On a quiet machine a few repeats settle it. On a busy one most are disturbed, and the
smallest is believed when others agree with it:

    stop when   (total >= budget  or  count >= most)   and   agreeing >= AGREE
    but at the latest when   total >= PATIENCE * budget  or  count >= PATIENCE * most

where ``agreeing`` counts the repeats within `TOLERANCE` of the smallest. How far the repeats were
apart is kept beside the smallest: the *spread* is the distance from it to the lower quartile. (Not
to the median or the mean: on a machine with a load of 4 the upper half says who else was there.)

Several implementations of one kernel are run in turns, so that what disturbs one disturbs all. One
that takes `LOST` times as long as the best of the others is out, after two turns at the earliest.

A neighbour that empties the caches or takes the memory's bandwidth for seconds disturbs all
repeats alike. So all kernels are measured in several rounds, and what a kernel meets in one of
them it hopefully does not in the next. (`python -m benchmarks.profiling` prints
how far repeats are apart.) A
kernel whose smallest time the last round still lowered by more than `TOLERANCE` has another turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

AGREE = 3
TOLERANCE = 0.03
PATIENCE = 10
LOST = 1.5


@dataclass(frozen=True)
class SamplingPolicy:
    """How long a kernel is measured.

    Attributes
    ----------
    budget : s; the repeats of a round go on until they have taken this long together.
    least, most : limits of the repeats in a round (`most` is exceeded while they disagree).
    rounds : how many times every kernel's turn comes, and `most_rounds` how many times at most
        while its smallest time goes on falling.
    time_limit : s; a kernel whose measurement takes longer is given up as hanging.
    """

    budget: float = 0.005
    least: int = 3
    most: int = 20
    rounds: int = 2
    most_rounds: int = 6
    time_limit: float = 60.0


def next_repeats(times: Sequence[float], effort: SamplingPolicy) -> int:
    """How many more repeats to make now, having made those that took `times`; 0 to stop."""
    if len(times) < effort.least:
        return effort.least - len(times)
    total = math.fsum(times)
    left = effort.budget - total
    if left > 0 and len(times) < effort.most:
        mean = max(total / len(times), 1e-7)
        return min(effort.most - len(times), int(left / mean) + 1)
    smallest = min(times)
    agreeing = sum(time <= smallest * (1 + TOLERANCE) for time in times)
    spent = max(total / effort.budget, len(times) / effort.most)
    return effort.least if agreeing < AGREE and spent < PATIENCE else 0


def is_settled(before: float | None, after: float) -> bool:
    """Whether a round that took the smallest time from `before` to `after` (s) was the last."""
    return before is None or after >= before * (1 - TOLERANCE)


def spread(times: Sequence[float]) -> float:
    """How far the lower quarter of the repeats reaches above the smallest, s."""
    ordered = sorted(times)
    return ordered[len(ordered) // 4] - ordered[0] if ordered else 0.0


def still_in(times: Sequence[Sequence[float]]) -> list[int]:
    """Which of several implementations are still worth a turn, having taken `times` so far."""
    best = min((min(own) for own in times if own), default=math.inf)
    return [i for i, own in enumerate(times) if len(own) < 2 or min(own) <= LOST * best]
