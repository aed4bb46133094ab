"""The cheapest paths from one device to others: Dijkstra's algorithm, as far as it has been asked.

What is cheapest is decided by (time, hops, positions of the devices on the way). Who asks for the
paths from a device to all others pays for one search: on 64 nodes, a search for every pair took
longer than the schedule. Where a path over one device in between is quicker than three hops can be,
there is nothing to search: of 192 devices that nearly all have links, each search settles 190.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# From a device: whom it has a link to, with latency (s) and bandwidth (bytes/s).
LinksOf = Callable[[int], Mapping[int, tuple[float, float]]]
# Searches that are kept: those for a size from each of many devices.
_MOST_SEARCHES = 512
# Times over links to each device, for a size, that are kept.
_MOST_TIMES = 100_000
T = TypeVar("T", float, "NDArray[np.float64]")


class PathFinder:
    """Cheapest paths of a platform, whose devices are named by their positions.

    Parameters
    ----------
    links_of : the links from a device.
    count : of devices.
    """

    def __init__(self, links_of: LinksOf, count: int) -> None:
        self._links_of, self._count = links_of, count
        self._searches: dict[tuple[int, float], PathSearch] = {}
        self._least: dict[float, float] = {}
        self._least_into: dict[tuple[int, float], float] = {}

    def way(self, src: int, end: int, nbytes: float) -> tuple[int, ...] | None:
        """The devices on the cheapest path, both ends among them; None if no path leads there."""
        stop = self._one_stop(src, end, nbytes)
        if stop is not None:
            return (src, stop, end)
        key = (src, nbytes)
        if key not in self._searches:
            if len(self._searches) == _MOST_SEARCHES:
                self._searches.clear()
            self._searches[key] = PathSearch(src, nbytes, self._links_of)
        return self._searches[key].way_to(end)

    def _one_stop(self, src: int, end: int, nbytes: float) -> int | None:
        """The stop of a path of two hops that is cheapest; None where that is not certain.

        Asked where no link joins the two.
        """
        known: list[tuple[float, int]] = []
        nearest = float("inf")
        for there, (latency, bandwidth) in self._links_of(src).items():
            first = latency + nbytes / bandwidth
            nearest = min(nearest, first)
            if end in (onward := self._links_of(there)):
                latency, bandwidth = onward[end]
                known.append((first + (latency + nbytes / bandwidth), there))
        if not known:
            return None
        seconds, stop = min(known)
        more = three_hops(nearest, self._quickest(nbytes), self._quickest_into(end, nbytes))
        return stop if seconds <= more else None

    def _quickest(self, nbytes: float) -> float:
        """The least time over any link, s: of each size once, since links may be all unlike."""
        if nbytes not in self._least:
            self._least[nbytes] = _least(self._figures, nbytes)
        return self._least[nbytes]

    def _quickest_into(self, end: int, nbytes: float) -> float:
        """The least time over a link to a device, s."""
        key = (end, nbytes)
        if key not in self._least_into:
            if len(self._least_into) == _MOST_TIMES:
                self._least_into.clear()
                self._least.clear()
            self._least_into[key] = _least(self._into[end], nbytes)
        return self._least_into[key]

    @cached_property
    def _into(self) -> list[set[tuple[float, float]]]:
        """Figures of the links into each device."""
        found: list[set[tuple[float, float]]] = [set() for _ in range(self._count)]
        for device in range(self._count):
            for there, figures in self._links_of(device).items():
                found[there].add(figures)
        return found

    @cached_property
    def _figures(self) -> set[tuple[float, float]]:
        """Figures of all links."""
        return {figures for into in self._into for figures in into}


def three_hops(first: T, any_link: float, last: T) -> T:
    """What a path of more than two hops takes at least, s; for numbers and for arrays.

    No less than the quickest link from the one end, any, and the quickest to the other, in the
    order in which a search adds them up: sums of floats grow with what is summed.
    """
    return (first + any_link) + last


def _least(figures: Iterable[tuple[float, float]], nbytes: float) -> float:
    """The least time over links of these figures, s."""
    return min(latency + nbytes / bandwidth for latency, bandwidth in figures)


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
        for there, (latency, bandwidth) in self._links_of(here).items():
            then = seconds + (latency + self._nbytes / bandwidth)
            if there in self._ways or then > self._least.get(there, then):
                continue
            self._least[there] = then
            heapq.heappush(self._heap, (then, hops + 1, (*way, there)))
