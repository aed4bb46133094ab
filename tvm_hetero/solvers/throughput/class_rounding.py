"""Throughput by rounding shares: each class of tasks on the kinds that the program gave it.

A corner of the program of `views.task_classes` divides fewer classes than there are kinds, so
nearly all groups go where it says (Lenstra, Shmoys and Tardos 1990, doi:10.1007/BF01585745):

    1. of every class as many whole groups to each kind as the program gave it; the groups of a
       class are taken in topological order, so that neighbours stay together        -> `_deal`
    2. within a kind the longest first, each on the least loaded device              -> `_spread`
    3. what was divided, the longest first, where it ends earliest

Copies and memory are not weighed: where they matter the plan is but a start for a search.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.views.instance import Instance
from tvm_hetero.views.task_classes import ClassShares

Floats = NDArray[np.float64]
# What rounding may lack of a whole group.
_NOISE = 1e-6


def share_plan(instance: Instance, found: ClassShares) -> list[int] | None:
    """The device of every part; None if the program was too big to be solved."""
    if not len(found.shares):
        return None
    wanted, divided = _deal(found)
    home = [-1] * len(instance.groups)
    loads = np.zeros(len(instance.names))
    for kind, groups in enumerate(wanted):
        work = found.work[found.class_of[groups], kind] if groups else np.zeros(0)
        _spread(groups, work, found.kinds[kind], home, loads)
    _place_divided(found, divided, home, loads)
    placement = [0] * len(instance)
    for group, device in zip(instance.groups, home, strict=True):
        for v in group:
            placement[v] = device
    return placement


def _deal(found: ClassShares) -> tuple[list[list[int]], list[int]]:
    """Groups for each kind, and those that the program divided."""
    wanted: list[list[int]] = [[] for _ in found.kinds]
    divided: list[int] = []
    order = np.argsort(found.class_of, kind="stable")
    ends = np.cumsum(np.bincount(found.class_of, minlength=len(found.work)))
    begin = 0
    for i, end in enumerate(ends.tolist()):
        members = order[begin:end].tolist()
        begin = end
        at = 0
        for k, share in enumerate(found.shares[i].tolist()):
            count = min(math.floor(share + _NOISE), len(members) - at)
            wanted[k] += members[at : at + count]
            at += count
        divided += members[at:]
    return wanted, divided


def _spread(
    groups: Sequence[int], work: Floats, devices: Sequence[int], home: list[int], loads: Floats
) -> None:
    """The longest first, each on the least loaded device of a kind."""
    heap = [(float(loads[d]), d) for d in devices]
    heapq.heapify(heap)
    for j in np.lexsort((np.array(groups), -work)).tolist():
        load, d = heap[0]
        home[groups[j]] = d
        loads[d] = load + float(work[j])
        heapq.heapreplace(heap, (float(loads[d]), d))


def _place_divided(
    found: ClassShares, divided: Sequence[int], home: list[int], loads: Floats
) -> None:
    """The longest first, each where it ends earliest."""
    devices = [d for kind in found.kinds for d in kind]
    kind_of = [k for k, kind in enumerate(found.kinds) for _ in kind]
    least = found.work[found.class_of[list(divided)]].min(axis=1)
    for j in np.lexsort((np.array(divided), -least)).tolist():
        g = divided[j]
        after = loads[devices] + found.work[found.class_of[g]][kind_of]
        best = int(after.argmin())
        home[g], loads[devices[best]] = devices[best], after[best]
