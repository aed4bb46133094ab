"""Sets of ways to use devices: largest stages suffice, in C++ as in Python."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero.errors import SolverError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.native import stages as native_stages
from tvm_hetero.solvers.stage_dp import device_sets
from tvm_hetero.solvers.stage_dp.ideals_dp import all_ideals
from tvm_hetero.solvers.stage_dp.stage_dp import StageTable
from tvm_hetero.views.ideals import IdealFamily
from tvm_hetero.views.instance import Instance

PIPELINE = Objective("throughput", contiguous=True)
many = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))


def scattered(seed: int, tasks: int = 9, devices: int = 4) -> Problem:
    """A thin random graph on unlike devices with copy engines; two of them are alike."""
    draw = random.Random(seed)
    rates = [draw.choice((1.0, 1.5, 3.0)) for _ in range(devices - 1)]
    rates.append(rates[-1])
    costs, edges = {}, []
    for i in range(tasks):
        seconds = draw.uniform(0.1, 2.0)
        row = {f"p{k + 1}": seconds * rate for k, rate in enumerate(rates)}
        if i % 4 == 3:
            del row["p1"]  # not every device runs everything
        costs[f"t{i}"] = row
        edges += [(f"t{j}", f"t{i}", 8) for j in range(i) if draw.random() < 0.2]
    return problem_of(costs, edges, processors(devices), PIPELINE)


def by_table(family: IdealFamily) -> float:
    """The least value, by the table that tries all stages."""
    table = StageTable(family)
    for i in range(len(family) - 1):
        table.extend(i, *family.row(i, math.inf))
    return table.best().value


@pytest.mark.parametrize("seed", range(30))
def test_largest_stages_suffice_where_only_work_counts(seed: int) -> None:
    family = all_ideals(Instance(scattered(seed)))
    assert family.additive
    value, chain = device_sets.least(family, math.inf)
    assert value == pytest.approx(by_table(family), rel=1e-9)
    loads = [float((family.work[j] - family.work[i])[k]) for k, i, j in chain]
    assert max(loads) == pytest.approx(value)
    assert device_sets.least(family, value * (1 - 1e-6)) == (math.inf, ())


@pytest.mark.parametrize("seed", range(5))
def test_few_tasks_against_all_placements(seed: int) -> None:
    problem = scattered(seed, tasks=6, devices=3)
    value, _ = device_sets.least(all_ideals(Instance(problem)), math.inf)
    assert value == pytest.approx(brute_force(problem), rel=1e-9)


def test_what_is_beyond_an_ideal_is_the_quickest_block_that_it_allows() -> None:
    costs = {"a": {"p1": 3.0}, "b": {"p1": 1.0, "p2": 5.0}, "c": {"p1": 2.0, "p2": 2.0}}
    family = all_ideals(Instance(problem_of(costs, [("b", "c", 8)], processors(2), PIPELINE)))
    work = {tuple(row): i for i, row in enumerate(family.ideals.tolist())}
    first = next(row for row in work if not any(row))
    # p1 can start with b, p2 with nothing else; p2 cannot run a, so after b, c is all it can do.
    assert family.beyond()[:, work[first]] == pytest.approx([1.0, 5.0])
    assert family.beyond()[:, -1].tolist() == [math.inf, math.inf]


@many
@given(
    problem=problems(max_tasks=6, kinds=["throughput"], memory=True, contiguous=True),
    part=st.floats(0.3, 1.0),
)
def test_the_library_says_what_python_says(problem: Problem, part: float) -> None:
    if not native_stages.available():
        pytest.skip("the search library is not built")
    family = all_ideals(Instance(problem))
    assume(len(family) > 1)
    search = device_sets._DeviceSetSearch(family)
    most = part * float(family.work[-1].max() + family.arrive.sum() + family.leave.sum())
    search.look(-math.inf, most, math.inf)
    assert search.reach(most, math.inf) == search._reach(most, math.inf)


def test_without_the_library_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    family = all_ideals(Instance(scattered(3)))
    known = device_sets.least(family, math.inf)
    monkeypatch.setattr(native_stages, "available", lambda: False)
    assert device_sets.least(family, math.inf) == known


def test_the_clock_is_looked_at() -> None:
    family = all_ideals(Instance(scattered(3)))
    with pytest.raises(SolverError, match="no time is left"):
        device_sets.least(family, math.inf, deadline=0.0)
    search = device_sets._DeviceSetSearch(family)
    search.look(-math.inf, math.inf, math.inf)
    if search.native is not None:
        with pytest.raises(SolverError, match="no time is left"):
            search.native.reach(math.inf, -1.0)


def test_stages_that_lead_nowhere_are_refused() -> None:
    if not native_stages.available():
        pytest.skip("the search library is not built")
    one = np.ones(1)
    stages = native_stages.NativeStages(
        np.ones((1, 1), np.uint64), [1], [0, 1, 1], [0], [7], one, one * 2
    )
    with pytest.raises(SolverError, match="code 1"):
        stages.reach(1.0, 1.0)
