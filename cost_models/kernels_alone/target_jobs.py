"""The kernels of one target: their candidates, and libraries of what is to be measured."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.compiler.linking import linker_of
from tvm_hetero.cost_models.kernels_alone.candidates import Schedule, make_jobs, target_name
from tvm_hetero.cost_models.kernels_alone.compile_kernels import Compiled, compile_kernels
from tvm_hetero.cost_models.kernels_alone.profile import Profile
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.cost_models.store import CostStore, KernelKey
from tvm_hetero.devices.target import device_target
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import HOST_KINDS, Device
from tvm_hetero.platform.host import available_cores
from tvm_hetero.platform.model import Platform
from tvm_hetero.processes.child_process import Worker

if TYPE_CHECKING:
    from tvm.target import Target
    from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class Setup:
    """How kernels are scheduled and measured, and where times are kept.

    `decided` is that of `candidates.make_jobs`.
    """

    store: CostStore
    effort: SamplingPolicy
    schedule: Schedule
    decided: Mapping[KernelKey, str] = field(default_factory=dict)


class TargetJobs:
    """What there is to be measured for one target, on any of its devices.

    `host` is a target of this machine's CPU where `target` is none: what it computes is right.
    """

    def __init__(
        self,
        setup: Setup,
        profile: Profile,
        kernels: Sequence[Kernel],
        platform: Platform,
        device: Device,
        progress: Progress | None,
    ) -> None:
        self.setup = setup
        self.profile = profile
        self.platform = platform
        self.progress = progress
        self.target = device_target(device)
        self.host = None if device.kind in HOST_KINDS else host_target(platform)
        self._compiled = 0
        with self.profile.timed("schedule"):
            self.jobs = make_jobs(
                kernels, self.target, setup.schedule, setup.store, self.tell, setup.decided,
                self.host,
            )  # fmt: skip

    def compile(
        self,
        wanted: dict[KernelKey, PrimFunc],
        folder: Path,
        workers: Sequence[Worker] = (),
        target: Target | None = None,
    ) -> Compiled:
        """Compile scheduled functions into a folder of their own; no two symbols are alike."""
        if not wanted:
            return Compiled()
        target = target if target is not None else self.target
        linker_of(target)  # else each kernel would fail by itself
        step = f"compile for {target_name(target)}"
        self.tell(step, 0, len(wanted))
        with self.profile.timed("compile"):
            where = Path(tempfile.mkdtemp(dir=folder))
            self._compiled += len(wanted)
            return compile_kernels(
                wanted,
                target,
                where,
                workers,
                lambda done: self.tell(step, done, len(wanted)),
                self._compiled - len(wanted),
            )

    def tell(self, what: str, done: int, total: int) -> None:
        """Tell who wants to know how far we are."""
        if self.progress is not None:
            self.progress(what, done, total)


def host_target(platform: Platform) -> Target:
    """A target of this machine's CPU: a device's of the platform, or any CPU's of this kind."""
    from tvm.target import Target

    here = available_cores()
    for device in platform.devices:
        local = device.kind == "llvm" and device.rpc is None and device.target is not None
        if local and here.issuperset(device.cores):
            return device_target(device)
    return Target("llvm")
