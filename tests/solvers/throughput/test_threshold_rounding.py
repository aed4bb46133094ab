"""Shares of groups cut at one threshold, and annealing from them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.bounds.throughput.share_program import ALL_ROWS, share_program
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.native import library as native
from tvm_hetero.solvers.search.load_annealing import anneal_loads, annealed_cut
from tvm_hetero.solvers.throughput.solver import divide_evenly
from tvm_hetero.solvers.throughput.threshold_rounding import share_cut
from tvm_hetero.solvers.timing.device_loads import Loads, exact_value
from tvm_hetero.views.instance import Instance

FREE = Objective("throughput")
QUICK = counted(time_limit=0.1)
many = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))


def chains(count: int, length: int) -> Problem:
    """Chains of tasks of 1 to 1.2 s on two unlike devices; every copy takes both 3 s."""
    costs = {
        f"t{i}.{j}": {"p1": 1.0 + 0.1 * (j % 3), "p2": 1.2 - 0.1 * (j % 3)}
        for i in range(count)
        for j in range(length)
    }
    edges = [
        (f"t{i}.{j}", f"t{i}.{k}", 8) for i in range(count) for j, k in pairwise(range(length))
    ]
    platform = processors(2, overlap=False, latency=3.0)
    return problem_of(costs, edges, platform, FREE)


@many
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True))
def test_cuts_are_placements(problem: Problem) -> None:
    instance = Instance(problem)
    plan = share_cut(instance, share_program(instance, ALL_ROWS))
    if plan is None:
        return
    assert all(plan[v] in instance.devices[v] for v in range(len(instance)))
    assert brute_force(problem) <= exact_value(instance, plan) * (1 + 1e-9) < math.inf


def test_a_cut_keeps_chains_whole() -> None:
    instance = Instance(chains(4, 6))
    plan = share_cut(instance, share_program(instance, ALL_ROWS))
    assert plan is not None
    index = {task: v for v, task in enumerate(instance.tasks)}
    moved = [
        (i, j)
        for i in range(4)
        for j in range(5)
        if plan[index[f"t{i}.{j}"]] != plan[index[f"t{i}.{j + 1}"]]
    ]
    assert len(moved) <= 1


def test_devices_of_one_kind_are_not_told_apart() -> None:
    costs = {f"t{i}": {"p1": 1.0, "p2": 1.0} for i in range(4)}
    platform = processors(2, overlap=False, latency=1.0)
    instance = Instance(problem_of(costs, [("t0", "t1", 8)], platform, FREE))
    assert share_cut(instance, share_program(instance, ALL_ROWS)) is None


def test_cuts_are_near_the_bound_on_layered_graphs() -> None:
    instance = Instance(zoo.problem("layered", "diviml-serial", FREE, tasks=300))
    shares = share_program(instance, ALL_ROWS)
    plan = share_cut(instance, shares)
    assert plan is not None
    assert exact_value(instance, plan) <= 2 * shares.value
    found = annealed_cut(instance, plan, shares.value, counted(time_limit=1.0), 10.0)
    assert found is not None
    assert exact_value(instance, found) <= 1.1 * shares.value


def test_without_the_library_single_moves_mend_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise SolverError("no library")

    instance = Instance(chains(3, 4))
    plan = [v % 2 for v in range(len(instance))]
    monkeypatch.setattr(native, "NativeSearch", missing)
    found = annealed_cut(instance, plan, 1.0, QUICK, 1.0)
    assert found == anneal_loads(instance, plan, 1.0, QUICK, 1.0)
    assert found is not None
    assert exact_value(instance, found) < exact_value(instance, plan)


@many
@given(
    problem=problems(
        max_tasks=5, kinds=["throughput"], memory=True, batch=2, feasible=False, exact=False
    ),
    data=st.data(),
)
def test_a_whole_placement_is_valued_as_by_moves(problem: Problem, data: st.DataObject) -> None:
    try:
        instance = Instance(problem, divide_evenly(problem))
    except InfeasibleError:
        assume(False)
    placement = [0] * len(instance)
    for group in instance.groups:
        device = data.draw(st.sampled_from(instance.devices[group[0]]))
        for v in group:
            placement[v] = device
    loads = Loads(instance)
    for group in instance.groups:
        loads.move(group, placement[group[0]])
    fits = not loads.overflow() and all(loads.reachable(group) for group in instance.groups)
    expected = loads.profile()[0] if fits else math.inf
    assert exact_value(instance, placement) == pytest.approx(expected, rel=1e-9, abs=1e-12)
