"""What it costs a device to hold some groups of tasks and not their neighbours.

Of a set S of groups (tasks of one color; mostly one task) a device of kind c is busy at least for

    load(S, c) = sum over g in S of rate(g, c)
               + sum over tensors made outside of S and read inside of   arrive(t, c)
               + sum over tensors made inside of S and read outside of   leave(t, c)

with the least seconds of a hop into and out of such a device (`views.ideals.least_hops`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.ideals import Kind, kinds_of, least_hops
from tvm_hetero.views.instance import Instance


@dataclass(frozen=True)
class CutTensor:
    """A tensor that leads from one group to others.

    Attributes
    ----------
    maker, readers : groups.
    arrive, leave : least seconds on each kind of devices.
    """

    maker: int
    readers: tuple[int, ...]
    arrive: FloatArray
    leave: FloatArray


@dataclass(frozen=True)
class GroupCuts:
    """The figures at the head of this file; `rate` is (groups, kinds), s."""

    kinds: tuple[Kind, ...]
    rate: FloatArray
    tensors: tuple[CutTensor, ...]


def group_cuts(instance: Instance) -> GroupCuts:
    """The groups of an instance and the tensors between them."""
    arrive, leave = least_hops(instance)
    kinds = kinds_of(instance, arrive, leave)
    first = [kind.devices[0] for kind in kinds]
    table, of = rates(instance)[:, first], instance.group_of
    rate = np.array([table[list(group)].sum(axis=0) for group in instance.groups])
    joined: dict[tuple[int, tuple[int, ...]], tuple[FloatArray, FloatArray]] = {}
    for t, flow in enumerate(instance.tensors):
        maker = of[flow.maker]
        readers = tuple(sorted({of[w] for w in flow.readers} - {maker}))
        if readers:
            into, out = joined.get((maker, readers), (0.0, 0.0))
            joined[maker, readers] = (into + arrive[t, first], out + leave[t, first])
    tensors = (CutTensor(*ends, *costs) for ends, costs in joined.items())
    return GroupCuts(kinds, rate, tuple(tensors))
