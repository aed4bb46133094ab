"""Paths of two hops between devices that no link joins, of all pairs at once.

On hundreds of devices nearly all have links, by a network, and the few pairs without one are best
joined over one device. That is certain where two hops are no slower than three can be
(`path_search.three_hops`), in the sums of floats that `Platform.path` compares. A search for each
pair, source or size took longer than the schedule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvm_hetero.platform.path_search import three_hops
from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray

# Pairs that are looked at together.
_AT_ONCE = 4096


class OneStop(NamedTuple):
    """What is known of each pair.

    Attributes
    ----------
    known : whether the best path has one stop; what follows holds where it is.
    seconds : of the path, s.
    several : whether several stops are as good.
    stops : the first of them.
    """

    known: BoolArray
    seconds: FloatArray
    several: BoolArray
    stops: IntArray


def one_stop(links: FloatArray, pairs: IntArray) -> OneStop:
    """The best paths of some pairs of devices that no link joins.

    Parameters
    ----------
    links : (devices, devices), time over each link, s; inf where there is none.
    pairs : (n, 2), from and to.
    """
    starts = range(0, max(1, len(pairs)), _AT_ONCE)
    found = [_one_stop(links, pairs[start : start + _AT_ONCE]) for start in starts]
    return OneStop(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _one_stop(links: FloatArray, pairs: IntArray) -> OneStop:
    sources, ends = pairs[:, 0], pairs[:, 1]
    sums = links[sources] + links[:, ends].T
    best = sums.min(axis=1)
    more = three_hops(links.min(axis=1)[sources], float(links.min()), links.min(axis=0)[ends])
    known = np.isfinite(best) & (best <= more)
    several = (sums == best[:, None]).sum(axis=1) > 1
    return OneStop(known, best, several, sums.argmin(axis=1))
