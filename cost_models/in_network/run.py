"""Run a whole network on each of several devices, by itself or all at once, every kernel timed.

Why and what for: `tvm_hetero.cost_models.in_network.costs`.

A GPU works on while the thread that feeds it starts the next kernels. To time a kernel it must be
waited for, which a plan's step does once for all its kernels. So the network is run unwatched too,
and what the waiting adds is taken from every call, the same from each.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.errors import HeteroError, RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.annotate_devices import place_tasks
from tvm_hetero.platform import HOST_KINDS
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate
from tvm_hetero.solvers.core.options import make_schedule

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.executor.executor import Executor

# Told of a device, and why the network cannot be run there.
Refused = Callable[[str, str], None]
# What a clock of whole nanoseconds may show as nothing, s.
_TICK = 1e-9
# A round takes about so long at least (s): a tiny network is run several times for each look.
_LOOK = 5e-4
_MOST_REPEATS = 50
# Runs of which the fastest tells what the waiting takes; and what is left of a call at least.
_WAIT_ROUNDS, _LEAST_SHARE = 7, 0.1


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


@dataclass(frozen=True)
class Load:
    """How a network is run: on a device, with some elements, of which certain tasks compute all
    at once (`tvm_hetero.kernels.tir.batched`).
    """

    device: str
    elements: int = 1
    at_once: Collection[str] = ()


@dataclass
class MeasuredNetwork:
    """A network that is built for one device, and what its calls took there, round by round.

    `tasks` names the task of each call: in a batch a task may have several. `is_host`: whether a
    call returns when the kernel has ended.
    """

    device: str
    executor: Executor
    is_host: bool = True
    tasks: list[str] = field(default_factory=list)
    alone: list[list[float]] = field(default_factory=list)
    loaded: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.executor.profile_kernels = True
        # Integers may be indices, of tensors that are not that long.
        middle = {row.name: sum(row.range or (0, 0)) // 2 for row in self.executor.inputs}
        self._values = {
            name: value if value.dtype.kind not in "iub" else np.full_like(value, middle[name])
            for name, value in self.executor.random_inputs().items()
        }
        self._repeat, self._wait = 1, 0.0
        if math.fsum(self.round()) < 10 * _LOOK:  # it met cold memory
            seconds = min(self.executor.benchmark(self._values, repeat=2, warmup=0))
            self._repeat = max(1, min(_MOST_REPEATS, round(_LOOK / seconds)))
        if not self.is_host:
            self._wait = self._wait_of_a_call()

    def round(self) -> list[float]:
        """Run the network; what each call on the device took in the last run, s."""
        return self.timed_runs(self._repeat)[1]

    def timed_runs(self, count: int) -> tuple[list[float], list[float]]:
        """Run the network some times in a row; what each run took, and each call in the last, s."""
        runs = self.executor.benchmark(self._values, repeat=count, warmup=0)
        own = [row for row in self.executor.kernel_times() if row.device == self.device]
        self.tasks = [row.task for row in own]
        if not all(math.isfinite(row.seconds) for row in own):
            raise RunError(f"device {self.device!r}: a kernel has no time")
        return runs, [
            max(row.seconds - self._wait, _LEAST_SHARE * row.seconds, _TICK) for row in own
        ]

    def _wait_of_a_call(self) -> float:
        """What it adds to a call that it is waited for, s."""
        watched = min(math.fsum(self.round()) for _ in range(_WAIT_ROUNDS))
        self.executor.profile_kernels = False
        unwatched, steps = math.inf, 0
        for _ in range(_WAIT_ROUNDS):
            self.executor.benchmark(self._values, repeat=self._repeat, warmup=0)
            spans = [
                row.end - row.start for row in self.executor.trace() if row.device == self.device
            ]
            unwatched, steps = min(unwatched, math.fsum(spans)), len(spans)
        self.executor.profile_kernels = True
        return max(0.0, watched - unwatched) / max(1, len(self.tasks) - steps)


@contextmanager
def open_networks(
    mod: tvm.IRModule,
    problem: Problem,
    loads: Sequence[Load],
    refused: Refused,
    progress: Progress | None,
) -> Iterator[list[MeasuredNetwork]]:
    """The network as each load has it; the executors are closed at the end.

    One that cannot be run is left out, and `refused` is told its device and why.
    """
    built = []
    with ExitStack() as stack:
        for done, load in enumerate(loads):
            if progress is not None:
                progress("build for measuring in place", done, len(loads))
            try:
                executor = stack.enter_context(_executor(mod, problem, load))
                host = problem.platform.device(load.device).kind in HOST_KINDS
                built.append(MeasuredNetwork(load.device, executor, host))
            except HeteroError as error:
                refused(load.device, str(error))
        yield built


def _executor(mod: tvm.IRModule, problem: Problem, load: Load) -> Executor:
    """The network, with everything on the load's device that can be there."""
    from tvm_hetero.compiler.build import build

    # What a schedule may use of a memory is no matter here: nothing else is in it.
    devices = tuple(replace(row, memory=None) for row in problem.platform.devices)
    problem = replace(
        problem,
        costs={task: _costs(row, task, load) for task, row in problem.costs.items()},
        platform=replace(problem.platform, devices=devices),
        objective=Objective(batch=load.elements),
    )
    placed = place_tasks(mod, problem, _all_on(problem, load.device))
    return Executor(build(placed, single=False))


