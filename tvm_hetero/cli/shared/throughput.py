"""Throughput, measured: seconds per batch when batches follow each other in a pipeline.

A plan for throughput is made for that, so `run` and `bench` show it beside the latency.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm_hetero.cli.shared.console import Steps

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.measure import Arrays, Runner
    from tvm_hetero.executor.executor import Executor
    from tvm_hetero.util.statistics import Statistics

KIND = "throughput"
# Filling and emptying the pipeline may take longer than what is measured, so only a few samples,
# each the mean of many runs.
SAMPLES = 5


@dataclass(frozen=True)
class Throughput:
    """Seconds per batch by variant: predicted (where known) and measured."""

    predicted: Mapping[str, float]
    measured: Mapping[str, Statistics]

    def as_dict(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        measured = {name: each.as_dict() for name, each in self.measured.items()}
        return {"unit": "s per batch", "predicted": dict(self.predicted), "measured": measured}


def measure_throughput(
    steps: Steps, executors: Mapping[str, Executor], inputs: Arrays, repeat: int
) -> Throughput | None:
    """Step: measure executors in turns, at least `repeat` runs each.

    None if the plan was made for another objective.
    """
    from tvm_hetero.cli.shared.background_load import Neighbours
    from tvm_hetero.cli.shared.measure import measure_in_turns

    schedule = next(iter(executors.values())).schedule
    if schedule.kind != KIND:
        return None
    runs = math.ceil(repeat / SAMPLES)
    neighbours = Neighbours()
    with steps.step("Measure throughput") as step:
        step.note = f"{SAMPLES} times {runs} runs, in a pipeline"
        runners = {name: _runner(executor, inputs, runs) for name, executor in executors.items()}
        measured = measure_in_turns(runners, SAMPLES, 0, step.counter("streams"))
    warning = neighbours.warning()
    if warning:
        steps.say(warning, "yellow")
    return Throughput(_predicted(executors), measured)


def _runner(executor: Executor, inputs: Arrays, runs: int) -> Runner:
    def run(count: int) -> list[float]:
        return [executor.throughput(inputs, runs) for _ in range(count)]

    return run


def _predicted(executors: Mapping[str, Executor]) -> dict[str, float]:
    from tvm_hetero.artifact.executable import SINGLE

    predicted = {}
    for name, executor in executors.items():
        schedule = executor.schedule
        single = schedule.best_single_device
        if executor.variant != SINGLE:
            predicted[name] = schedule.value
        elif single is not None:
            predicted[name] = single.value
    return predicted


def say_throughput(steps: Steps, throughput: Throughput | None) -> None:
    """The measured table, and each prediction beside the measured median."""
    if throughput is None:
        return
    from tvm_hetero.report.run.run_table import statistics_table
    from tvm_hetero.util.units import format_seconds

    steps.head("Throughput, time per batch in a pipeline")
    steps.say(statistics_table(throughput.measured, "time per batch of"))
    steps.say()
    for name, guess in throughput.predicted.items():
        median = throughput.measured[name].median
        ratio = f"{median / guess:.2f} times the prediction" if guess > 0 else "nothing predicted"
        times = f"predicted {format_seconds(guess)}, measured {format_seconds(median)}"
        steps.say(f"{name}: {times}: {ratio}")
