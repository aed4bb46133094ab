"""Tasks with an energy of their own: who knows them finds the best, and the others refuse."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.strategies import problems
from tvm_hetero.bounds import bound_ladder, lower_bound
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import FormatError, HeteroError, SolverError, UsageError
from tvm_hetero.planning.power import batch_energy, most_throughput
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.report.schedule.explain import explain
from tvm_hetero.solvers import Options, names, solve
from tvm_hetero.solvers.registry import knows_energies
from tvm_hetero.util.documents import canonical_json

quickly = settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
QUICK = Options(5.0, deadline=60.0)


def two_tasks(joules: float = 1.0, kind: str = "energy", batch: int = 1) -> Problem:
    """Two tasks in a row that both devices run in a second for 10 J; on `b` the second draws less.

    To go there takes a second of nobody's.
    """
    devices = tuple(Device(name, watts=10.0, idle_watts=1.0, overlap=True) for name in "ab")
    platform = Platform(devices, fabrics=(Fabric("node0", 1.0, 0.0),))
    second = Cost(((1, 1.0),))
    costs = {
        "s": {"a": second},
        "t": {"a": second, "b": replace(second, energy=((1, joules),))},
    }
    graph = TaskGraph([Task("s", output_bytes=1), Task("t")], [Edge("s", "t", 1)])
    return Problem(graph, costs, platform, Objective(kind, batch))  # type: ignore[arg-type]


def test_a_task_goes_where_it_draws_least_if_that_is_worth_the_idling() -> None:
    # With t on b both devices idle for two of three seconds, and s draws 10 J.
    for joules, expected in ((1.0, 10.0 + 2 + 1.0 + 2), (5.9, 19.9), (6.1, 20.0)):
        found = solve(two_tasks(joules), "auto", QUICK)
        assert found.value == pytest.approx(expected) and found.status == "optimal"


def test_devices_that_differ_in_energies_alone_are_not_alike() -> None:
    pair = tuple(Device(name, watts=10.0) for name in "ab")
    cost = {"a": Cost(((1, 1.0),)), "b": Cost(((1, 1.0),), energy=((1, 2.0),))}
    graph = TaskGraph([Task("t")], [])
    problem = Problem(graph, {"t": cost}, Platform(pair), Objective("energy"))
    for name in ("single", "cpsat", "auto"):
        found = solve(problem, name, QUICK)
        assert found.value == 2.0 and found.best_single_device is not None
        assert found.best_single_device.device == "b"


@quickly
@given(problem=problems(max_tasks=4, max_devices=2, kinds=["energy"], feasible=False,
                        energies=True))  # fmt: skip
def test_cpsat_and_auto_find_the_least_energy(problem: Problem) -> None:
    best = brute_force(problem)
    for name in ("cpsat", "auto"):
        try:
            answer = solve(problem, name, QUICK)
        except HeteroError:
            assert best == float("inf")
            continue
        assert answer.value == pytest.approx(best, rel=1e-6)
        assert answer.lower_bound <= best * (1 + 1e-9) + 1e-12
    assert lower_bound(problem) <= best * (1 + 1e-9)


@quickly
@given(problem=problems(max_tasks=3, max_devices=3, kinds=["energy"], teams=True, energies=True))
def test_energies_on_teams(problem: Problem) -> None:
    """Shares of a core are thousandths of a watt; where they are none, no bound is claimed."""
    answer, best = solve(problem, "cpsat", QUICK), brute_force(problem)
    assert answer.lower_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= answer.value <= best * (1 + 2e-3) + 1e-9


@quickly
@given(problem=problems(max_tasks=3, max_devices=2, kinds=["energy"], batch=3, memory=True,
                        energies=True))  # fmt: skip
def test_bounds_hold_for_divided_batches_with_memory(problem: Problem) -> None:
    best = brute_force(problem)
    for rung in bound_ladder(problem):
        assert rung.value <= best * (1 + 1e-9), rung.name
    answer = solve(problem, "auto", QUICK)
    assert best * (1 - 1e-9) <= answer.value and answer.lower_bound <= best * (1 + 1e-9)


@settings(max_examples=draws(5), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=3, max_devices=2, kinds=["energy"], energies=True))
def test_every_solver_answers_rightly_or_refuses(problem: Problem) -> None:
    best = brute_force(problem)
    for name in names():
        if not knows_energies(name, problem):
            with pytest.raises(SolverError, match="not energies of single tasks; use one of"):
                solve(problem, name, QUICK)
            continue
        answer = solve(problem, name, QUICK)
        assert check_schedule(problem, answer) == []
        assert answer.lower_bound <= best * (1 + 1e-9) + 1e-12
        assert best * (1 - 1e-9) <= answer.value


def test_who_reckons_with_watts_refuses() -> None:
    problem = two_tasks()
    for name in ("annealing", "exhaustive", "milp", "milp-split"):
        with pytest.raises(SolverError, match="leave 'energy' out of the tasks"):
            solve(problem, name, QUICK)
        assert knows_energies(name, problem.with_objective(Objective("latency")))
    with pytest.raises(UsageError, match="leave 'energy' out"):
        most_throughput(problem.with_objective(Objective("throughput")), 20.0, QUICK)


def test_a_batch_in_its_period_counts_what_tasks_draw() -> None:
    problem = two_tasks()
    timed, schedule = batch_energy(problem, 10.0, QUICK)
    assert check_schedule(timed, schedule) == []
    # On a alone: 20 J, and 8 s of idling. On both: 11 J, and 9 s of idling each.
    assert schedule.value == pytest.approx(min(20.0 + 8, 11.0 + 18))
    timed, schedule = batch_energy(problem, 3.0, QUICK)
    assert schedule.value == pytest.approx(15.0)


def test_a_task_that_would_be_faster_would_draw_less() -> None:
    problem = two_tasks()
    helps = {
        help.what: help.saved for help in explain(problem, solve(problem, "auto", QUICK)).helps
    }
    # A tenth of t's own joule, and of what both idle for a tenth of a second less or more.
    assert helps["task t"] == pytest.approx(0.1 * 1.0 + 0.1 * 1.0)


def test_less_than_idling_is_no_energy() -> None:
    with pytest.raises(FormatError, match="less than the 1 J that idling takes"):
        two_tasks(0.5)


def test_energies_are_read_and_written_and_part_of_the_digest() -> None:
    problem = two_tasks(2.5)
    document = problem.to_dict()
    assert document["tasks"][1]["energy"] == {"b": 2.5}
    again = Problem.from_dict(document)
    assert again.costs["t"]["b"].energy == ((1, 2.5),) and again.digest == problem.digest
    assert two_tasks(2.6).digest != problem.digest
    text = canonical_json(document).encode("utf-8")
    assert problem.digest == hashlib.sha256(text).hexdigest()
    document["tasks"][1]["energy"] = {"b": {"1": 2.5, "4": 9.0}}
    assert Problem.from_dict(document).costs["t"]["b"].joules(2, None) == pytest.approx(4.667, 1e-3)
    for energy, words in (
        ({"c": 1.0}, "no cost on 'c'"),
        ({"a": -1.0}, "expected"),
        ({"a": {}}, "the table is empty"),
        ({"a": 0.0}, "idling takes"),
    ):
        document["tasks"][1]["energy"] = energy
        with pytest.raises(FormatError, match=words):
            Problem.from_dict(document)
