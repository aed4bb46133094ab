"""What is looked at by the clock: cores, CPU seconds, states of models.

A few times a second while the server runs, from the event loop's own thread: its CPU time is that
of who looks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

INTERVAL = 0.25  # seconds between two looks


@dataclass(frozen=True)
class CpuUse:
    """Cores' worth of time that the event loop's thread and the whole process had, lately."""

    loop: float
    process: float


class Sampler:
    """Looks, and keeps what it saw.

    Attributes
    ----------
    looks : called at each look, with the time.
    """

    def __init__(self) -> None:
        self.looks: list[Callable[[float], object]] = []
        self._cpu: deque[tuple[float, float, float]] = deque(maxlen=round(10 / INTERVAL))

    def look(self) -> None:
        """Once."""
        now = time.monotonic()
        self._cpu.append((now, time.thread_time(), time.process_time()))
        for each in self.looks:
            each(now)

    @property
    def cpu(self) -> CpuUse:
        """Over the last ten seconds."""
        if len(self._cpu) < 2:
            return CpuUse(0.0, 0.0)
        (t0, loop0, all0), (t1, loop1, all1) = self._cpu[0], self._cpu[-1]
        passed = max(t1 - t0, INTERVAL / 2)
        return CpuUse((loop1 - loop0) / passed, (all1 - all0) / passed)

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL)
