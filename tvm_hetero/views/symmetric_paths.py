"""Whether exchanging devices also exchanges the paths between them.

A permutation that keeps all links keeps the time and the number of hops of every path. So where
the best path (by time, then by hops) between two devices is the only one, it is carried to the best
path between their images. Only where several are best, the order of the devices decides, and
then the paths of such pairs have to be compared one by one.

How many paths are best is counted by the number of hops h, from one device a to all others:

    time_h(b) = min over c of time_(h-1)(c) + link(c, b)
    ways_h(b) = sum of ways_(h-1)(c) over those c

in the very sums of floats that `Platform.path` compares, so that a tie here is a tie there. Two
hops are tried first (`one_stop_paths`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import Link
from tvm_hetero.problem.model import Problem
from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray
from tvm_hetero.views.one_stop_paths import one_stop

Permutation = tuple[int, ...]
Pair = tuple[int, int]
# Pairs and what their paths pass (`_ties`), and the size of copies where that matters besides.
_Ties = tuple[frozenset[tuple[Pair, tuple[int, ...] | None]], int | None]
# Sizes of copies that are looked at, and paths that are compared one by one, before giving up.
_MOST_SIZES = 400
_MOST_PATHS = 50_000


def path_judge(problem: Problem, links: IntArray) -> Callable[[Permutation], bool] | None:
    """A test for permutations that keep all links; None if that would take too long.

    Parameters
    ----------
    links : a number for every link, -1 where there is none (`symmetry.link_codes`).
    """
    indirect = links < 0
    np.fill_diagonal(indirect, False)
    if not indirect.any():
        return lambda permutation: True
    one = {tensor.bytes for tensor in problem.graph.tensors.values()}
    if len(one) * problem.batch > _MOST_SIZES:
        return None
    sizes = sorted({b * n for b in one for n in range(1, problem.batch + 1)})
    ties: dict[_Ties, int] = {}
    figures, pairs, count = _figures(problem, links), np.argwhere(indirect), 0
    for nbytes in sizes:
        stops = _ties(_seconds(links, figures, nbytes), pairs)
        count += len(stops)
        if count > _MOST_PATHS:
            return None
        # Copies of most sizes take the same paths. What is left to a search is another for each.
        searched = None in stops.values()
        ties.setdefault((frozenset(stops.items()), nbytes if searched else None), nbytes)
    tied = [
        _TiedPaths(problem, nbytes, dict(stops)) for (stops, _), nbytes in ties.items() if stops
    ]

    def carried(permutation: Permutation) -> bool:
        moved = [d for d, image in enumerate(permutation) if d != image]
        return all(paths.carried(permutation, moved) for paths in tied)

    return carried


def _ties(seconds: FloatArray, pairs: IntArray) -> dict[Pair, tuple[int, ...] | None]:
    """Those of some pairs of devices, which no link joins, that have several best paths.

    With what their paths pass after the first device, where that is known already; else None.
    """
    found: dict[Pair, tuple[int, ...] | None] = {}
    left: dict[int, list[int]] = {}
    direct = one_stop(seconds, pairs)
    for k in np.nonzero(~direct.known | direct.several)[0].tolist():
        a, b = pairs[k].tolist()
        if direct.known[k]:
            found[a, b] = int(direct.stops[k]), b
        else:
            left.setdefault(a, []).append(b)
    for a, targets in left.items():
        asked = np.zeros(len(seconds), dtype=np.bool_)
        asked[targets] = True
        found |= {(a, b): None for b in _several(seconds, a, asked)}
    return found


def _figures(problem: Problem, links: IntArray) -> list[Link]:
    """A link of every code."""
    platform, names = problem.platform, problem.platform.names
    found = []
    for code in range(int(links.max(initial=-1)) + 1):
        a, b = (int(x[0]) for x in np.nonzero(links == code))
        link = platform.link(names[a], names[b])
        assert link is not None, "a code stands for links"
        found.append(link)
    return found


def _seconds(links: IntArray, figures: Sequence[Link], nbytes: int) -> FloatArray:
    """Time of `nbytes` over every link, s; inf where there is none."""
    # The last one is what a code of -1 takes.
    times = np.array([*(link.seconds(nbytes) for link in figures), np.inf])
    result: FloatArray = times[links]
    return result


def _several(seconds: FloatArray, a: int, targets: BoolArray) -> list[int]:
    """Those of `targets` to which several paths from `a` are best."""
    time, ways = seconds[a].copy(), np.isfinite(seconds[a]).astype(np.int64)
    time[a] = np.inf
    best, count = time.copy(), ways.copy()
    for _ in range(len(seconds)):
        reached = np.isfinite(time) & (time <= np.where(np.isfinite(best), best, np.inf))
        sums = np.where(reached, time, np.inf)[:, None] + seconds
        time = sums.min(axis=0)
        # What takes longer than with fewer hops is neither counted nor gone on from.
        kept = np.nonzero(np.isfinite(time) & ~(time > best))[0]
        tied = sums[:, kept] == time[kept]
        counted = np.zeros_like(ways)
        counted[kept] = np.minimum((tied * ways[:, None]).sum(axis=0), 2)
        ways = counted
        time[a] = np.inf
        better = time < best
        if not better.any():
            break
        best = np.where(better, time, best)
        count = np.where(better, ways, count)
    found: list[int] = np.nonzero(targets & (count > 1))[0].tolist()
    return found


class _TiedPaths:
    """The paths of some pairs of devices for one size of copies, and who has part in which.

    A permutation leaves the path of a pair as it is where it moves neither an end nor a stop. Going
    through all pairs for every exchange took more than a second on 68 devices.
    """

    def __init__(
        self, problem: Problem, nbytes: int, stops: Mapping[Pair, tuple[int, ...] | None]
    ) -> None:
        self._platform, self._nbytes = problem.platform, nbytes
        self._known: dict[Pair, tuple[int, ...] | None] = {
            pair: way for pair, way in stops.items() if way is not None
        }
        self._with: dict[int, list[Pair]] = {}
        for pair in stops:
            for d in {*pair, *(self._stops(pair) or ())}:
                self._with.setdefault(d, []).append(pair)

    def carried(self, permutation: Permutation, moved: Sequence[int]) -> bool:
        """Whether the path between the images of each pair is the image of its path.

        Of a permutation that has `moved` those devices alone.
        """
        touched = {pair for d in moved for pair in self._with.get(d, ())}
        return all(self._is_carried(pair, permutation) for pair in touched)

    def _is_carried(self, pair: Pair, permutation: Permutation) -> bool:
        way = self._stops(pair)
        image = None if way is None else tuple(permutation[d] for d in way)
        return self._stops((permutation[pair[0]], permutation[pair[1]])) == image

    def _stops(self, pair: Pair) -> tuple[int, ...] | None:
        """The devices that the path passes after the first one; None if there is no path."""
        if pair not in self._known:
            platform, (a, b) = self._platform, pair
            try:
                path = platform.path(platform.names[a], platform.names[b], self._nbytes)
            except PlatformError:
                self._known[pair] = None
            else:
                self._known[pair] = tuple(platform.index[link.dst] for link in path)
        return self._known[pair]
