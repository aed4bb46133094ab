"""Teams: devices that are sets of cores, and which of them exclude each other in time.

A device occupies its `cores` on its node. Two devices of one node with a core in common never
compute at once (rule 2 of docs/formats.md). What that asks of solvers is less than all cores:

    clique     the devices on one core, where there are at least two. Of cores with equal devices
               one is enough, and a core whose devices are all on another one asks nothing new;
               what is left are the maximal cliques                          -> `list_cliques`

With ``shared_cores: true`` nothing is excluded, and there are no cliques.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import Device
from tvm_hetero.util.quote import quote

# A core: its node and its number there.
NodeCore = tuple[str, int]


def devices_on_cores(devices: Sequence[Device]) -> dict[NodeCore, tuple[int, ...]]:
    """For every core that some device names, the positions of the devices on it, rising."""
    found: dict[NodeCore, list[int]] = {}
    for d, device in enumerate(devices):
        for core in device.cores:
            found.setdefault((device.node, core), []).append(d)
    return {core: tuple(row) for core, row in sorted(found.items())}


def list_cliques(devices: Sequence[Device]) -> tuple[tuple[int, ...], ...]:
    """The maximal sets of at least two devices that have a core in common, sorted."""
    rows = {row for row in devices_on_cores(devices).values() if len(row) > 1}
    sets = [(row, frozenset(row)) for row in sorted(rows)]
    return tuple(row for row, own in sets if not any(own < other for _, other in sets))


def nested(devices: Sequence[Device], cliques: Sequence[Sequence[int]]) -> bool:
    """Whether of any two devices that share a core one holds all cores of the other.

    Only then a period of the steady state can always be as short as the busiest core is busy:
    three teams of two of three cores each take three turns, though every core is in two of them.
    """
    return all(
        small <= large
        for clique in cliques
        for small, large in pairwise(sorted((set(devices[d].cores) for d in clique), key=len))
    )


def check_team_memory(devices: Sequence[Device], cliques: Sequence[Sequence[int]]) -> None:
    """Refuse memory limits of devices that share cores: memory belongs to the node.

    Raises
    ------
    PlatformError
        Naming the first such device.
    """
    for clique in cliques:
        for d in clique:
            if devices[d].memory is not None:
                other = devices[clique[0] if clique[0] != d else clique[1]]
                raise PlatformError(
                    f"device {quote(devices[d].name)} shares a core with {quote(other.name)} and "
                    "has a memory of its own; teams of a node see one memory, whose limit is not "
                    "supported yet: leave 'memory' out of devices that share cores"
                )
