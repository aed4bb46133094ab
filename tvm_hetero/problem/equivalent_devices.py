"""Devices that are alike cost the same: measured times of one do for the others.

Two cores of one kind take the same for a task, but no two measurements do. A solver that minimises
over measured times lives off what they differ by: it gives each task to the core that happened to
be quicker, and predicts what never comes true. So devices that are alike get one cost for a task,
the mean over them.

Devices are alike where they are in one node, compile for equal targets, have equally many cores,
and where the same tasks take about as long on both, all together: within `NEAR`, be it alone or
loaded. That last condition is what tells P from E cores, which may well share a target. It is asked
of the whole network, where noise averages out, and never of one task, where it is what is to be
removed.

A task that is computed in different ways on two devices costs what it does on each.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.documents import canonical_json

# task -> device -> s
Seconds = dict[str, dict[str, float]]
# Totals of a network on equal cores differ by less from one measurement to the next, and those of
# unlike ones by more.
NEAR = 0.03


def equal_devices(platform: Platform, seconds: Seconds) -> list[tuple[str, ...]]:
    """Groups of two devices or more that are alike, by what tasks were measured to take."""
    own: dict[str, dict[str, float]] = {}
    for task, row in seconds.items():
        for name, value in row.items():
            own.setdefault(name, {})[task] = value
    totals = _totals(seconds)
    kinds: dict[str, list[str]] = {}
    for device in platform.devices:
        if device.name in own and not device.private:
            kind = canonical_json([*_kind(device), sorted(own[device.name])])
            kinds.setdefault(kind, []).append(device.name)
    groups = [group for names in kinds.values() for group in _near(names, totals)]
    return [group for group in groups if len(group) > 1]


def equivalence_classes(problem: Problem) -> list[tuple[str, ...]]:
    """Groups of two devices or more that are alike by a problem's costs."""
    seconds = {
        task: {name: cost.seconds(1) for name, cost in row.items()}
        for task, row in problem.costs.items()
    }
    return equal_devices(problem.platform, seconds)


def average_groups(
    seconds: Seconds,
    groups: Sequence[Sequence[str]],
    costs: Mapping[str, Mapping[str, Cost]],
) -> Seconds:
    """The same times, but one for each group (see above); `costs` say how tasks are computed."""
    totals = _totals(seconds)
    result = {task: dict(row) for task, row in seconds.items()}
    for group in groups:
        here = [device for device in group if device in totals]
        if not here:
            continue
        undisturbed = _near(here, totals)[0]
        for task, row in result.items():
            ways: dict[str, list[str]] = {}
            for device in here:
                if device in row:
                    ways.setdefault(costs[task][device].implementation, []).append(device)
            for devices in ways.values():
                of = [name for name in devices if name in undisturbed] or devices
                row |= dict.fromkeys(devices, statistics.fmean(row[name] for name in of))
    return result


def _totals(seconds: Seconds) -> dict[str, float]:
    """What all tasks take on each device."""
    own: dict[str, list[float]] = {}
    for row in seconds.values():
        for name, value in row.items():
            own.setdefault(name, []).append(value)
    return {name: math.fsum(values) for name, values in own.items()}


def _kind(device: Device) -> list[object]:
    """All that a platform file says of where a device's kernels run."""
    target = None if device.target is None else dict(device.target)
    return [device.node, target, len(device.cores or ())]


def _near(names: Sequence[str], totals: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Devices of one kind, parted where totals are not near the smallest of their group."""
    groups: list[list[str]] = []
    for name in sorted(names, key=lambda each: totals[each]):
        if groups and totals[name] <= totals[groups[-1][0]] * (1 + NEAR):
            groups[-1].append(name)
        else:
            groups.append([name])
    return [tuple(group) for group in groups]
