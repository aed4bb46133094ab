"""Clients by the clock, of whom some hang up and some are in a hurry; each one's end is noted."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence

from tvm_hetero.serve.load_test.arrivals import Arrival
from tvm_hetero.serve.load_test.client import ClientPool, ClientReply, LostConnectionError

HANG_UPS, HURRIED = 0.1, 0.3  # shares of requests
ANSWERED, LATE, HUNG_UP, REFUSED, LOST, UNTOLD = ENDS = (
    "answered", "late", "hung up", "refused", "lost", "refused without a reason",
)  # fmt: skip
"""What became of a request; of the last two there must be none."""


class SoakClients:
    """Sends requests when they are due, whatever becomes of those before.

    Attributes
    ----------
    ends : how often what became of requests.
    reasons : for which they were refused.
    latencies : of those that were answered, s from when they were due.
    odd : what became of lost ones, the first few.
    """

    def __init__(self, pool: ClientPool, plain: bytes, hurried: bytes, seed: int = 0) -> None:
        self._pool, self._plain, self._hurried = pool, plain, hurried
        self._drawn = random.Random(seed)
        self.ends: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.latencies: list[float] = []
        self.odd: list[str] = []

    async def run(self, arrivals: Sequence[Arrival], patience: float) -> None:
        """Send all; those who hang up do so within `patience` seconds."""
        begin = time.perf_counter()
        tasks: set[asyncio.Task[None]] = set()
        for arrival in arrivals:
            await asyncio.sleep(max(0.0, begin + arrival.seconds - time.perf_counter()))
            leaves = self._drawn.random() * patience if self._drawn.random() < HANG_UPS else None
            request = self._hurried if self._drawn.random() < HURRIED else self._plain
            task = asyncio.ensure_future(self._ask(request, begin + arrival.seconds, leaves))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        while tasks:
            await asyncio.wait(tasks)

    async def _ask(self, request: bytes, due: float, leaves: float | None) -> None:
        try:
            end, detail = await self._exchange(request, leaves)
        except (OSError, LostConnectionError) as error:
            end, detail = LOST, str(error)
        self.ends[end] += 1
        if end == ANSWERED:
            self.latencies.append(time.perf_counter() - due)
        elif end == REFUSED:
            self.reasons[detail] += 1
        elif end in (LOST, UNTOLD) and len(self.odd) < 10:
            self.odd.append(detail)

    async def _exchange(self, request: bytes, leaves: float | None) -> tuple[str, str]:
        connection = await self._pool.take()
        try:
            reply = connection.send(request)
            await asyncio.wait({reply}, timeout=leaves)
            if not reply.done():
                reply.cancel()
                connection.close()
                return HUNG_UP, ""
            return _end_of(reply.result())
        finally:
            self._pool.give_back(connection)


def _end_of(reply: ClientReply) -> tuple[str, str]:
    if reply.status == 200:
        return ANSWERED, ""
    if reply.status == 504:
        return LATE, ""
    if reply.status in (429, 503):
        return (REFUSED, reply.reason) if reply.reason else (UNTOLD, repr(reply.body[:200]))
    return LOST, f"HTTP {reply.status} {reply.body[:200]!r}"
