"""One model, one objective: the plan, the best single device and ONNX Runtime, with what was said.

What the costs promise stands beside what is measured: the value that the solver found, and the
bound, below which by these costs no schedule can be. `latency` and `big_little` are made of this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import onnx

from benchmarks.execution.cases import make_model, with_batch
from benchmarks.execution.contenders import (
    Built,
    batch_runner,
    build_plan,
    difference,
    elements_of,
    executors_of,
    peer_runner,
)
from benchmarks.execution.mode import Mode, in_one_mode
from benchmarks.execution.unrest import ATTEMPTS, in_a_calm_moment
from tvm_hetero.artifact.executable import PARTITION, SINGLE
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.cli.shared.measure import OnnxRuntime
from tvm_hetero.executor.interleave import measure_in_turns
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective

# Runs of each side take about so long together, and are so many.
_SECONDS, _LEAST, _MOST = 6.0, 10, 40
_STREAM_SECONDS = 1.0  # of one stream; there are so many of them:
_STREAMS = 7


@dataclass(frozen=True)
class Case:
    """What is measured: a model's name and for what it is partitioned."""

    model: str
    objective: Objective
    small: bool = False


@dataclass(frozen=True)
class Row:
    """One case. Seconds per batch: of one run (latency) or between two in a stream (throughput).

    ``devices`` says which work in the plan, ``single_device`` which one was best alone;
    ``difference`` is the largest deviation from ONNX Runtime, relative; ``others`` the cores that
    other programs kept busy; ``unrest`` by how much medians stand above the fastest runs (of the
    calmest attempt); ``mode`` which cores of the host we were on.
    """

    model: str
    objective: str
    batch: int
    tasks: int
    devices: list[str]
    single_device: str
    predicted_s: float
    bound_s: float
    single_predicted_s: float
    plan_s: float
    plan_median_s: float
    single_s: float
    single_median_s: float
    ort_s: float
    ort_median_s: float
    difference: float
    others: float
    unrest: float
    build_s: float
    mode: Mode

    @property
    def error(self) -> float:
        """By which share of the prediction the measured median is above it."""
        return self.plan_median_s / self.predicted_s - 1

    @property
    def over_bound(self) -> float:
        """The measured median over the bound."""
        return self.plan_median_s / self.bound_s

    @property
    def speed_up(self) -> float:
        """Measured: the best single device's time over the plan's."""
        return self.single_median_s / self.plan_median_s

    @property
    def possible(self) -> float:
        """The largest speed-up that the bound leaves: the single device, measured, over it."""
        return self.single_median_s / self.bound_s


def compare(case: Case, platform: Platform, time_limit: float) -> Row:
    """Build the case and measure all sides in turns.

    ONNX Runtime has as many threads as the platform has cores, and takes the elements of a batch
    one after another or all at once, whichever is quicker.
    """

    def measure(linked: Platform) -> dict[str, Any]:
        return _compare(case, linked, time_limit)

    figures, mode = in_one_mode(platform, measure, case.small)
    objective = case.objective
    return Row(case.model, objective.kind, objective.batch, **figures, mode=mode)


def _compare(case: Case, platform: Platform, time_limit: float) -> dict[str, Any]:
    model = make_model(case.model)
    built = build_plan(model, platform, case.objective, time_limit, small=case.small)
    cores = sum(len(device.cores) for device in platform.devices)
    return {
        **_said(built),
        **_measured(case, built, model, cores),
        "build_s": built.build_s,
    }


def _said(built: Built) -> dict[str, Any]:
    """What the problem and its schedule say."""
    schedule, single = built.placed.schedule, built.placed.schedule.best_single_device
    assert single is not None, "every case runs on a single device too"
    return {
        "tasks": len(built.placed.problem.tasks),
        "devices": sorted({execution.device for execution in schedule.executions}),
        "single_device": single.device,
        "predicted_s": schedule.value,
        "bound_s": schedule.lower_bound,
        "single_predicted_s": single.value,
    }


def _measured(case: Case, built: Built, model: onnx.ModelProto, cores: int) -> dict[str, Any]:
    """The least and the median of all sides' runs, and how far our outputs are off."""
    objective = case.objective
    executors = executors_of(built)
    inputs = executors[PARTITION].random_inputs(0)
    peer = OnnxRuntime(model, cores)
    error = max(difference(e, inputs, objective.batch, peer) for e in executors.values())
    seconds = 0.05 if case.small else _STREAM_SECONDS
    runners = {
        side: batch_runner(executors[variant], inputs, objective.kind, seconds)
        for side, variant in (("plan", PARTITION), ("single", SINGLE))
    }
    runners["ort"] = peer_runner(peer, elements_of(inputs, objective.batch))
    if objective.batch > 1:
        runners["whole"] = OnnxRuntime(with_batch(model, objective.batch), cores).runner(inputs)
    neighbours = Neighbours()
    found, unrest = in_a_calm_moment(
        lambda: measure_in_turns(runners, _runs(case, built), warmup=0 if case.small else 2),
        ("plan", "single"),
        attempts=1 if case.small else ATTEMPTS,
    )
    others = neighbours.busy_cores()
    for executor in executors.values():
        executor.close()
    if "whole" in found:
        found["ort"] = min(found["ort"], found.pop("whole"), key=lambda times: times.median)
    figures = {"difference": error, "others": others, "unrest": unrest}
    for side, statistics in found.items():
        figures |= {f"{side}_s": statistics.min, f"{side}_median_s": statistics.median}
    return figures


def _runs(case: Case, built: Built) -> int:
    if case.small:
        return 3
    if case.objective.kind == "throughput":
        return _STREAMS
    return int(min(max(_SECONDS / built.placed.schedule.value, _LEAST), _MOST))


def table(rows: Iterable[Row]) -> str:
    """A line a case, times in ms."""
    return "\n".join([_HEAD, *map(line, rows)])


_HEAD = (
    f"{'model':<14}{'objective':<12}{'batch':>5}{'tasks':>6}{'bound ms':>10}{'predict.':>10}"
    f"{'measured':>10}{'error %':>9}{'/bound':>8}{'single':>10}{'speed-up':>10}{'possible':>10}"
    f"{'ORT':>10}{'diff.':>8}{'others':>8}{'unrest':>8}{'link us':>8}"
)


def line(row: Row) -> str:
    """One row of `table`."""
    times = (row.bound_s, row.predicted_s, row.plan_median_s)
    return (
        f"{row.model:<14}{row.objective:<12}{row.batch:>5}{row.tasks:>6}"
        + "".join(f"{1e3 * seconds:>10.3f}" for seconds in times)
        + f"{100 * row.error:>9.1f}{row.over_bound:>8.2f}{1e3 * row.single_median_s:>10.3f}"
        f"{row.speed_up:>10.2f}{row.possible:>10.2f}{1e3 * row.ort_median_s:>10.3f}"
        f"{row.difference:>8.0e}{row.others:>8.1f}{100 * row.unrest:>7.1f}%{row.mode.text:>8}"
    )
