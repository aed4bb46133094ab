"""Packrat: each query's items divided among instances of so many threads (ICML 2025, PMLR 267).

After A. Bhardwaj et al.: for B items on T cores, how many instances, each with t threads and a
batch of b items, so that the slowest ends first. By a table seconds[t][b]:

    best(B, T) = min over t, b of  max(seconds[t][b], best(B - b, T - t))

which is the papers' knapsack over instances at work at once. Packrat serves one model; here each
has a partition by its load (`fixed_partitions`), and its queries run there one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from tvm_hetero.serve.scheduling.policies.fixed_partitions import FixedPartitions


def best_instances(seconds: Callable[[int, int], float], items: int, places: int) -> float:
    """Seconds until the last of so many items has ended, on the best instances.

    Parameters
    ----------
    seconds : of b items, as one batch, on an instance of t places: ``seconds(t, b)``.
    """

    @cache
    def best(left: int, free: int) -> float:
        if left <= 0:
            return 0.0
        if free == 0:
            return math.inf
        return min(
            max(seconds(t, b), best(left - b, free - t))
            for t in range(1, free + 1)
            for b in range(1, left + 1)
        )

    return best(items, places)


class Packrat(FixedPartitions):
    """Partitions as in `FixedPartitions`; its profile is a table of best instances."""
