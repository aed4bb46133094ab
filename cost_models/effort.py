"""How often a kernel is run before its time is believed.

The time of a kernel is the smallest of its repeats, because what else runs on the machine only
adds. On a quiet machine a few repeats settle it. On a busy one most are disturbed, and the
smallest is believed when others agree with it:

    stop when   (total >= budget  or  count >= most)   and   agreeing >= AGREE
    but at the latest when   total >= PATIENCE * budget  or  count >= PATIENCE * most

where ``agreeing`` counts the repeats within `TOLERANCE` of the smallest.

A neighbour that empties the caches or takes the memory's bandwidth for seconds disturbs all
repeats alike. So all kernels are measured in several rounds, and what a kernel meets in one of
them it hopefully does not in the next. (Seen on two cores with a load of 7: the sum over the
kernels of inception_v1 was 13 to 27 ms after one round, 13.1 to 13.2 ms after two or more.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

AGREE = 3
TOLERANCE = 0.03
PATIENCE = 10


@dataclass(frozen=True)
class Effort:
    """How long a kernel is measured.

    Attributes
    ----------
    budget : s; the repeats of a round go on until they have taken this long together.
    least, most : limits of the repeats in a round (`most` is exceeded while they disagree).
    rounds : how many times every kernel's turn comes.
    time_limit : s; a kernel whose measurement takes longer is given up as hanging.
    """

    budget: float = 0.01
    least: int = 3
    most: int = 30
    rounds: int = 2
    time_limit: float = 60.0


def next_repeats(times: Sequence[float], effort: Effort) -> int:
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
