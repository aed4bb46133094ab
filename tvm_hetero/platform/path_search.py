"""The cheapest paths from one device to others: Dijkstra's algorithm, as far as it has been asked.

What is cheapest is decided by (time, hops, positions of the devices on the way). Who asks for the
paths from a device to all others pays for one search: on 64 nodes, a search for every pair took
longer than the schedule.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

# From a device: whom it has a link to, with latency (s) and bandwidth (bytes/s).
LinksOf = Callable[[int], Sequence[tuple[int, float, float]]]


class PathSearch:
    """Paths from one device for copies of one size.

    Parameters
    ----------
    src : the device, as its position in the platform.
    nbytes : bytes of a copy.
    links_of : the links from a device.
    """

    def __init__(self, src: int, nbytes: float, links_of: LinksOf) -> None:
        self._nbytes, self._links_of = nbytes, links_of
        self._heap: list[tuple[float, int, tuple[int, ...]]] = [(0.0, 0, (src,))]
        # The least time known to each device: what takes longer there is never settled.
        self._least: dict[int, float] = {}
        self._ways: dict[int, tuple[int, ...]] = {}

    def way_to(self, end: int) -> tuple[int, ...] | None:
        """The devices on the cheapest path, both ends among them; None if no path leads there."""
        while end not in self._ways and self._heap:
            self._settle_next()
        return self._ways.get(end)

    def _settle_next(self) -> None:
        seconds, hops, way = heapq.heappop(self._heap)
        here = way[-1]
        if here in self._ways:
            return
        self._ways[here] = way
        for there, latency, bandwidth in self._links_of(here):
            then = seconds + (latency + self._nbytes / bandwidth)
            if there in self._ways or then > self._least.get(there, then):
                continue
            self._least[there] = then
            heapq.heappush(self._heap, (then, hops + 1, (*way, there)))
