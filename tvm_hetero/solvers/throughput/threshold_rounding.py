"""Throughput by rounding shares with one threshold for all groups: few tensors are cut.

Where copies block devices, the program of `bounds.throughput.share_program` gives each group g a
share Y(g, c) of each device c, nearly equal for groups that pass tensors on. With the devices in
some order and one threshold a in (0, 1)

    g runs on the first c with  Y(g, 1) + ... + Y(g, c) > a

so groups of equal shares stay together. For a drawn at random every group is on c with chance
Y(g, c), and a tensor is cut with a chance that is at most the difference of the shares on two
devices, twice that on more: the rounding of G. Calinescu, H. Karloff and Y. Rabani for multiway
cuts (J. Computer and System Sciences 60, 2000, doi:10.1006/jcss.1999.1687). The loads hold in the
mean only; annealing mends them. Of some orders and thresholds the best plan is taken.

On layered graphs of thousands of tasks and three serial devices the plan is far better than greedy
balancing, and still above what annealing makes of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from tvm_hetero.bounds.throughput.share_program import BatchShares
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.array_types import BoolArray
from tvm_hetero.views.instance import Instance

_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Kinds up to which all orders are tried; of more only rotations.
_MOST_KINDS = 3


def share_cut(instance: Instance, found: BatchShares) -> list[int] | None:
    """The best placement of the thresholds that is valid; None where there is none.

    Only where every kind is a single device: shares of a kind do not say which of its devices.
    """
    if not len(found.shares) or any(len(kind.devices) > 1 for kind in found.kinds):
        return None
    best, least = None, math.inf
    for order in _orders(len(found.kinds)):
        reached = np.cumsum(found.shares[:, order], axis=1)
        for threshold in _THRESHOLDS:
            plan = _cut(instance, found, order, reached > threshold)
            value = exact_value(instance, plan)
            if value < least:
                best, least = plan, value
    return best


def _orders(count: int) -> Iterable[list[int]]:
    """Orders of the kinds; none that is the reverse of another, which cuts the same at 1 - a."""
    if count > _MOST_KINDS:
        return [[(i + k) % count for i in range(count)] for k in range(count)]
    return [list(p) for p in itertools.permutations(range(count)) if p[0] <= p[-1]]


def _cut(
    instance: Instance, found: BatchShares, order: Sequence[int], beyond: BoolArray
) -> list[int]:
    """Every group on the first kind of the order that is `beyond` the threshold, if it may be."""
    likely = found.shares.argmax(axis=1)
    placement = [0] * len(instance)
    for g, group in enumerate(instance.groups):
        # Rounding may leave a sum of shares below the threshold, or a share where none can be.
        kind = order[int(beyond[g].argmax())] if beyond[g].any() else int(likely[g])
        device = found.kinds[kind].devices[0]
        if device not in instance.devices[group[0]]:
            device = instance.devices[group[0]][0]
        for v in group:
            placement[v] = device
    return placement
