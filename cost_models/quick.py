"""Costs in seconds instead of minutes: a few kernels are measured, the others estimated from them.

For each target the kernels are scheduled, which says by which rule each is computed and on what it
runs well or not. Of every rule `ANCHORS` are measured as `ProfiledCosts` measures them: those for
which the roofline (`tvm_hetero.platform.roofline`) has the least, the median and the largest time.
With x the roofline's time of a kernel and (x_i, t_i) those of the anchors of its rule,

    t = x r(x),   r(x_i) = t_i / x_i,   r linear in log x between anchors, constant beyond them

so the roofline says how kernels of a rule compare, and measurements what the rule reaches of it, in
small kernels and in large ones. Only the ratio of the two figures of a device matters then, and a
device that has none gets `NOMINAL`'s. Devices of equal targets and figures, with as many cores of
the same kinds, share what is measured on the first of them. A rule of which no anchor could be
measured is measured kernel by kernel; a kernel that is estimated is taken to run where its rule's
anchors do.

Links that are neither in the platform nor known from an earlier measurement are taken to be
`ASSUMED`, as long as both ends are cores of this machine; measuring them takes longer than all else
here.

What it is worth: the plan is made from estimates (an artifact says so), and ``tvm-hetero refine``
replaces them by what the network's own runs take.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import Costs, Progress, require_a_device
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import ProfileError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.host import read_core_kind
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.roofline import roofline
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.implementation_choice import Choice
from tvm_hetero.problem.model import Problem

if TYPE_CHECKING:
    from tvm import IRModule

# Kernels of a rule that are measured.
ANCHORS = 3
# Of a device without figures: operations and bytes a second.
NOMINAL = 1e11, 2e10
# Of a link between cores: latency (s) and bytes a second, of the order that `measure_links` finds.
ASSUMED = 1e-6, 1e10
# No kernel does less than nothing.
_LEAST = 1e-12


@dataclass(frozen=True)
class RuleScale:
    """What one rule's kernels take beside the roofline: anchors (x, t / x), by rising x."""

    anchors: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, times: Mapping[float, float]) -> RuleScale:
        """From measured seconds by the roofline's; at least one."""
        return cls(tuple((x, times[x] / x) for x in sorted(times)))

    def seconds(self, x: float) -> float:
        """The estimate for a kernel for which the roofline has `x` seconds."""
        place = bisect_left(self.anchors, x, key=lambda anchor: anchor[0])
        if place == 0:
            return x * self.anchors[0][1]
        if place == len(self.anchors):
            return x * self.anchors[-1][1]
        (x0, r0), (x1, r1) = self.anchors[place - 1 : place + 1]
        share = math.log(x / x0) / math.log(x1 / x0)
        return x * (r0 + share * (r1 - r0))


