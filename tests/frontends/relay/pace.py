"""How long an answer takes, beside a fixed piece of Python on the same machine at the same time.

Seconds are another thing on each machine and beside each neighbour, so tests compare processor time
with that of a yardstick; `PROMPT` yardsticks are about a second on an idle core of Zen 4.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager

PROMPT = 25


@contextmanager
def promptly() -> Iterator[None]:
    """Fail where what is in the block takes more than `PROMPT` yardsticks."""
    limit = PROMPT * _yardstick()
    started = time.process_time()
    yield
    took = time.process_time() - started
    print(f"{took:.2f} s of the processor, {limit:.2f} s are allowed")
    assert took < limit


@functools.cache
def _yardstick() -> float:
    """Processor seconds of some lists, numbers and strings: the second least of five."""
    seconds = []
    for _ in range(5):
        started = time.process_time()
        counts: dict[str, list[int]] = {}
        for i in range(260_000):
            counts.setdefault(str(i % 1000), []).append(i)
        seconds.append(time.process_time() - started)
    return sorted(seconds)[1]
