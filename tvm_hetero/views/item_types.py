"""What patterns are made of: kinds of items, types of devices, a flow, and the least copies.

See `tvm_hetero.bounds.throughput.patterns` for what they are for, and the notation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import link_codes

_ROUNDING = 1 - 1e-12


@dataclass(frozen=True)
class PatternInstance:
    """Kinds of items and types of devices.

    Attributes
    ----------
    counts : items of each kind; weights : bytes of one.
    costs : [type][kind] seconds of one item (for latency times the flow through it); inf if not.
    devices : how many of each type; memory : bytes, inf without limit; dense : most in one node.
    alone : whether devices of the type have no copy engine.
    """

    counts: tuple[int, ...]
    weights: tuple[int, ...]
    costs: tuple[tuple[float, ...], ...]
    devices: tuple[int, ...]
    memory: tuple[float, ...]
    dense: tuple[int, ...]
    alone: tuple[bool, ...]


def unit_flow(instance: Instance) -> list[float]:
    """A unit flow through the tasks, along the paths of most time at the least costs.

    Where several ways take equally long, it divides equally: parallel branches share it.
    """
    least = [min(instance.seconds[v][d] for d in instance.devices[v]) for v in range(len(instance))]
    after: list[list[int]] = [[] for _ in least]
    rest = list(least)
    ahead = [0.0] * len(least)
    for v in reversed(instance.order):
        readers = {w for t in instance.outputs[v] for w in instance.tensors[t].readers}
        after[v] = sorted(readers)
        ahead[v] = max((rest[w] for w in after[v]), default=0.0)
        rest[v] = least[v] + ahead[v]
    sources = [v for v in instance.order if not instance.inputs[v]]
    flow = [0.0] * len(least)

    def send(amount: float, targets: Sequence[int], most: float) -> None:
        longest = [w for w in targets if rest[w] >= most * (1 - 1e-9)]
        for w in longest:
            flow[w] += amount / len(longest)

    send(1.0, sources, max(rest[v] for v in sources))
    for v in instance.order:
        if flow[v] > 0 and after[v]:
            send(flow[v], after[v], ahead[v])
    # Sums of shares may exceed what flowed in by rounding.
    return [min(1.0, share) * _ROUNDING if share < 1 - 1e-9 else 1.0 for share in flow]


def pattern_instance_of(instance: Instance, flow: Sequence[float]) -> PatternInstance:
    """Count items and devices."""
    types = _types(instance)
    kinds: dict[tuple[int, tuple[float, ...]], int] = {}
    steady = instance.problem.objective.kind == "throughput"
    for group in instance.groups:
        weight = sum(instance.weights[v] for v in group)
        if steady:
            weight += sum(instance.unread[v] for v in group)
            weight += sum(instance.tensors[t].nbytes for v in group for t in instance.outputs[v])
        allowed = set(instance.devices[group[0]])
        row = tuple(
            math.fsum(flow[v] * instance.seconds[v][like[0]] for v in group)
            if like[0] in allowed
            else math.inf
            for like in types
        )
        kinds[weight, row] = kinds.get((weight, row), 0) + 1
    keys = sorted(kinds)
    devices = instance.problem.platform.devices
    limits = [instance.capacity[like[0]] for like in types]
    return PatternInstance(
        counts=tuple(kinds[key] for key in keys),
        weights=tuple(weight for weight, _ in keys),
        costs=tuple(tuple(row[t] for _, row in keys) for t in range(len(types))),
        devices=tuple(len(like) for like in types),
        memory=tuple(math.inf if limit is None else float(limit) for limit in limits),
        dense=tuple(_densest([devices[d].node for d in like]) for like in types),
        alone=tuple(not devices[like[0]].overlap for like in types),
    )


def _types(instance: Instance) -> list[list[int]]:
    """Devices of equal costs, memory and copy engine; those that run nothing are left out."""
    seen: dict[object, list[int]] = {}
    devices = instance.problem.platform.devices
    for d in range(len(devices)):
        column = tuple(row[d] for row in instance.seconds)
        if any(s < math.inf for s in column):
            seen.setdefault((column, devices[d].memory, devices[d].overlap), []).append(d)
    return list(seen.values())


def _densest(nodes: Sequence[str]) -> int:
    return max(nodes.count(node) for node in sorted(set(nodes)))


def least_copies(instance: Instance, nbytes: int) -> tuple[float, float]:
    """The least time of `nbytes` between two devices, and between two of different nodes, s."""
    platform = instance.problem.platform
    codes = link_codes(platform)
    number = {name: i for i, name in enumerate(dict.fromkeys(d.node for d in platform.devices))}
    node = np.array([number[d.node] for d in platform.devices])
    other = node[:, None] != node[None, :]
    seconds = {}
    for code in np.unique(codes[codes >= 0]).tolist():
        j, k = (int(x[0]) for x in np.nonzero(codes == code))
        link = platform.link(platform.names[j], platform.names[k])
        assert link is not None, "a code stands for links"
        seconds[code] = link.seconds(nbytes)
    if not seconds:
        return 0.0, 0.0
    between = [s for code, s in seconds.items() if (codes == code)[other].any()]
    # A way to another node has some hop between nodes; any way at all has some hop.
    least = min(seconds.values())
    return least, min(between, default=least)
