"""Samples of costs, and what a plan is worth in them: the judge's value of the retimed plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.check.value import objective_value
from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.lists import best_single, heft
from tvm_hetero.solvers.robust.evaluate import values_of
from tvm_hetero.solvers.robust.samples import FRESH, TRAINING, Samples
from tvm_hetero.solvers.robust.solver import retime_for

KINDS = ("latency", "throughput", "energy", "cost")


def unlimited(problem: Problem) -> Problem:
    return problem.with_objective(replace(problem.objective, latency_limit=None))


@settings(max_examples=draws(50), derandomize=True)
@given(problems(5, kinds=KINDS, batch=3, memory=True, contiguous=True), st.sampled_from([0.1, 0.9]))
def test_every_value_is_what_the_judge_says_of_the_retimed_plan(
    problem: Problem, share: float
) -> None:
    try:
        plan = heft.solve(problem, counted())
    except HeteroError:
        assume(False)
    samples = Samples(share, 3, seed=5)
    found = values_of(problem, plan, samples)
    free, late = unlimited(problem), 0
    for value, sample in zip(found.values, samples.problems(problem), strict=True):
        same = replace(plan, problem=free.digest)
        again = retime_for(free, same, unlimited(sample))
        assert check_schedule(unlimited(sample), again) == []
        assert value == pytest.approx(
            objective_value(sample, again.executions, again.copies), rel=1e-9, abs=1e-12
        )
        limit = problem.objective.latency_limit
        late += limit is not None and max(e.end for e in again.executions) > limit * (1 + 1e-9)
    assert found.late == late


@settings(max_examples=draws(25), derandomize=True)
@given(problems(5, kinds=KINDS, batch=2))
def test_right_costs_give_the_plans_own_value_or_less(problem: Problem) -> None:
    plan = best_single.solve(problem, counted())
    found = values_of(problem, plan, Samples(0.0, 2))
    assert found.late == 0
    assert found.mean == found.worst <= plan.value * (1 + 1e-9)
    if problem.objective.kind == "throughput":
        assert found.mean == pytest.approx(plan.value)


def test_a_chain_takes_the_sum_of_its_samples() -> None:
    problem = problem_of({"a": {"p1": 2.0}, "b": {"p1": 3.0}}, [("a", "b", 8)], processors(1))
    samples = Samples(0.25, 50)
    found = values_of(problem, best_single.solve(problem, counted()), samples)
    sums = [
        float(factor[0, 0]) * 2.0 + float(factor[1, 0]) * 3.0
        for factor in (samples.factors(problem, s) for s in range(50))
    ]
    assert found.values == pytest.approx(sums)
    assert found.worst == max(found.values) and found.mean == pytest.approx(sum(sums) / 50)


def test_many_samples_in_blocks_are_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = fork_join(4)
    plan = heft.solve(problem, counted())
    whole = values_of(problem, plan, Samples(0.2, 7))
    monkeypatch.setattr("tvm_hetero.solvers.robust.evaluate._ROOM", 2 * 9)
    assert values_of(problem, plan, Samples(0.2, 7)) == whole


def test_factors_stay_within_the_share_and_depend_on_all_that_they_should() -> None:
    problem = fork_join(100)
    one = Samples(0.3, 1, seed=1).factors(problem, 0)
    assert one.shape == (102, 2)
    assert 0.7 <= one.min() < 0.72 and 1.28 < one.max() <= 1.3
    assert abs(one.mean() - 1) < 0.05
    assert np.array_equal(one, Samples(0.3, 9, seed=1).factors(problem, 0))
    for other in (Samples(0.3, 1, seed=2), Samples(0.3, 1, seed=1, stream=TRAINING)):
        assert not np.array_equal(one, other.factors(problem, 0))
    assert not np.array_equal(one, Samples(0.3, 2, seed=1).factors(problem, 1))
    assert Samples(0.3, 1).stream == FRESH


def test_a_factor_is_the_same_for_every_batch_size() -> None:
    problem = fork_join(2).with_objective(Objective(batch=4))
    samples = Samples(0.5, 1)
    sample, factor = samples.perturbed(problem, 0), samples.factors(problem, 0)
    for n in (1, 2, 4):
        for i, task in enumerate(problem.tasks):
            for d, name in enumerate(problem.platform.names):
                expected = problem.seconds(task.id, name, n) * factor[i, d]
                assert sample.seconds(task.id, name, n) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("share", "count", "says"),
    [(1.0, 5, "below 1"), (-0.1, 5, "from 0"), (float("nan"), 5, "nan"), (0.1, 0, "1 to 100000")],
)
def test_samples_that_make_no_sense_are_refused(share: float, count: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Samples(share, count)
