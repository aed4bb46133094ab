"""Whether exchanging devices also exchanges the paths between them.

A permutation that keeps all links keeps the time and the number of hops of every path. So where
the best path (by time, then by hops) between two devices is the only one, it is carried to the best
path between their images. Only where several are best, the order of the devices decides, and
then the paths of such pairs have to be compared one by one.

How many paths are best is counted by the number of hops h, from one device a to all others:

    time_h(b) = min over c of time_(h-1)(c) + link(c, b)
    ways_h(b) = sum of ways_(h-1)(c) over those c

in the very sums of floats that `Platform.path` compares, so that a tie here is a tie there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tvm_hetero.errors import PlatformError
from tvm_hetero.problem.model import Problem
from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray

Permutation = tuple[int, ...]
Pair = tuple[int, int]
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
    ties = {nbytes: _ties(problem, links, indirect, nbytes) for nbytes in sizes}
    if sum(map(len, ties.values())) > _MOST_PATHS:
        return None
    return lambda permutation: all(
        _same(problem, permutation, nbytes, pairs) for nbytes, pairs in ties.items()
    )


def _ties(problem: Problem, links: IntArray, indirect: BoolArray, nbytes: int) -> list[Pair]:
    """The pairs of devices without a link that have several best paths for `nbytes`."""
    seconds = _seconds(problem, links, nbytes)
    sources = np.nonzero(indirect.any(axis=1))[0].tolist()
    return [(a, b) for a in sources for b in _several(seconds, a, indirect[a])]


def _seconds(problem: Problem, links: IntArray, nbytes: int) -> FloatArray:
    """Time of `nbytes` over every link, s; inf where there is none."""
    platform, names = problem.platform, problem.platform.names
    result = np.full(links.shape, np.inf)
    for code in np.unique(links[links >= 0]):
        where = links == code
        a, b = (int(x[0]) for x in np.nonzero(where))
        link = platform.link(names[a], names[b])
        assert link is not None, "a code stands for links"
        result[where] = link.seconds(nbytes)
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


def _same(problem: Problem, permutation: Permutation, nbytes: int, pairs: Sequence[Pair]) -> bool:
    """Whether, for these pairs, the path between images is the image of the path."""
    platform, names = problem.platform, problem.platform.names

    def stops(a: int, b: int) -> list[int] | None:
        try:
            path = platform.path(names[a], names[b], nbytes)
        except PlatformError:
            return None
        return [platform.index[link.dst] for link in path]

    for a, b in pairs:
        way = stops(a, b)
        image = None if way is None else [permutation[d] for d in way]
        if stops(permutation[a], permutation[b]) != image:
            return False
    return True
