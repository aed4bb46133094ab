"""Costs in place: what each kernel takes inside the whole network, as the executor runs it.

Why not the kernels' times alone? A kernel that is measured alone finds its inputs, its code and
most of the core's predictors as the last repeat left them. In a network it finds what the kernel
before it has left, and a tensor that was made forty kernels ago may be in no cache any more. Sums
over the tasks of a network against the network itself, kernel after kernel on one Zen 5 core with
its temporaries in one arena (ms, medians):

    network        alone   in place   whole network   whole network, the other core at the same
    squeezenet      3.24       3.20            3.22                                        3.30
    inception_v1   12.53      13.08           13.16                                       13.10
    densenet121    24.21      25.81           26.02                                       25.99
    resnet50       35.42      36.83           37.22

What is off is not spread evenly either: concatenations take half as long again in place, large
convolutions next to nothing more. So once the contests have said how each kernel is computed,

    alone     the network is built for each device by itself and run there, kernel by kernel timed
    loaded    then all devices of a node run it at once, each its own build of it

A task that a device cannot run is run on another one meanwhile (and its tensors are copied, where
that is needed), so everything that is read has its true values. Weights are the model's own;
inputs are random, whole numbers 0, since they may be indices.

The cost of a task is what it takes loaded: in a plan worth having the other devices are busy too.
One device alone is faster than its costs say by its *interference*, which is measured on the way
(loaded / alone) and noted in the problem's platform.

Of the rounds of a network, each call counts with the lower quartile of its times, since what else
runs on the machine only adds. Quartiles of many calls do not fall into one round, so that their
sum is 2 % too small: all are stretched to the mean of the quieter half of the rounds, but by
`MOST_STRETCH` at the most, for on a machine that others use no whole round may be quiet.

Results are kept in the store beside the kernels' times: a network that comes again has the very
same costs, hence the same plan.
"""

from __future__ import annotations

import hashlib
import math
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvm_hetero.cost_models.identity import place_of
from tvm_hetero.cost_models.protocol import Progress, not_in_place
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.documents import canonical_json
from tvm_hetero.errors import HeteroError, RunError
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.dataflow import read_main
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.schedule import Schedule
from tvm_hetero.simulate import simulate
from tvm_hetero.solvers.options import make_schedule

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.runtime.executor import Executor

# Part of every key: raise it when the way of measuring changes, so that old times are not used.
METHOD = "in-place/1"
MOST_STRETCH = 1.03
# What a clock of whole nanoseconds may show as nothing, s.
_TICK = 1e-9
# task -> device -> s
Seconds = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Rounds:
    """How often the network is run, alone on each device and then on all at once.

    Attributes
    ----------
    budget : s; rounds go on until they have taken this long together.
    least, most : limits of their number.
    """

    budget: float = 0.4
    least: int = 5
    most: int = 60
    # A round takes at least so long (s): tiny networks are run several times for each look.
    turn: float = 5e-4


@dataclass(frozen=True)
class InPlace:
    """What the tasks of a network take in it; a device that could not run it is left out."""

    alone: Seconds
    loaded: Seconds

    def interference(self, device: str) -> float | None:
        """How many times as long the network takes on `device` while all devices run it."""
        pairs = [
            (own[device], self.loaded[task][device])
            for task, own in self.alone.items()
            if device in own and device in self.loaded.get(task, {})
        ]
        if not pairs:
            return None
        factor = math.fsum(loaded for _, loaded in pairs) / math.fsum(own for own, _ in pairs)
        return max(1.0, round(factor, 4))

    def applied_to(self, problem: Problem) -> Problem:
        """The problem with these costs, and the devices' interference in its platform."""
        costs = {task: dict(row) for task, row in problem.costs.items()}
        for seconds in (self.alone, self.loaded):
            for task, row in seconds.items():
                for name, value in row.items():
                    costs[task][name] = replace(costs[task][name], points=((1, value),))
        devices = []
        for device in problem.platform.devices:
            factor = self.interference(device.name)
            devices.append(device if factor is None else replace(device, interference=factor))
        return replace(
            problem, costs=costs, platform=replace(problem.platform, devices=tuple(devices))
        )


