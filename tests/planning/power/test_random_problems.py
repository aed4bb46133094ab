"""Plans under watts of random problems, held against all that there is.

What there is to find is looked at twice: with a little more of what is given, below which nothing
is, and with a little less, above which no plan has to be. Thousands of such problems found periods
that were cut off, a bound above the best plan, and searches without end.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from tests.brute_force import Exhausted, brute_force, limited
from tests.planning.power.all_placements import placements, shortest
from tests.planning.power.random_problems import THIRD, random_problem
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.power import batch_energy, least_energy, most_throughput
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.period import over_period
from tvm_hetero.solvers import Options

QUICK = Options(2.0, deadline=60.0)
NEAR = 1 + 2e-3
# Multiples of all work up to which a period is looked for at least.
FAR = 100.0


def all_work(problem: Problem) -> float:
    rows = problem.costs.values()
    return math.fsum(max(cost.seconds(1) for cost in row.values()) for row in rows)


@pytest.mark.parametrize("first", [0, 1000])
def test_caps(first: int) -> None:
    for seed in range(first, first + 20):
        draw = Random(seed)
        problem = random_problem(draw)
        rows = list(placements(problem))
        load, idle, above = draw.choice(rows) if rows else (1.0, 0.0, 3.0)
        mean = above / load + idle if load else idle
        caps = [mean, mean, idle, (mean + idle) / 2, idle * 1.01, mean * (1 - 1e-7), 1e3]
        watts = draw.choice(caps) or 1.0
        least, same, most = (
            min((shortest(*row, watts * w) for row in rows), default=math.inf)
            for w in (1 + 1e-8, 1 + 1e-12, 1 - 1e-8)
        )
        try:
            found = most_throughput(problem, watts, QUICK)
        except UsageError:
            assert least in (0.0, math.inf), seed
            continue
        except InfeasibleError as refused:
            assert least == math.inf or not refused.proven, seed
            assert most > FAR * all_work(problem), seed
            continue
        assert found.watts <= watts * (1 + 1e-8), seed
        assert least * (1 - 1e-9) <= found.period <= most * NEAR, seed
        assert found.bound <= min(same, found.period) * (1 + 1e-9), seed
        assert check_schedule(problem, found.schedule) == [], seed


@pytest.mark.parametrize("first", [0, 1000])
def test_rates(first: int) -> None:
    for seed in range(first, first + 20):
        draw = Random(seed)
        problem = random_problem(draw)
        rows = list(placements(problem))
        load = draw.choice(rows)[0] if rows else 1.0
        period = draw.choice([1, 1, 1 + 1e-7, 1 - 1e-7, 1 - 1e-5, 1.5, 4]) * load or THIRD
        least, most = (
            min((above + idle * period for s, idle, above in rows if s <= period * p),
                default=math.inf)
            for p in (1 + 2e-9, 1.0)
        )  # fmt: skip
        try:
            found = least_energy(problem, period, QUICK)
        except UsageError:
            assert all(row[0] in (0.0, math.inf) for row in rows) or period > 1e5 * min(
                cost.seconds(1) for row in problem.costs.values() for cost in row.values()
            ), seed
            continue
        except InfeasibleError as refused:
            assert least == math.inf or not refused.proven, seed
            assert most == math.inf, seed
            continue
        assert found.schedule.value <= period * (1 + 2e-9), seed
        assert least * (1 - 1e-9) - 1e-12 <= found.joules <= most * NEAR + 1e-9, seed
        assert found.bound <= least * (1 + 1e-9) + 1e-12, seed
        assert check_schedule(problem, found.schedule) == [], seed


def test_batches() -> None:
    for seed in range(20):
        draw = Random(seed)
        problem = replace(random_problem(draw), objective=Objective("energy"))
        try:
            with limited(20_000):
                alone = brute_force(replace(problem, objective=Objective("latency")))
                shorter = draw.choice([1, 1, 1.3, 2, 1 - 1e-6, 0.9])
                period = (alone * shorter if alone < math.inf else 0.0) or 1.0
                best = brute_force(over_period(problem, period))
        except Exhausted:
            continue
        try:
            timed, found = batch_energy(problem, period, QUICK)
        except InfeasibleError:
            assert best == math.inf, seed
            continue
        assert check_schedule(timed, found) == [], seed
        assert found.lower_bound <= best * (1 + 1e-9) + 1e-12, seed
        assert best * (1 - 1e-9) - 1e-12 <= found.value <= best * NEAR + 1e-9, seed
