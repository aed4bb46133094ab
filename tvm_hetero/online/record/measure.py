"""A network on one place, with every kernel timed, in all scenarios in turns.

With T the runs' seconds and k the seconds of a task's kernels in some runs:

    alone            median of k
    beside           median of k: a cache or memory that is shared slows each kernel in its own way
    on a core of     its seconds alone times mean(T) / mean(T alone): the system takes the core away
    the place        for some milliseconds, from whichever kernel is running, so that of few runs
                     only the sum tells how much; it is the same for all kernels

Runs follow one another without a pause, as in a stream: a thread that has slept would be given more
than its half of a core that is shared.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tvm_hetero.cost_models.in_network.run import MeasuredNetwork
from tvm_hetero.online.record.scenarios import QUIET, Scenario
from tvm_hetero.processes.disturbers import disturb

# Scenarios take turns, so that what else happens on the machine meets all of them alike.
TURNS = 2
# Runs between two looks at the kernels' times take about so long (s), as far as one run allows.
_LOOK = 0.05
_LEAST_LOOKS = 3
# A disturber lasts longer than what it disturbs by this factor, and some seconds.
_LONGER, _SPARE = 20.0, 60.0
# Requests at rest, of which the noise is known: as many as this, unless they take too long (s).
NOISE_REQUESTS, NOISE_SECONDS, _NOISE_LEAST = 500, 10.0, 50


@dataclass
class ScenarioSamples:
    """What was measured in one scenario: seconds of each run, and of tasks in some of them."""

    runs: list[float] = field(default_factory=list)
    tasks: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, network: MeasuredNetwork, runs: Sequence[float], calls: Sequence[float]) -> None:
        """Some runs, and the calls of the last of them."""
        self.runs += runs
        taken: dict[str, float] = defaultdict(float)
        for task, seconds in zip(network.tasks, calls, strict=True):
            taken[task] += seconds
        for task, seconds in taken.items():
            self.tasks[task].append(seconds)


def measure_scenarios(
    network: MeasuredNetwork,
    scenarios: Sequence[Scenario],
    cores: Sequence[int],
    seconds: float,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, float]]:
    """Seconds of each task in each scenario, by their names.

    Parameters
    ----------
    network : built for the place, which has `cores`.
    scenarios : the quiet one among them.
    seconds : of measuring in each scenario.
    tell : what is being measured.
    """
    samples = {scenario: ScenarioSamples() for scenario in scenarios}
    for _ in range(TURNS):
        for scenario in scenarios:
            tell(scenario.name)
            with _disturbed(scenario, cores, seconds):
                _collect(network, samples[scenario], seconds / TURNS)
    quiet = samples[QUIET]
    return {
        scenario.name: estimate(found, quiet, shared=_shares_a_core(scenario, cores))
        for scenario, found in samples.items()
    }


def _shares_a_core(scenario: Scenario, cores: Sequence[int]) -> bool:
    return bool(scenario.kind) and scenario.core(cores) in cores


def _disturbed(
    scenario: Scenario, cores: Sequence[int], seconds: float
) -> AbstractContextManager[object]:
    if not scenario.kind:
        return nullcontext()
    return disturb(scenario.kind, scenario.core(cores), _LONGER * seconds + _SPARE)


def _collect(network: MeasuredNetwork, samples: ScenarioSamples, seconds: float) -> None:
    """Run and look, until the time is up."""
    network.timed_runs(1)  # what was there before may have had the caches
    end = time.monotonic() + seconds
    looks, count = 0, 1
    while looks < _LEAST_LOOKS or time.monotonic() < end:
        runs, calls = network.timed_runs(count)
        samples.add(network, runs, calls)
        looks += 1
        count = max(1, round(_LOOK / statistics.median(samples.runs)))


def estimate(found: ScenarioSamples, quiet: ScenarioSamples, *, shared: bool) -> dict[str, float]:
    """Seconds of each task of what was found, beside what was found in quiet (see the file's text).

    `shared`: a disturber was on a core of the place.
    """
    if not shared:
        return {task: statistics.median(times) for task, times in found.tasks.items()}
    factor = statistics.fmean(found.runs) / statistics.fmean(quiet.runs)
    alone = estimate(quiet, quiet, shared=False)
    return {task: seconds * factor for task, seconds in alone.items()}


def measure_noise(network: MeasuredNetwork, requests: int = NOISE_REQUESTS) -> tuple[float, ...]:
    """How requests vary at rest: what each takes over their median, one after the other."""
    runs: list[float] = []
    end = time.monotonic() + NOISE_SECONDS
    while len(runs) < requests and (len(runs) < _NOISE_LEAST or time.monotonic() < end):
        count = max(1, round(_LOOK / statistics.median(runs))) if runs else 1
        runs += network.timed_runs(min(count, requests - len(runs)))[0]
    middle = statistics.median(runs)
    return tuple(round(run / middle, 4) for run in runs)


def sums(blocks: Sequence[Sequence[str]], seconds: Mapping[str, float]) -> tuple[float, ...]:
    """The seconds of each block; a task without a kernel (its work is another's) takes none."""
    least = 1e-9  # a recording has times above 0
    return tuple(
        float(f"{max(least, sum(seconds.get(task, 0.0) for task in block)):.4g}")
        for block in blocks
    )