def _costs(row: Mapping[str, Cost], task: str, load: Load) -> dict[str, Cost]:
    """What a task costs, but for the elements that a kernel computes."""
    sizes = (1, load.elements) if task in load.at_once else (1,)
    return {
        name: replace(cost, sizes=sizes if name == load.device else (1,))
        for name, cost in row.items()
    }


def _all_on(problem: Problem, device: str) -> Schedule:
    """Every task on `device`, or where it takes least if that cannot run it."""

    def place(task: str) -> str:
        row = problem.costs[task]
        return device if device in row else min(row, key=lambda name: row[name].seconds(1))

    elements = tuple(range(problem.batch))
    timed = simulate(problem, [(task.id, place(task.id), elements) for task in problem.tasks])
    return make_schedule(problem, "in place", timed.executions, timed.copies)


def run_in_turns(
    crews: Sequence[Sequence[MeasuredNetwork]], limits: Rounds, progress: Progress | None
) -> bool:
    """Run crews of networks in turns, those of a crew at once; whether their times have settled."""
    for turn in range(max(limits.turns, limits.most_turns)):
        if progress is not None:
            progress("measure in place", turn, max(limits.turns, turn + 1))
        for crew in filter(None, crews):
            _run_alone(crew[0], limits) if len(crew) == 1 else _run_together(crew, limits)
        built = [network for crew in crews for network in crew]
        rounds = [each for network in built for each in (network.alone, network.loaded) if each]
        settled = all(limits.settled(each) for each in rounds)
        if settled and turn + 1 >= limits.turns:
            return True
    return False


def _run_alone(network: MeasuredNetwork, limits: Rounds) -> None:
    """Some rounds of one network, while the others sleep."""
    count, start = 0, time.monotonic()
    while not limits.enough(count, time.monotonic() - start):
        network.alone.append(network.round())
        count += 1


def _run_together(built: Sequence[MeasuredNetwork], limits: Rounds) -> None:
    """Some rounds of all networks at once, until the slowest has enough."""
    crew = _Crew(built, limits)
    threads = [threading.Thread(target=crew.work, args=(each,), daemon=True) for each in built]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # so that Ctrl-C is heard
                thread.join(0.05)
    finally:
        crew.end()
    if crew.errors:
        raise crew.errors[0]


class _Crew:
    """Threads, each of which runs one network until all have had enough."""

    def __init__(self, built: Sequence[MeasuredNetwork], limits: Rounds) -> None:
        self.limits = limits
        self.over = threading.Event()
        self.errors: list[Exception] = []
        self._counts = {network.device: 0 for network in built}
        self._line = threading.Barrier(len(built))

    def end(self) -> None:
        """Send all home, also one that waits for others whom an interruption kept from coming."""
        self.over.set()
        self._line.abort()

    def work(self, network: MeasuredNetwork) -> None:
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
