"""Teams: devices that are sets of cores, and which of them exclude each other in time.

A device occupies its `cores` on its node. Two devices of one node with a core in common never
compute at once (rule 2 of docs/formats.md). What that asks of solvers is less than all cores:

    clique     the devices on one core, where there are at least two. Of cores with equal devices
               one is enough, and a core whose devices are all on another one asks nothing new;
               what is left are the maximal cliques                          -> `list_cliques`

With ``shared_cores: true`` nothing is excluded, and there are no cliques.

Teams of a node compute in one memory, the node's. Its limit is said with each of them, and holds
for what lies there for all of them together, each tensor and the weights of each task once (rule
6)                                                                          -> `shared_memories`

Frequency levels of one device (`platform.frequency_levels`) see its memory, whatever it is: they
are no teams, unless they share a core with something that is no level of the same device.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import HOST_KINDS, Device
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import format_bytes

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


def disjoint_families(
    devices: Sequence[Device], cliques: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    """Sets of devices that can all compute at once, one for each width of teams, wide ones first.

    Each has the teams of that width, then what is narrower and then what is wider, as far as it
    shares no core with those before; devices that share none are in all of them.
    """
    rivals: dict[int, set[int]] = {d: set() for d in range(len(devices))}
    for clique in cliques:
        for d in clique:
            rivals[d].update(clique)
    width = [len(device.cores) for device in devices]
    found: dict[tuple[int, ...], None] = {}
    for asked in sorted({width[d] for d, row in rivals.items() if row} or {0}, reverse=True):
        family: set[int] = set()
        for d in sorted(rivals, key=lambda d: (width[d] > asked, -width[d], d)):
            if family.isdisjoint(rivals[d]):
                family.add(d)
        found[tuple(sorted(family))] = None
    return tuple(found)


def shared_memories(
    devices: Sequence[Device], cliques: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    """The teams of each node that see one memory with a limit, rising; the first names it.

    Memory belongs to the node. What has a memory of its own is in none, but with the other
    frequency levels of the same device: a GPU, a private device, and a device that shares no core
    with anything but its levels.
    """
    rivals: dict[int, set[str | None]] = {}
    for clique in cliques:
        for d in clique:
            others = {devices[e].level_of for e in clique if e != d}
            rivals.setdefault(d, set()).update(others)
    nodes: dict[tuple[str, str | None], list[int]] = {}
    for d, beside in sorted(rivals.items()):
        device = devices[d]
        team = device.level_of is None or beside != {device.level_of}
        if team and device.kind in (*HOST_KINDS, "unknown") and not device.private:
            nodes.setdefault((device.node, None), []).append(d)
        elif device.level_of is not None:
            nodes.setdefault((device.node, device.level_of), []).append(d)
    return tuple(
        tuple(row) for row in nodes.values() if any(devices[d].memory is not None for d in row)
    )


def check_team_memory(devices: Sequence[Device], memories: Sequence[Sequence[int]]) -> None:
    """Refuse limits that differ between teams of one memory.

    Raises
    ------
    PlatformError
        Naming two such devices.
    """
    for first, *others in memories:
        one = devices[first]
        for two in (devices[d] for d in others):
            if two.memory != one.memory:
                raise PlatformError(
                    f"device {quote(one.name)} has {_limit(one)} and {quote(two.name)} "
                    f"{_limit(two)}, and both are teams of cores of node {quote(one.node)}, which "
                    "see one memory; give all teams of a node the node's 'memory', or none of them"
                )


def _limit(device: Device) -> str:
    return "no 'memory'" if device.memory is None else f"'memory' {format_bytes(device.memory)}"
