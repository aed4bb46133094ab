"""How much of the machine other programs took while we measured.

Two devices that work at once need two cores at once: a neighbour that takes a quarter of one core
costs a single device little and a partition much. The load average would not tell, since our own
threads are in it; the kernel's count of busy time, less our own, does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# user, nice, system, irq, softirq, steal: fields of /proc/stat in which someone works.
_BUSY_FIELDS = (1, 2, 3, 6, 7, 8)
# Cores' worth of other people's work that is worth a word.
_WORTH_A_WORD = 0.1


class Reading(NamedTuple):
    """Wall time, busy time of all cores, and CPU time of our own process, s."""

    wall: float
    busy: float
    own: float


class Neighbours:
    """Counts from the moment it is made; `read` is what the times are read with."""

    def __init__(self, read: Callable[[], Reading] | None = None) -> None:
        self._read = read or read_times
        self._start = self._read()

    def busy_cores(self) -> float:
        """Cores that others kept busy on average since the start (0 where it cannot be known)."""
        wall, busy, own = (b - a for a, b in zip(self._start, self._read(), strict=True))
        return max(0.0, busy - own) / wall if wall > 0 else 0.0

    def warning(self) -> str:
        """What to say about them; empty if they were quiet."""
        cores = self.busy_cores()
        if cores < _WORTH_A_WORD:
            return ""
        return (
            f"Other programs kept {cores:.1f} of {os.cpu_count()} cores busy meanwhile: measured "
            "times are longer than on an idle machine, and two devices suffer more than one."
        )


def read_times() -> Reading:
    """The times at this moment."""
    own = os.times()
    return Reading(time.monotonic(), _busy_seconds(), own.user + own.system)


def _busy_seconds() -> float:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        ticks = sum(int(fields[i]) for i in _BUSY_FIELDS if i < len(fields))
    except (OSError, ValueError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")
