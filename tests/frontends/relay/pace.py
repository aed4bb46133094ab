"""How long an answer takes, beside a fixed piece of Python on the same machine at the same time.

Seconds are another thing on each machine and beside each neighbour, so tests compare processor time
with that of a yardstick; `PROMPT` yardsticks are about a second on an idle core of Zen 4. A
neighbour who comes or goes between the two makes either slower than it is (shared caches, the other
thread of a core): who was too slow tries again, beside a yardstick of that moment. What grows with
the square of a file takes a hundred times as long as it may, each time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

PROMPT = 25
_TRIES = 4


def promptly(work: Callable[[], object]) -> None:
    """Do something, and fail where it takes more than `PROMPT` yardsticks each time."""
    told = []
    for attempt in range(_TRIES):
        limit = PROMPT * (_yardstick() if attempt else _first_yardstick())
        took = seconds_of(work)
        if took < limit:
            return
        told.append(f"{took:.2f} s of the processor, {limit:.2f} s are allowed")
    raise AssertionError("; ".join(told))


def seconds_of(work: Callable[[], object]) -> float:
    """Processor time of this process for it, s."""
    started = time.process_time()
    work()
    return time.process_time() - started


def _yardstick() -> float:
    """Processor seconds of some lists, numbers and strings: the less of two."""
    return min(seconds_of(_some_work) for _ in range(2))


@functools.cache
def _first_yardstick() -> float:
    return _yardstick()


def _some_work() -> None:
    counts: dict[str, list[int]] = {}
    for i in range(260_000):
        counts.setdefault(str(i % 1000), []).append(i)
