"""Measuring while the host is calm.

What other machines on the same host do is in no count of ours: no time is stolen, no process is
seen, but all of our runs take a fifth longer for some seconds, those that use both cores most. The
same runs, over and over, tell: then their median stands far above the fastest of them. What a plan
takes is compared with what it was said to take, so such a moment is no moment to measure, and the
case is measured again. Nothing here looks at what was predicted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from tvm_hetero.util.statistics import Statistics

Found = TypeVar("Found")

# By which share medians may stand above the fastest run, how often is tried, and after how long, s.
CALM = 0.05
ATTEMPTS, _PAUSE = 4, 5.0


def unrest(found: Mapping[str, Statistics], sides: Collection[str]) -> float:
    """By which share the median of some sides stands above their fastest run, at most."""
    return max(found[side].median / found[side].min - 1 for side in sides)


def in_a_calm_moment(
    measure: Callable[[], dict[str, Statistics]],
    sides: Collection[str],
    attempts: int = ATTEMPTS,
    pause: float = _PAUSE,
) -> tuple[dict[str, Statistics], float]:
    """The first measurement whose sides are calm, or the calmest of some; and its unrest."""
    return calmest(measure, lambda found: unrest(found, sides), attempts, pause)


def calmest(
    measure: Callable[[], Found],
    unrest_of: Callable[[Found], float],
    attempts: int = ATTEMPTS,
    pause: float = _PAUSE,
) -> tuple[Found, float]:
    """As `in_a_calm_moment`, of anything that can be measured and whose unrest can be told."""
    tried: list[tuple[Found, float]] = []
    for attempt in range(attempts):
        if attempt:
            time.sleep(pause)
        found = measure()
        tried.append((found, unrest_of(found)))
        if tried[-1][1] <= CALM:
            break
    return min(tried, key=lambda pair: pair[1])
