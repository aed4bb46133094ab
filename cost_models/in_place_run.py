"""Run a whole network on each of several devices, alone and all at once, kernel by kernel timed.

Why and what for: `tvm_hetero.cost_models.in_place`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.cost_models.protocol import Progress, not_in_place
from tvm_hetero.errors import HeteroError, RunError
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.platform import Device
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.schedule import Schedule
from tvm_hetero.simulate import simulate
from tvm_hetero.solvers.options import make_schedule

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.runtime.executor import Executor

# What a clock of whole nanoseconds may show as nothing, s.
_TICK = 1e-9
# A round takes about so long at least (s): a tiny network is run several times for each look.
_LOOK = 5e-4
_MOST_REPEATS = 50


@dataclass(frozen=True)
class Rounds:
    """How often the network is run on each device: in turns, of some rounds alone, some at once.

    Attributes
    ----------
    budget : s; the rounds of a turn go on until they have taken this long together.
    least, most : limits of their number.
    turns, most_turns : how many turns there are, and at most while rounds disagree.
    noise : by which share the lower quarter of the rounds may reach above the fastest one.
    """

    budget: float = 0.2
    least: int = 3
    most: int = 30
    turns: int = 2
    most_turns: int = 6
    noise: float = 0.06

    def enough(self, count: int, seconds: float) -> bool:
        """Whether that many rounds in that time will do for a turn."""
        return count >= self.least and (seconds >= self.budget or count >= self.most)

    def settled(self, rounds: Sequence[Sequence[float]]) -> bool:
        """Whether the rounds (the seconds of each call) agree on what the network takes."""
        totals = sorted(math.fsum(times) for times in rounds)
        return totals[(len(totals) - 1) // 4] <= totals[0] * (1 + self.noise)


@dataclass
class Network:
    """A network that is built for one device, and what its calls took there, round by round."""

    device: str
    executor: Executor
    tasks: list[str] = field(default_factory=list)
    alone: list[list[float]] = field(default_factory=list)
    loaded: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.executor.profile_kernels = True
        # Whole numbers may be indices, of tensors that are not that long.
        self._values = {
            name: value if value.dtype.kind not in "iub" else np.zeros_like(value)
            for name, value in self.executor.random_inputs().items()
        }
        self._repeat = 1
        self.round()  # the first one meets cold memory
        seconds = min(self.executor.benchmark(self._values, repeat=2, warmup=0))
        self._repeat = max(1, min(_MOST_REPEATS, round(_LOOK / seconds)))

    def round(self) -> list[float]:
        """Run the network; what each call on the device took in the last run, s."""
        self.executor.benchmark(self._values, repeat=self._repeat, warmup=0)
        own = [row for row in self.executor.kernel_times() if row.device == self.device]
        self.tasks = [row.task for row in own]
        if not all(math.isfinite(row.seconds) for row in own):
            raise RunError(f"device {self.device!r}: a kernel has no time")
        return [max(row.seconds, _TICK) for row in own]


@contextmanager
def networks(
    mod: tvm.IRModule,
    problem: Problem,
    devices: Sequence[Device],
    progress: Progress | None,
) -> Iterator[list[Network]]:
    """The network on each of the devices that can run it; the executors are closed at the end."""
    built = []
    with ExitStack() as stack:
        for done, device in enumerate(devices):
            if progress is not None:
                progress("build for measuring in place", done, len(devices))
            try:
                executor = stack.enter_context(_executor(mod, problem, device.name))
                built.append(Network(device.name, executor))
            except HeteroError as error:
                not_in_place(device.name, str(error))
        yield built


def _executor(mod: tvm.IRModule, problem: Problem, device: str) -> Executor:
    """The network, with everything on `device` that can be there."""
    from tvm_hetero.runtime.compile import build

    # What a schedule may use of a memory is no matter here: nothing else is in it.
    devices = tuple(replace(row, memory=None) for row in problem.platform.devices)
    platform = replace(problem.platform, devices=devices)
    problem = replace(problem, platform=platform, objective=Objective())
    placed = annotate_devices(mod, problem, _all_on(problem, device))
    return build(placed, single=False).executor()


def _all_on(problem: Problem, device: str) -> Schedule:
    """Every task on `device`, or where it takes least if that cannot run it."""

    def place(task: str) -> str:
        row = problem.costs[task]
        return device if device in row else min(row, key=lambda name: row[name].seconds(1))

    timed = simulate(problem, [(task.id, place(task.id), (0,)) for task in problem.tasks])
    return make_schedule(problem, "in place", timed.executions, timed.copies)


def run_in_turns(built: Sequence[Network], limits: Rounds, progress: Progress | None) -> bool:
    """Run networks each alone and all at once, in turns; whether their times have settled."""
    for turn in range(max(limits.turns, limits.most_turns)):
        if progress is not None:
            progress("measure in place", turn, max(limits.turns, turn + 1))
        for network in built:
            _run_alone(network, limits)
        if len(built) > 1:
            _run_together(built, limits)
        rounds = [each for network in built for each in (network.alone, network.loaded) if each]
        settled = all(limits.settled(each) for each in rounds)
        if settled and turn + 1 >= limits.turns:
            return True
    return False


def _run_alone(network: Network, limits: Rounds) -> None:
    """Some rounds of one network, while the others sleep."""
    count, start = 0, time.monotonic()
    while not limits.enough(count, time.monotonic() - start):
        network.alone.append(network.round())
        count += 1


def _run_together(built: Sequence[Network], limits: Rounds) -> None:
    """Some rounds of all networks at once, until the slowest has enough."""
    crew = _Crew(built, limits)
    threads = [threading.Thread(target=crew.work, args=(each,), daemon=True) for each in built]
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


class _Crew:
    """Threads, each of which runs one network until all have had enough."""

    def __init__(self, built: Sequence[Network], limits: Rounds) -> None:
        self.limits = limits
        self.over = threading.Event()
        self.errors: list[Exception] = []
        self._counts = {network.device: 0 for network in built}
        self._line = threading.Barrier(len(built))

    def work(self, network: Network) -> None:
        """One thread's part. A round that ends after the others have stopped does not count."""
        try:
            self._line.wait()
            start = time.monotonic()
            while not self.over.is_set():
                times = network.round()
                if self.over.is_set():
                    return
                network.loaded.append(times)
                self._counts[network.device] += 1
                seconds = time.monotonic() - start
                if all(self.limits.enough(count, seconds) for count in self._counts.values()):
                    self.over.set()
        except Exception as error:  # handed to the thread that waits
            self.errors.append(error)
            self.over.set()