def measure_in_place(
    mod: tvm.IRModule,
    problem: Problem,
    store: CostStore | None = None,
    progress: Progress | None = None,
    rounds: Rounds = Rounds(),
) -> InPlace:
    """Run a whole network on each device of this machine, alone and with all others at it.

    Parameters
    ----------
    mod : the lowered module, with what was chosen for its kernels.
    problem : its problem, with the costs of the kernels alone.
    store : where results are looked for and kept; None: everything is measured.

    Notes
    -----
    What cannot be run on some device (it lacks the memory, or a link) is left out of the result
    with a `ProfileWarning`. An interruption ends the executors.
    """
    key = _key(mod, problem)
    known = None if store is None else store.find_network(key)
    if known is not None:
        return InPlace(**known)
    found = InPlace({}, {})
    for devices in _by_node(problem.platform):
        with _networks(mod, problem, devices, rounds, progress) as networks:
            _run_alone(networks, progress)
            _add(found.alone, networks)
            if len(networks) > 1:
                _run_together(networks, progress)
                _add(found.loaded, networks)
    if store is not None:
        store.add_network(key, {"alone": found.alone, "loaded": found.loaded})
    return found


def typical(rounds: Sequence[Sequence[float]]) -> list[float]:
    """What each call takes (s), from its times in several rounds; see the file's text."""
    totals = sorted(math.fsum(times) for times in rounds)
    quiet = statistics.fmean(totals[: (len(totals) + 1) // 2])
    calls = [_lower_quartile(times) for times in zip(*rounds, strict=True)]
    stretch = min(max(1.0, quiet / math.fsum(calls)), MOST_STRETCH)
    return [seconds * stretch for seconds in calls]


def _lower_quartile(times: Sequence[float]) -> float:
    return sorted(times)[(len(times) - 1) // 4]


@dataclass
class _Network:
    """A network that is built for one device, and what its calls took there, round by round."""

    device: str
    executor: Executor
    limits: Rounds
    tasks: list[str] = field(default_factory=list)
    times: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.executor.profile_kernels = True
        values = self.executor.random_inputs()
        self.values = {
            name: value if value.dtype.kind not in "iub" else np.zeros_like(value)
            for name, value in values.items()
        }
        self.repeat = 1
        self.turn()  # the first one meets cold memory
        seconds = min(self.executor.benchmark(self.values, repeat=2, warmup=0))
        self.repeat = max(1, min(50, round(self.limits.turn / seconds)))

    def turn(self) -> list[float]:
        """Run the network; what each of the device's calls took in the last run of this turn."""
        self.executor.benchmark(self.values, repeat=self.repeat, warmup=0)
        own = [row for row in self.executor.kernel_times() if row.device == self.device]
        self.tasks = [row.task for row in own]
        times = [row.seconds for row in own]
        if not all(math.isfinite(seconds) for seconds in times):
            raise RunError(f"device {self.device!r}: a kernel has no time")
        return [max(seconds, _TICK) for seconds in times]

    def enough(self, count: int, seconds: float) -> bool:
        """Whether that many rounds in that time will do."""
        limits = self.limits
        return count >= limits.least and (seconds >= limits.budget or count >= limits.most)


@contextmanager
def _networks(
    mod: tvm.IRModule,
    problem: Problem,
    devices: Sequence[Device],
    rounds: Rounds,
    progress: Progress | None,
) -> Iterator[list[_Network]]:
    """The network on each of the devices that can run it; the executors are closed at the end."""
    networks = []
    with ExitStack() as stack:
        for done, device in enumerate(devices):
            if progress is not None:
                progress("build for measuring in place", done, len(devices))
            try:
                executor = stack.enter_context(_executor(mod, problem, device.name))
                networks.append(_Network(device.name, executor, rounds))
            except HeteroError as error:
                not_in_place(device.name, str(error))
        yield networks


def _executor(mod: tvm.IRModule, problem: Problem, device: str) -> Executor:
    """The network, with everything on `device` that can be there."""
    from tvm_hetero.runtime.compile import build

    # What a schedule may use of a memory is no matter here: nothing else is in it.
    devices = tuple(replace(row, memory=None) for row in problem.platform.devices)
    open_problem = replace(
        problem, platform=replace(problem.platform, devices=devices), objective=Objective()
    )
    placed = annotate_devices(mod, open_problem, _all_on(open_problem, device))
    return build(placed, single=False).executor()


def _all_on(problem: Problem, device: str) -> Schedule:
    """Every task on `device`, or where it takes least if that cannot run it."""

    def place(task: str) -> str:
        row = problem.costs[task]
        return device if device in row else min(row, key=lambda name: row[name].seconds(1))

    timed = simulate(problem, [(task.id, place(task.id), (0,)) for task in problem.tasks])
    return make_schedule(problem, "in place", timed.executions, timed.copies)


def _run_alone(networks: Sequence[_Network], progress: Progress | None) -> None:
    """Each network by itself, while the others sleep."""
    for done, network in enumerate(networks):
        if progress is not None:
            progress("measure in place, alone", done, len(networks))
        network.times, start = [], time.monotonic()
        while not network.enough(len(network.times), time.monotonic() - start):
            network.times.append(network.turn())


def _run_together(networks: Sequence[_Network], progress: Progress | None) -> None:
    """All networks at once, until the slowest has enough rounds."""
    if progress is not None:
        progress("measure in place, all at once", 0, 1)
    crew = _Crew(networks)
    threads = [
        threading.Thread(target=crew.work, args=(network,), daemon=True) for network in networks
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():  # so that Ctrl-C is heard
                thread.join(0.05)
    finally:
        crew.over.set()
    if crew.errors:
        raise crew.errors[0]
    for network in networks:
        network.times = crew.times[network.device]


class _Crew:
    """Threads, each of which runs one network until all have had enough."""

    def __init__(self, networks: Sequence[_Network]) -> None:
        self.networks = networks
        self.times: dict[str, list[list[float]]] = {each.device: [] for each in networks}
        self.over = threading.Event()
        self.errors: list[Exception] = []
        self._line = threading.Barrier(len(networks))

    def work(self, network: _Network) -> None:
        """One thread's part: rounds that end after the first network has stopped do not count."""
        own = self.times[network.device]
        try:
            self._line.wait()
            start = time.monotonic()
            while not self.over.is_set():
                times = network.turn()
                if self.over.is_set() and len(own) >= network.limits.least:
                    return
                own.append(times)
                if self._all_enough(time.monotonic() - start):
                    self.over.set()
        except Exception as error:  # handed to the thread that waits
            self.errors.append(error)
            self.over.set()

    def _all_enough(self, seconds: float) -> bool:
        return all(each.enough(len(self.times[each.device]), seconds) for each in self.networks)


def _add(seconds: Seconds, networks: Sequence[_Network]) -> None:
    """Write down what the rounds of each network say."""
    for network in networks:
        for task, value in zip(network.tasks, typical(network.times), strict=True):
            seconds.setdefault(task, {})[network.device] = value


def _by_node(platform: Platform) -> list[list[Device]]:
    """Devices that can be busy at once *here*: another node's are measured as if on this one."""
    nodes: dict[str, list[Device]] = {}
    for device in platform.devices:
        if device.target is not None:
            nodes.setdefault(device.node, []).append(device)
    return list(nodes.values())


def _key(mod: tvm.IRModule, problem: Problem) -> str:
    """Everything that the times depend on: the network, how it is computed, and where."""
    main = read_main(mod)
    kernels = {call.kernel.name_hint: call.kernel for call in main.calls}
    hashes = {name: tvm_ffi.structural_hash(mod[gvar]) for name, gvar in kernels.items()}
    network = [
        [main.task_ids[call.position], hashes[call.kernel.name_hint] & (2**64 - 1)]
        for call in main.calls
    ]
    edges = [[edge.src, edge.dst, edge.bytes, edge.tensor] for edge in problem.graph.edges]
    ways = {task: _ways(row) for task, row in problem.costs.items()}
    digest = hashlib.sha256(canonical_json([network, edges, ways]).encode()).hexdigest()
    places = [
        [device.name, device.node, device.private, place_of(problem.platform, device).text]
        for device in problem.platform.devices
        if device.target is not None
    ]
    return canonical_json([METHOD, digest, places])


def _ways(row: Mapping[str, Cost]) -> dict[str, Any]:
    return {device: cost.implementation for device, cost in row.items()}
