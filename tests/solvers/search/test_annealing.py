"""Annealing against brute force, its starts, and its promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tests.solvers.native.test_library import random_graph
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.lists import heft
from tvm_hetero.solvers.native import library as native
from tvm_hetero.solvers.native import search_library
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.solvers.native.start import divided_as, start_of
from tvm_hetero.solvers.search import annealing
from tvm_hetero.views.instance import Instance

# So few steps that no clock cuts them off, however busy the machine is.
QUICK = counted(time_limit=60.0)
KINDS = ("latency", "throughput", "energy", "cost")


@pytest.fixture(scope="module", autouse=True)
def few_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annealing, "STEPS_PER_SECOND", 10_000)
        patch.setattr(annealing, "LOAD_STEPS_PER_SECOND", 10_000)
        yield


def gap(problem: Problem) -> float | None:
    """By how much annealing misses the optimum; None where there is nothing to find."""
    optimum = brute_force(problem)
    try:
        answer = annealing.solve(problem, QUICK)
    except HeteroError:
        return None
    assert check_schedule(problem, answer) == []
    assert answer.value >= optimum * (1 - 1e-9)
    return answer.value / optimum - 1 if optimum > 0 else answer.value


@pytest.mark.parametrize("kind", KINDS)
def test_optimal_on_nearly_all_small_problems(kind: str) -> None:
    gaps: list[float] = []

    @settings(max_examples=draws(36, least=36), derandomize=True)
    @given(problems(5, kinds=(kind,)))
    def collect(problem: Problem) -> None:
        found = gap(problem)
        assume(found is not None)
        gaps.append(found or 0.0)

    collect()
    assert len(gaps) >= 30
    assert sum(g > 1e-6 for g in gaps) <= 0.05 * len(gaps)


def test_near_optimal_where_memory_binds() -> None:
    gaps: list[float] = []

    @settings(max_examples=draws(36, least=36), derandomize=True)
    @given(problems(4, max_devices=2, memory=True, kinds=("latency", "energy")))
    def collect(problem: Problem) -> None:
        assume(any(Instance(problem).memory_binds))
        found = gap(problem)
        assume(found is not None)
        gaps.append(found or 0.0)

    collect()
    assert sum(g > 1e-6 for g in gaps) <= 0.1 * len(gaps)


@settings(max_examples=draws(36))
@given(problems(6, kinds=("latency", "energy"), batch=3, memory=True))
def test_a_start_is_decoded_as_good_as_it_was(problem: Problem) -> None:
    try:
        start = heft.solve(problem, QUICK)
    except HeteroError:
        assume(False)
    instance = divided_as(problem, start)
    decoded = NativeSearch(instance).decode(*start_of(instance, start))
    # A tensor that lives for no time at all needs no memory; the library counts it nevertheless.
    lasting = all(e.end > e.start for e in start.executions)
    if lasting and all(len(instance.route(j, k, 4) or ()) <= 1 for j in range(3) for k in range(3)
                       if max(j, k) < len(instance.names)):  # fmt: skip
        assert decoded.excess == 0
        assert decoded.value <= start.value * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_cores(kind: str) -> None:
    problem = random_graph(3, 40, 3, overlap=False)
    devices = tuple(replace(d, watts=5.0, idle_watts=1.0, price=3.0) for d in
                    problem.platform.devices)  # fmt: skip
    problem = replace(
        problem, platform=replace(problem.platform, devices=devices), objective=Objective(kind)
    )
    runs = [
        annealing.solve(problem, replace(QUICK, seed=seed, workers=workers))
        for seed, workers in ((5, 1), (5, 3), (6, 1))
    ]
    assert runs[0] == runs[1]
    assert runs[0].value <= heft.solve(problem, QUICK).value
    if kind == "latency":
        assert runs[0].executions != runs[2].executions


def test_a_latency_limit_is_kept() -> None:
    devices = tuple(
        Device(f"p{i}", overlap=True, watts=watts) for i, watts in ((1, 10.0), (2, 1.0))
    )
    fast = Platform(devices, (Link("p1", "p2"), Link("p2", "p1")))
    costs = {f"t{i}": {"p1": 1.0, "p2": 2.0} for i in range(6)}
    problem = problem_of(costs, [], fast, Objective("energy", 1, 6.0))
    answer = solve(problem, "annealing", QUICK)
    # Three on the frugal device fill the limit; the others take the fast one.
    assert answer.value == 3 * 2.0 * 1.0 + 3 * 1.0 * 10.0


def test_a_divided_start_stays_divided() -> None:
    problem = fork_join(2).with_objective(Objective("latency", 2))
    halves = Instance(problem, {task.id: [(0,), (1,)] for task in problem.tasks})
    search = NativeSearch(halves)
    found = search.anneal([0] * len(halves), halves.order, evaluations=20_000)
    assert found.value < annealing.solve(problem, QUICK).value
    whole = solve(problem, "annealing", replace(QUICK, start=_schedule(search, found)))
    assert whole.value == found.value


def _schedule(search: NativeSearch, found: native.NativeAnswer):
    schedule = annealing.schedule_of(search, found, QUICK)
    assert schedule is not None
    return schedule


def test_it_is_registered_and_beats_heft() -> None:
    answer = solve(topcuoglu(), "annealing", QUICK)
    assert answer.value == 73.0


def test_a_missing_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(search_library, "LIBRARY", tmp_path / "none.so")
    native._library.cache_clear()
    search_library.search_library.cache_clear()
    with pytest.raises(SolverError, match="make setup"):
        annealing.solve(fork_join(2), QUICK)
    assert not native.available()
    monkeypatch.undo()
    native._library.cache_clear()
    search_library.search_library.cache_clear()
    assert native.available()


@pytest.mark.parametrize("kind", KINDS)
def test_degenerate_problems(kind: str) -> None:
    device = Device("p1", watts=1.0, price=1.0)
    for costs, edges in (
        ({"a": {"p1": 0.0}}, []),
        ({"a": {"p1": 2.0}}, []),
        ({"a": {"p1": 0.0}, "b": {"p1": 0.0}}, [("a", "b", 0)]),
    ):
        problem = problem_of(costs, edges, Platform((device,)), Objective(kind))
        answer = annealing.solve(problem, QUICK)
        assert check_schedule(problem, answer) == []
        assert math.isfinite(answer.value)


def test_many_devices_and_many_parts_fit() -> None:
    wide = problem_of(
        {f"t{i}": {f"p{d}": 1.0 for d in range(1, 101)} for i in range(200)},
        [(f"t{i}", f"t{i + 100}", 8 + i) for i in range(100)],
        processors(100, bandwidth=64.0),
    )
    instance = Instance(wide)
    found = NativeSearch(instance).anneal([0] * 200, instance.order, evaluations=200_000)
    assert found.value < 20.0
