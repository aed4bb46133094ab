"""Measured costs: every kernel, scheduled and compiled for every device, run where it will run.

For each device, the kernels are scheduled for its target; those of one target are compiled
together; a child process pinned to the device's own cores runs each of them on random data. The
time of a kernel is the smallest of its repeats: what else runs on the machine only adds. Each
result is stored at once (`tvm_hetero.cost_models.store`) and never measured again.

What is measured is meant to be what the kernel takes inside a whole network, so that contests are
about that, and so that costs are near it where the network itself cannot be run; where it can,
`tvm_hetero.cost_models.in_network.costs` measures it afterwards. There its inputs
have just been written and its weights were last read one inference ago, with all the others read
since. So before each repeat the weights (`Kernel.constants`) are thrown out of the CPU's caches,
and the other arguments stay where the last repeat left them. Sums over the tasks of a network,
and the network itself, in ms on one Zen 5 core (32 MB of last-level cache):

    network         weights   all warm   weights cold   all cold   whole network
    squeezenet         5 MB       4.1         4.3          5.9          4.2
    inception_v1      28 MB      13.1        13.7         17.8         14.0
    resnet50         102 MB      33.0        35.9         43.3         38.8

A GPU's caches are left alone.

Then the other ways to compute a kernel (`tvm_hetero.cost_models.kernels_alone.candidates`) are
measured in turns
with the rule's (`tvm_hetero.cost_models.kernels_alone.choose_implementation`). A kernel's cost is
that of the fastest one that computes the right thing; which one it is goes with it
(`tvm_hetero.problem.implementation_choice`). A candidate that crashes costs the rule nothing, and
where the rule's own schedule cannot be run, TVM's default loop nest takes its place, however slow.
A kernel for a GPU is used only if it computes what a CPU of this machine does.

A kernel is its scheduled function, compared in full. The same function on another device is
another measurement even where target and CPU are equal, since cores of one CPU may differ: big
and little ones, or one whose sibling is busy.

Devices of other nodes of the platform are measured here, as if this machine were they; for nodes
that are unlike, use a table. A board that is reached by RPC is measured where it is
(`tvm_hetero.cost_models.links.rpc_devices`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvm_hetero.compiler.linking import linker_of
from tvm_hetero.cost_models.in_network.costs import measure_in_place
from tvm_hetero.cost_models.kernels_alone.candidates import Schedule
from tvm_hetero.cost_models.kernels_alone.profile import Profile
from tvm_hetero.cost_models.kernels_alone.profile_run import measure_target
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.kernels_alone.target_jobs import Setup, TargetJobs
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.cost_models.links.rpc_devices import measure_rpc_device
from tvm_hetero.cost_models.protocol import Costs, Progress, require_a_device
from tvm_hetero.cost_models.store import CostStore, KernelKey
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.devices.target import device_target, require_present
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.implementation_choice import Choice
from tvm_hetero.problem.model import Problem

if TYPE_CHECKING:
    from tvm import IRModule


class ProfiledCosts:
    """Costs measured on this machine."""

    def __init__(
        self,
        store: CostStore | None = None,
        effort: SamplingPolicy = SamplingPolicy(),
        schedule: Schedule | None = None,
        in_place: bool = True,
        again: bool = False,
        decided: Mapping[KernelKey, str] | None = None,
    ) -> None:
        """Measure into `store` (by default the user's), scheduling kernels with `schedule`
        (by default `tvm_hetero.kernels.schedule_kernel`).

        With `in_place`, `refine` measures in the whole network, `again` though the store has it;
        `costs` are those of kernels alone. `decided` says which implementation of a kernel (by the
        key of its unscheduled function) won on other cores of the same kind: where that is the
        rule's, no contest is held again.
        """
        self.store = store if store is not None else CostStore()
        self.effort = effort
        self.in_place = in_place
        self.again = again
        self._schedule = schedule
        self.decided = dict(decided or {})
        self._kernels: Sequence[Kernel] = ()
        self._runs_before = 0
        self.profile = Profile()  # of the last `costs`

    @property
    def name(self) -> str:
        """The name by which the registry finds it."""
        return "profiled" if self.in_place else "profiled-alone"

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
            If TVM does not know a device's target, or nothing here links libraries for it.
        ProfileError
            If a device is not here, a board cannot be reached or is lost on the way, a kernel can
            run on no device, or the store is of no use.
        """
        devices = [device for device in platform.devices if device.target is not None]
        for device in devices:
            require_present(platform, device)
        self._runs_before, self.profile, self._kernels = self.runs, Profile(), kernels
        for device in devices:
            if device.rpc is not None:
                linker_of(device_target(device))  # before anything is compiled in vain
                self.profile.call_seconds[device.name] = measure_rpc_device(device, self.store).call
        setup = Setup(self.store, self.effort, self.schedule, self.decided)
        for group in _by_target(devices):
            jobs = TargetJobs(setup, self.profile, kernels, platform, group[0], progress)
            measure_target(jobs, group)
        result = self.profile.costs(kernels, devices)
        require_a_device(result, self.profile.reasons)
        return result

    def with_links(self, platform: Platform) -> Platform:
        """The platform, links between devices of one node measured where it has none."""
        return measure_links(platform)

    def choices(self) -> tuple[Choice, ...]:
        """How each kernel of the last `costs` is computed on each device."""
        return tuple(self.profile.choices.values())

    def winners(self) -> dict[KernelKey, str]:
        """The implementation of each kernel of the last `costs` that won wherever it was measured,
        by the key of its unscheduled function; see `decided`.
        """
        won: dict[str, set[str]] = {}
        for choice in self.choices():
            won.setdefault(choice.kernel, set()).add(choice.implementation)
        alike = {name: min(found) for name, found in won.items() if len(found) == 1}
        known = (kernel for kernel in self._kernels if kernel.name in alike)
        return {kernel_key(kernel.func): alike[kernel.name] for kernel in known}

    def traces(self) -> Mapping[str, Mapping[str, str]]:
        """Of tuned schedules among the choices: kernel -> device -> trace."""
        return self.profile.traces

    def refine(
        self, module: IRModule, problem: Problem, progress: Progress | None = None
    ) -> Problem:
        """A problem with costs as they are in the whole network, where that is asked for
        (`tvm_hetero.cost_models.in_network.costs`).
        """
        if not self.in_place:
            return problem
        found = measure_in_place(module, problem, self.store, progress, again=self.again)
        return found.applied_to(problem)

    @property
    def runs(self) -> int:
        """Measurements that were really made, for those who want to know."""
        return self._runs_before + self.profile.runs

    @property
    def schedule(self) -> Schedule:
        """What schedules a kernel for a target."""
        if self._schedule is None:
            from tvm_hetero.kernels import schedule_kernel

            self._schedule = schedule_kernel
        return self._schedule


def _by_target(devices: Sequence[Device]) -> list[list[Device]]:
    """Devices grouped by equal targets, in their order."""
    groups: dict[str, list[Device]] = {}
    for device in devices:
        groups.setdefault(str(device_target(device)), []).append(device)
    return list(groups.values())
