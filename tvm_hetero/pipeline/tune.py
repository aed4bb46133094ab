"""Tuning a model: which kernels, in which order, until when.

The model is lowered as `partition` lowers it, for all targets of the platform, so kernels and
their keys are the same, and what is found here is found there by itself. The kernels of a device
are searched in the order of what they take in all, tasks times seconds of the best that is known
today: an hour that ends early was spent where it counts.

The search for one kernel is in `tvm_hetero.cost_models.tuning.tuner`.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import tvm

from tvm_hetero.cost_models.kernels_alone.bench import NotMeasured
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import ProfileWarning, Progress
from tvm_hetero.cost_models.store import CostStore, Tuning
from tvm_hetero.cost_models.tuning.tuner import KernelTuner, TuningLimits
from tvm_hetero.devices.target import device_target, require_present
from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.passes.annotate_devices import strip_devices
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.placed_model import is_annotated
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.util.nearest import nearest


@dataclass(frozen=True)
class TuningWork:
    """One kernel of a model that is to be tuned on a device.

    Attributes
    ----------
    tasks : how many tasks of the model are this kernel.
    seconds : what one call took before.
    """

    kernel: Kernel
    device: Device
    tasks: int
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """How the search for one kernel ended, by itself or by an interruption."""

    work: TuningWork
    tuning: Tuning


def devices_to_tune(platform: Platform, name: str | None = None) -> list[Device]:
    """The CPU device of that name; without a name, the first of each distinct CPU target.

    Raises
    ------
    PlatformError
        If there is none.
    ProfileError
        If it is not on this machine.
    """
    devices = {d.name: d for d in platform.devices if d.kind == "llvm" and d.rpc is None}
    if name is not None and name not in devices:
        raise PlatformError(
            f"platform {platform.name!r} has no CPU device {name!r}{nearest(name, devices)}"
        )
    if not devices:
        raise PlatformError(f"platform {platform.name!r} has no CPU; nothing else is tuned")
    chosen = [devices[name]] if name is not None else list(devices.values())
    first = {str(device_target(device)): device for device in reversed(chosen)}
    for device in first.values():
        require_present(platform, device)
    return [device for device in chosen if device in first.values()]


def kernels_to_tune(
    mod: tvm.IRModule,
    platform: Platform,
    devices: Sequence[Device],
    containing: str = "",
    store: CostStore | None = None,
    progress: Progress | None = None,
) -> list[TuningWork]:
    """Lower a model and measure its kernels; those that take most of its time come first.

    Parameters
    ----------
    mod : a Relax module, lowered or not; a placed one is taken apart first.
    containing : only kernels with this in their names.

    Raises
    ------
    UsageError
        If no kernel has such a name.
    """
    mod = strip_devices(mod) if is_annotated(mod) else mod
    targets = [device_target(d) for d in platform.devices if d.target is not None]
    lower: tvm.transform.Pass = LowerToTasks(targets)
    tasks = extract_tasks(lower(mod))
    kernels = [kernel for kernel in tasks.kernels if containing in kernel.name]
    if not kernels:
        names = [kernel.name for kernel in tasks.kernels]
        raise UsageError(
            f"no kernel has {containing!r} in its name{nearest(containing, names)}; "
            f"there are {', '.join(names[:5])} and others"
        )
    count = Counter(tasks.kernel_of.values())
    costs = ProfiledCosts(store).costs(
        kernels, replace(platform, devices=tuple(devices), links=(), fabrics=()), progress
    )
    found = [
        TuningWork(kernel, device, count[kernel.name], costs[kernel.name][device.name].seconds(1))
        for kernel in kernels
        for device in devices
        if device.name in costs[kernel.name]
    ]
    return sorted(found, key=lambda work: -work.tasks * work.seconds)


def tune(
    works: Sequence[TuningWork],
    platform: Platform,
    trials: int,
    seconds: float = float("inf"),
    seed: int = 0,
    store: CostStore | None = None,
    progress: Callable[[int, int, float, str], None] | None = None,
) -> Iterator[Tuned]:
    """Search for better schedules of kernels, one kernel after the other.

    An interruption ends the search; the kernel at which it happened is still yielded, with what
    was found until then, before it is raised again.

    Parameters
    ----------
    works : what `kernels_to_tune` gave.
    trials : of each kernel, those of earlier runs included.
    seconds : after which no further trial begins.
    seed : of the search.
    progress : told after each trial: how many trials are done and how many there are in all, how
        many times as fast as the rule's the best schedule is so far, and of which kernel.
    """
    store = store or CostStore()
    limits = TuningLimits(trials, time.monotonic() + seconds)
    for number, work in enumerate(works):
        if time.monotonic() >= limits.deadline:
            return
        tuner = KernelTuner(work.kernel, platform, work.device, store, seed)

        def watch(done: int, best: float, number: int = number, work: TuningWork = work) -> None:
            if progress is not None:
                total = trials * len(works)
                progress(trials * number + done, total, best, work.kernel.name)

        try:
            yield Tuned(work, tuner.tune(limits, watch))
        except NotMeasured as reason:
            where = f"kernel {work.kernel.name!r} on device {work.device.name!r}"
            warnings.warn(f"{where} is not tuned: {reason}", ProfileWarning, stacklevel=2)
        except KeyboardInterrupt:
            tuning = store.tuning(tuner.key, str(tuner.target))
            if tuning is not None:
                yield Tuned(work, tuning)
            raise
