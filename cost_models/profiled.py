"""Measured costs: every kernel, scheduled and compiled for every device, run where it will run.

For each device, the kernels are scheduled for its target; those of one target are compiled
together; a child process pinned to the device's own cores runs each of them on random data. The
time of a kernel is the smallest of its repeats: what else runs on the machine only adds. Each
result is stored at once (`tvm_hetero.cost_models.store`) and never measured again.

What is measured is meant to be what the kernel takes inside a whole network. There its inputs
have just been written and its weights were last read one inference ago, with all the others read
since. So before each repeat the weights (`Kernel.constants`) are thrown out of the CPU's caches,
and the other arguments stay where the last repeat left them. Sums over the tasks of a network,
and the network itself, in ms on one Zen 5 core (32 MB of last-level cache):

    network         weights   all warm   weights cold   all cold   whole network
    squeezenet         5 MB       4.1         4.3          5.9          4.2
    inception_v1      28 MB      13.1        13.7         17.8         14.0
    resnet50         102 MB      33.0        35.9         43.3         38.8

A GPU's caches are left alone.

A kernel is its scheduled function, compared in full. The same function on another device is
another measurement even where target and CPU are equal, since cores of one CPU may differ: big
and little ones, or one whose sibling is busy.

Devices of other nodes of the platform are measured here, as if this machine were they; for nodes
that are unlike, use a table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.cost_models.bench import Bench, NotMeasured
from tvm_hetero.cost_models.compile_kernels import Compiled, compile_kernels
from tvm_hetero.cost_models.effort import Effort
from tvm_hetero.cost_models.identity import kernel_key, place_of
from tvm_hetero.cost_models.protocol import (
    Costs,
    Kernel,
    Progress,
    left_out,
    require_a_device,
)
from tvm_hetero.cost_models.store import CostStore, KernelKey, Place
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost
from tvm_hetero.targets import device_target, require_present

if TYPE_CHECKING:
    from tvm.target import Target
    from tvm.tirx import PrimFunc

Schedule = Callable[["PrimFunc", "Target"], "PrimFunc"]


@dataclass(frozen=True)
class _Job:
    """One kernel to be measured on one device, for all `names` that are this very kernel."""

    func: PrimFunc
    key: KernelKey
    cold: tuple[int, ...]
    names: tuple[str, ...]


class ProfiledCosts:
    """Costs measured on this machine."""

    name = "profiled"

    def __init__(
        self,
        store: CostStore | None = None,
        effort: Effort = Effort(),
        schedule: Schedule | None = None,
    ) -> None:
        """Measure into `store` (by default the user's), scheduling kernels with `schedule`
        (by default `tvm_hetero.kernels.schedule_kernel`).
        """
        self.store = store if store is not None else CostStore()
        self.effort = effort
        self._schedule = schedule
        self.runs = 0  # measurements that were really made, for those who want to know

    def costs(
        self,
        kernels: Sequence[Kernel],
        platform: Platform,
        progress: Progress | None = None,
    ) -> Costs:
        """Costs of every kernel on every device that has a target.

        A kernel that cannot be built, crashes, hangs or gives a time that is none is left out of
        the device's costs with a `ProfileWarning`. An interruption keeps what was measured.

        Raises
        ------
        PlatformError
            If TVM does not know a device's target.
        ProfileError
            If a device is not here, a kernel can run on no device, or the store is of no use.
        """
        devices = [device for device in platform.devices if device.target is not None]
        for device in devices:
            require_present(platform, device)
        seconds: dict[tuple[str, str], float] = {}
        reasons: dict[str, str] = {}
        for group in _by_target(devices):
            run = _TargetRun(self, kernels, platform, group, progress, seconds, reasons)
            run.measure()
        result: Costs = {
            kernel.name: {
                device.name: Cost(((1, seconds[kernel.name, device.name]),))
                for device in devices
                if (kernel.name, device.name) in seconds
            }
            for kernel in kernels
        }
        require_a_device(result, reasons)
        return result

    def scheduled(self, kernel: Kernel, target: Target) -> PrimFunc:
        """The kernel as it is compiled for `target`."""
        if self._schedule is None:
            from tvm_hetero.kernels import schedule_kernel

            self._schedule = schedule_kernel
        return self._schedule(kernel.func, target)


class _TargetRun:
    """The measurements for all devices of one target. Fills `seconds` and `reasons`."""

    def __init__(
        self,
        model: ProfiledCosts,
        kernels: Sequence[Kernel],
        platform: Platform,
        devices: Sequence[Device],
        progress: Progress | None,
        seconds: dict[tuple[str, str], float],
        reasons: dict[str, str],
    ) -> None:
        self.model = model
        self.platform = platform
        self.devices = devices
        self.progress = progress
        self.seconds = seconds
        self.reasons = reasons
        self.target = device_target(devices[0])
        self.jobs = self._jobs(kernels)

    def measure(self) -> None:
        """Find what is known, compile the rest in one build, run it device by device."""
        missing = {device.name: self._missing(device) for device in self.devices}
        wanted = {job.key: job for jobs in missing.values() for job in jobs}
        if not wanted:
            return
        self._tell(f"compile for {self._target_name()}", 0, len(wanted))
        with tempfile.TemporaryDirectory(prefix="tvm-hetero-") as folder:
            funcs = {key: job.func for key, job in wanted.items()}
            compiled = compile_kernels(funcs, self.target, Path(folder))
            self._tell(f"compile for {self._target_name()}", len(wanted), len(wanted))
            for device in self.devices:
                self._measure_on(device, missing[device.name], compiled)

    def _jobs(self, kernels: Sequence[Kernel]) -> list[_Job]:
        """Schedule every kernel; kernels that turn out equal are one job."""
        jobs: dict[KernelKey, _Job] = {}
        for done, kernel in enumerate(kernels, start=1):
            func = self.model.scheduled(kernel, self.target)
            key = kernel_key(func, kernel.constants)
            known = jobs.get(key)
            names = (*known.names, kernel.name) if known else (kernel.name,)
            jobs[key] = _Job(func, key, kernel.constants, names)
            self._tell(f"schedule for {self._target_name()}", done, len(kernels))
        return list(jobs.values())

    def _missing(self, device: Device) -> list[_Job]:
        """The jobs that the store does not know for `device`; the others are done hereby."""
        place = place_of(self.platform, device)
        missing = []
        for job in self.jobs:
            known = self.model.store.find(job.key, place)
            if known is None:
                missing.append(job)
            else:
                self._done(job, device, known)
        return missing

    def _measure_on(self, device: Device, jobs: Sequence[_Job], compiled: Compiled) -> None:
        """Measure `jobs` in rounds; what a round finds is stored at once."""
        place = place_of(self.platform, device)
        rounds = self.model.effort.rounds
        given_up: set[KernelKey] = set()
        with Bench(self.platform, device, compiled, self.model.effort) as bench:
            for i, job in enumerate([*jobs] * rounds):
                if job.key not in given_up:
                    try:
                        self._measure(job, device, place, bench)
                    except NotMeasured as reason:
                        given_up.add(job.key)
                        if i < len(jobs):  # else an earlier round has its time
                            self._give_up(job, device, str(reason))
                self._tell(f"measure on {device.name}", i + 1, len(jobs) * rounds)

    def _measure(self, job: _Job, device: Device, place: Place, bench: Bench) -> None:
        seconds = bench.seconds(job.key, job.func, job.cold)
        self.model.store.add(job.key, place, seconds)
        self.model.runs += 1
        self._done(job, device, seconds)

    def _done(self, job: _Job, device: Device, seconds: float) -> None:
        for name in job.names:
            place = (name, device.name)
            self.seconds[place] = min(seconds, self.seconds.get(place, seconds))

    def _give_up(self, job: _Job, device: Device, reason: str) -> None:
        for name in job.names:
            self.reasons[name] = f"on {device.name!r}, {reason}"
            left_out(name, device.name, reason)

    def _target_name(self) -> str:
        return str(self.target.attrs.get("mcpu", self.target.kind.name))

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)


def _by_target(devices: Sequence[Device]) -> list[list[Device]]:
    """Devices grouped by equal targets, in their order."""
    groups: dict[str, list[Device]] = {}
    for device in devices:
        groups.setdefault(str(device_target(device)), []).append(device)
    return list(groups.values())
