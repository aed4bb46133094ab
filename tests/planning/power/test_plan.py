"""Steady states and batches under watts, against going through all placements."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.planning.power.all_placements import placements, shortest
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import (
    FormatError,
    InfeasibleError,
    SolverError,
    UsageError,
)
from tvm_hetero.planning.power import batch_energy, least_energy, most_throughput
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import Options

QUICK = Options(2.0, deadline=60.0)
quickly = settings(max_examples=draws(12), deadline=None, suppress_health_check=list(HealthCheck))


def warmer_at_work(problem: Problem) -> Problem:
    """No device draws less while it is busy than any idles with (at most 2 W)."""
    devices = tuple(replace(d, watts=(d.watts or 0.0) + 2.0) for d in problem.platform.devices)
    return replace(problem, platform=replace(problem.platform, devices=devices))


small = st.booleans().flatmap(
    lambda exact: problems(
        max_tasks=3, max_devices=3, kinds=["throughput"], teams=True, exact=exact
    ).map(warmer_at_work)
)
single = problems(max_tasks=3, max_devices=2, kinds=["energy"], teams=True).map(warmer_at_work)


@quickly
@given(problem=small, watts=st.integers(1, 12))
def test_the_shortest_period_under_a_cap_is_the_best_of_all(problem: Problem, watts: int) -> None:
    best = min((shortest(*each, watts + 1e-9) for each in placements(problem)), default=math.inf)
    if best in (0.0, math.inf):
        with pytest.raises(UsageError if best == 0 else InfeasibleError):
            most_throughput(problem, watts, QUICK)
        return
    found = most_throughput(problem, watts, QUICK)
    assert found.watts <= watts * (1 + 1e-9) and found.period >= found.schedule.value
    assert found.bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= found.period <= best * (1 + 2e-3)
    assert check_schedule(problem, found.schedule) == []


@quickly
@given(problem=small, longer=st.sampled_from([1.0, 1.5, 4.0, 1e6, 1e12]))
def test_the_least_energy_at_a_rate_is_the_best_of_all(problem: Problem, longer: float) -> None:
    rows = list(placements(problem))
    period = longer * min(load for load, _, _ in rows)
    if period == 0:
        return
    best = min(above + idle * period for load, idle, above in rows if load <= period * (1 + 1e-9))
    found = least_energy(problem, period, QUICK)
    assert found.schedule.value <= period * (1 + 1e-9)
    assert found.bound <= best * (1 + 1e-12) + 1e-9
    assert best * (1 - 1e-12) - 1e-6 <= found.joules <= best * (1 + 2e-3) + 1e-6


def test_of_a_period_of_ages_the_plan_is_that_of_the_longest_one_with_whole_numbers() -> None:
    """Idling decides, but for what is drawn above it: half the clock where that takes less."""
    problem = two_levels(1.0)
    work = sum(problem.seconds(task.id, "core.full") for task in problem.tasks)
    for times in (1e6, 1e9, 1e15):
        found = least_energy(problem, times * work, QUICK)
        assert found.period == times * work
        assert found.joules == pytest.approx((times * 1.0 + 2 * (4.0 - 1.0)) * work, rel=1e-12)
        assert {run.device for run in found.schedule.executions if run.end > run.start} == {
            "core.half"
        }
        assert 0 <= found.gap(found.joules) < 1e-3
    nothing = least_energy(two_levels(0.0), 1e9 * work, QUICK)
    assert (
        nothing.joules == pytest.approx(8.0 * work, rel=1e-4) and nothing.gap(nothing.joules) < 1e-3
    )


@quickly
@given(
    problem=single,
    longer=st.sampled_from([1.0, 2.0]),
)
def test_the_least_energy_of_a_batch_is_the_best_of_all(problem: Problem, longer: float) -> None:
    problem = replace(problem, objective=Objective("energy"))
    period = longer * brute_force(replace(problem, objective=Objective("latency")))
    if period == 0:
        return
    timed, found = batch_energy(problem, period, QUICK)
    best = brute_force(timed)
    assert check_schedule(timed, found) == []
    assert found.lower_bound <= best + 1e-9
    assert best - 1e-6 <= found.value <= best * (1 + 2e-3) + 1e-6


def two_levels(idle: float, half: float = 4.0) -> Problem:
    """A core that draws 10 W at its full clock; all of its work is arithmetic."""
    levels = [("full", 1, 10.0), ("half", 0.5, half)]
    row = {
        "name": "core", "target": "llvm", "peak_flops": 1e9, "bandwidth": "1TB/s",
        "idle_watts": idle,
        "levels": [{"name": name, "speed": s, "watts": watts} for name, s, watts in levels],
    }  # fmt: skip
    document = {"format": "tvm-hetero/platform/1", "name": "one", "devices": [row]}
    platform = Platform.from_dict(document)
    return zoo.problem("layers-synthnet", platform, Objective("throughput"))


def test_racing_to_idle_or_slow_and_steady_hangs_on_the_idle_watts() -> None:
    for idle, racing in ((0.5, True), (3.0, False)):
        problem = two_levels(idle, 6.0)
        work = sum(problem.seconds(task.id, "core.full") for task in problem.tasks)
        found = least_energy(problem, 2.5 * work, QUICK)
        at = {run.device for run in found.schedule.executions if run.end > run.start}
        assert at == {"core.full" if racing else "core.half"}
        expected = (10 + 1.5 * idle) * work if racing else (12 + 0.5 * idle) * work
        assert found.joules == pytest.approx(expected, rel=1e-4)
        assert found.gap(found.joules) < 1e-4


def test_a_cap_slows_down_what_has_no_slower_level() -> None:
    problem = two_levels(0.5)
    work = sum(problem.seconds(task.id, "core.full") for task in problem.tasks)
    free, capped, least = (most_throughput(problem, w, QUICK) for w in (20.0, 4.0, 2.25))
    assert free.period == pytest.approx(work) and free.watts == pytest.approx(10, rel=1e-3)
    # 4 W: always at half; below, half of the time at half.
    assert capped.period == pytest.approx(2 * work, rel=1e-3)
    assert least.period == pytest.approx(4 * work, rel=1e-3) and least.watts <= 2.25


def test_refusals() -> None:
    problem = two_levels(1.0)
    with pytest.raises(InfeasibleError, match="1 W in the mean"):
        most_throughput(problem, 1.0, QUICK)
    with pytest.raises(UsageError, match="watts above 0"):
        most_throughput(problem, 0.0)
    with pytest.raises(UsageError, match="for throughput, not for latency"):
        least_energy(replace(problem, objective=Objective("latency")), 1.0)
    with pytest.raises(InfeasibleError, match=r"a batch every 1\.00 ms"):
        least_energy(problem, 1e-3, QUICK)
    with pytest.raises(FormatError, match="no watts"):
        most_throughput(zoo.problem("layers-synthnet", "big-little", Objective("throughput")), 5.0)


def test_a_cap_far_above_all_is_none_and_one_next_to_idling_is_no_fault() -> None:
    problem = two_levels(1.0)
    free = most_throughput(problem, 1e3, QUICK)
    assert most_throughput(problem, 1e300, QUICK).schedule.value == free.schedule.value
    for watts in (1.0, math.nextafter(1.0, 2.0), 1.0 + 1e-12):
        with pytest.raises((InfeasibleError, SolverError)):
            most_throughput(problem, watts, QUICK)
