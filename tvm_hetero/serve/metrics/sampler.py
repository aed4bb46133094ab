"""What is looked at by the clock: which model has which core, CPU seconds, states of models.

A few times a second while the server runs, from the event loop's own thread: its CPU time is that
of who looks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tvm_hetero.serve.core.shares import ShareSnapshot, ShareSource
from tvm_hetero.serve.metrics.recent import SECONDS

INTERVAL = 0.25  # seconds between two looks


@dataclass(frozen=True)
class CoreSpan:
    """A model had a core (None: no one had) from `begin` to `end`, by `time.monotonic`."""

    core: int
    model: str | None
    begin: float
    end: float


class CoreHistory:
    """Who had which core in the last minute."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[str | None, float]] = {}
        self._past: deque[CoreSpan] = deque()
        self._seen = 0.0

    def see(self, snapshot: ShareSnapshot, now: float) -> None:
        """Keep what is new in a snapshot that was taken now."""
        for share in snapshot.cores:
            model, begin = self._begun.get(share.core, (share.model, share.since))
            if model != share.model:
                self._past.append(CoreSpan(share.core, model, begin, share.since))
                begin = share.since
            self._begun[share.core] = (share.model, begin)
        while self._past and self._past[0].end < now - SECONDS:
            self._past.popleft()
        self._seen = now

    def spans(self) -> list[CoreSpan]:
        """All of the last minute, by core and time; nothing begins before it."""
        least = self._seen - SECONDS
        rows = [*self._past]
        rows += [CoreSpan(core, model, begin, self._seen)
                 for core, (model, begin) in self._begun.items()]  # fmt: skip
        cut = [CoreSpan(r.core, r.model, max(r.begin, least), r.end) for r in rows]
        return sorted((r for r in cut if r.end > r.begin), key=lambda r: (r.core, r.begin))


@dataclass(frozen=True)
class CpuUse:
    """Cores' worth of time that the event loop's thread and the whole process had, lately."""

    loop: float
    process: float


class Sampler:
    """Looks, and keeps what it saw.

    Attributes
    ----------
    shares : asked for the cores; None: cores are not shared, each model keeps to its own plan.
    cores : who had which core.
    looks : called at each look.
    """

    def __init__(self) -> None:
        self.shares: ShareSource | None = None
        self.cores = CoreHistory()
        self.looks: list[Callable[[], object]] = []
        self._cpu: deque[tuple[float, float, float]] = deque(maxlen=round(10 / INTERVAL))

    def look(self) -> None:
        """Once."""
        now = time.monotonic()
        if self.shares is not None:
            self.cores.see(self.shares(), now)
        self._cpu.append((now, time.thread_time(), time.process_time()))
        for each in self.looks:
            each()

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
