"""Tidying a placement for throughput: groups join their neighbours where nothing gets slower.

Copies that are in no one's way cost no load, so a search leaves them lying about. Once it is over,
every group in turn goes to the device of something that it reads or that reads it, if that
saves copied bytes, fits and raises no load above the largest.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.solvers.timing.device_loads import Loads
from tvm_hetero.views.instance import Instance

# Parts above which it takes too long.
_MOST_PARTS = 20_000


def join_neighbours(instance: Instance, plan: list[int]) -> list[int]:
    """The placement with fewer copied bytes at no larger value: groups join their neighbours."""
    if len(instance) > _MOST_PARTS:
        return plan
    loads = Loads(instance)
    for group in instance.groups:
        loads.move(group, plan[group[0]])
    top = loads.profile()[0]
    for group in instance.groups:
        home = loads.home[group[0]]
        near = _neighbours(instance, loads, group)
        for device in sorted(near - {home}):
            before = _copied(loads, group)
            loads.move(group, device)
            fits = loads.profile()[0] <= top and not loads.overflow() and loads.reachable(group)
            if fits and _copied(loads, group) < before:
                home = device
            else:
                loads.move(group, home)
    return loads.placement()


def _neighbours(instance: Instance, loads: Loads, group: Sequence[int]) -> set[int]:
    """Devices of what a group reads from and of its readers, of those that can run it."""
    near = {loads.home[instance.tensors[t].maker] for v in group for t in instance.inputs[v]}
    readers = (w for v in group for t in instance.outputs[v] for w in instance.tensors[t].readers)
    near |= {loads.home[w] for w in readers}
    return set(instance.devices[group[0]]).intersection(near)


def _copied(loads: Loads, group: Sequence[int]) -> int:
    """Bytes that the tensors at a group move, over all hops."""
    instance = loads.instance
    touched = {t for v in group for t in (*instance.inputs[v], *instance.outputs[v])}
    return sum(instance.tensors[t].nbytes * len(loads.hops_of(t)) for t in touched)