@dataclass
class QuickCosts:
    """Measured costs of a few kernels, and estimates from them for the others.

    `anchors` is how many kernels of each rule are measured.
    """

    store: CostStore = field(default_factory=CostStore)
    anchors: int = ANCHORS
    name: str = field(default="quick", init=False)
    in_place: bool = field(default=False, init=False)
    _choices: list[Choice] = field(default_factory=list, init=False)
    _traces: dict[str, dict[str, str]] = field(default_factory=dict, init=False)
    _reasons: dict[str, str] = field(default_factory=dict, init=False)

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        """Costs of every kernel on every device that has a target; see the file's text.

        Raises
        ------
        PlatformError, ProfileError
            As `ProfiledCosts.costs` of the kernels that are measured.
        """
        self._choices, self._traces, self._reasons = [], {}, {}
        result: Costs = {kernel.name: {} for kernel in kernels}
        for devices in _alike(platform):
            for kernel, seconds in self._on(devices, kernels, platform, progress).items():
                for device in devices:
                    result[kernel][device.name] = seconds
        require_a_device(result, self._reasons)
        return result

    def _on(
        self,
        devices: Sequence[Device],
        kernels: Sequence[Kernel],
        platform: Platform,
        progress: Progress | None,
    ) -> dict[str, Cost]:
        """What kernels take on devices that are alike; those that run there."""
        figures = with_figures(devices[0])
        roofs = {k.name: max(roofline(k.flops, k.bytes, figures), _LEAST) for k in kernels}
        rules = _by_rule(kernels, devices[0])
        chosen = [spread_over(own, roofs, self.anchors) for own in rules]
        # All in one go: whatever is measured, a process has to load TVM for it.
        found = self._measure(list(chain(*chosen)), devices, platform, progress)
        lost = [own for own, few in zip(rules, chosen, strict=True) if not _any_in(few, found)]
        if lost and found:
            found |= self._measure(list(chain(*lost)), devices, platform, progress)
        for own, few in zip(rules, chosen, strict=True):
            times = {roofs[k.name]: found[k.name].seconds(1) for k in few if k.name in found}
            if times:
                scale = RuleScale.of(times)
                left = [kernel.name for kernel in own if kernel not in few]
                found |= {name: Cost(((1, scale.seconds(roofs[name])),)) for name in left}
        return found

    def _measure(
        self,
        kernels: Sequence[Kernel],
        devices: Sequence[Device],
        platform: Platform,
        progress: Progress | None,
    ) -> dict[str, Cost]:
        """What was measured of these kernels on the first of the devices; it stands for all."""
        alone = ProfiledCosts(self.store, in_place=False)
        first = devices[0]
        try:
            alone.costs(kernels, replace(platform, devices=(first,), links=()), progress)
        except ProfileError:
            if not alone.profile.choices:
                raise  # not one of them: the device is at fault
        self._reasons |= alone.profile.reasons
        for choice in alone.choices():
            self._choices += [replace(choice, device=device.name) for device in devices]
        for kernel, row in alone.traces().items():
            own = self._traces.setdefault(kernel, {})
            own.update({device.name: trace for trace in row.values() for device in devices})
        costs = alone.profile.costs(kernels, [first])
        return {name: row[first.name] for name, row in costs.items() if row}

    def with_links(self, platform: Platform) -> Platform:
        """The platform with links between its devices: known ones, or `ASSUMED`."""
        return measure_links(platform, self.store, assumed=ASSUMED)

    def choices(self) -> tuple[Choice, ...]:
        """How the kernels that were measured are computed on each device."""
        return tuple(self._choices)

    def traces(self) -> Mapping[str, Mapping[str, str]]:
        """Of tuned schedules among the choices: kernel -> device -> trace."""
        return self._traces

    def refine(
        self, module: IRModule, problem: Problem, progress: Progress | None = None
    ) -> Problem:
        """The problem as it is: nothing is measured in the network."""
        return problem


def without_assumed(platform: Platform) -> Platform:
    """The platform without the links that `QuickCosts.with_links` has assumed."""
    kept = tuple(each for each in platform.links if (each.latency, each.bandwidth) != ASSUMED)
    return replace(platform, links=kept)


def spread_over(kernels: Sequence[Kernel], roofs: Mapping[str, float], count: int) -> list[Kernel]:
    """Of some kernels `count`, from the least of the roofline's times to the largest."""
    ordered = sorted(kernels, key=lambda kernel: (roofs[kernel.name], kernel.name))
    if len(ordered) <= count:
        return ordered
    if count == 1:
        return [ordered[-1]]
    places = [round(i * (len(ordered) - 1) / (count - 1)) for i in range(count)]
    return [ordered[place] for place in places]


def _any_in(kernels: Sequence[Kernel], found: Mapping[str, Cost]) -> bool:
    return any(kernel.name in found for kernel in kernels)


def _by_rule(kernels: Sequence[Kernel], device: Device) -> list[list[Kernel]]:
    from tvm_hetero.kernels import schedule_kernel
    from tvm_hetero.kernels.select import rule_of

    target = device_target(device)
    groups: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(rule_of(schedule_kernel(kernel.func, target)), []).append(kernel)
    return list(groups.values())


def with_figures(device: Device) -> Device:
    """The device with figures for the roofline: its own, if it has both."""
    if device.peak_flops and device.bandwidth:
        return device
    peak, bandwidth = NOMINAL
    return replace(device, peak_flops=peak, bandwidth=bandwidth)


def _alike(platform: Platform) -> list[list[Device]]:
    """Devices that have a target, in groups of which one speaks for all."""
    groups: dict[tuple[object, ...], list[Device]] = {}
    for device in platform.devices:
        if device.target is None:
            continue
        alone = device.name if device.rpc is not None else ""
        figures = device.peak_flops, device.bandwidth
        cores = tuple(sorted(read_core_kind(core) for core in device.cores))
        key = str(device_target(device)), cores, figures, alone
        groups.setdefault(key, []).append(device)
    return list(groups.values())
