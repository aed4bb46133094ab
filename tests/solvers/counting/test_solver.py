"""The count-based program: optimal on chains where segments are, valid everywhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from tests.bounds.throughput.test_patterns import layers
from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tests.views.test_symmetry import chain_on, cluster
from tvm_hetero.check import verified
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.counting import solver as count_dp
from tvm_hetero.solvers.counting.cpsat_counts import count_plan, kinds_of, realise
from tvm_hetero.solvers.counting.dp_table import CountTable
from tvm_hetero.solvers.run_solver import solve
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.machine_counts import TaskLine, machines_of


@pytest.mark.parametrize("kind", ["latency", "throughput"])
@pytest.mark.parametrize("overlap", [True, False])
def test_layers_on_two_fast_devices_and_a_slow_one(kind, overlap):
    problem = layers(6, kind, overlap=overlap)
    found = verified(problem, count_dp.solve(problem, counted()))
    assert found.value == pytest.approx(brute_force(problem))


def test_machines_are_counted_by_type():
    nodes = [{"cpu": 1, "gpu": 2}, {"gpu": 4}, {"cpu": 1, "gpu": 2}]
    machines = machines_of(Instance(chain_on(cluster(nodes), {"cpu": 4.0, "gpu": 1.0})))
    assert [(len(m.nodes), m.counts) for m in machines] == [(2, (1, 2)), (1, (4,))]
    assert machines[0].nodes[1] == ((7,), (8, 9))


def test_the_table_is_the_schedule_on_a_chain():
    problem = layers(6)
    instance = Instance(problem)
    line = TaskLine(instance)
    table = CountTable(line, machines_of(instance), steady=False)
    best = table.best()
    assert best is not None
    placement = line.placed(table.homes(best[1]))
    seconds = sum(instance.seconds[v][d] for v, d in enumerate(placement))
    changes = sum(a != b for a, b in pairwise(placement))
    assert best[0] == pytest.approx(seconds + 0.25 * changes)
    assert best[0] == pytest.approx(brute_force(problem))


def test_identical_nodes_are_states_and_not_names():
    """Twelve nodes: the table has a row for each count, so this takes no time at all."""
    problem = chain_on(cluster([{"gpu": 1}] * 12), {"gpu": 1.0}, 24)
    devices = tuple(replace(d, memory=2) for d in problem.platform.devices)
    tasks = tuple(replace(t, weight_bytes=1, output_bytes=0) for t in problem.tasks)
    edges = tuple(replace(e, bytes=0) for e in problem.graph.edges)
    problem = replace(
        problem,
        graph=type(problem.graph)(tasks, edges),
        platform=replace(problem.platform, devices=devices),
    )
    found = solve(problem, "count-dp", counted())
    assert found.value == pytest.approx(24 + 11 * 1e-5)
    assert len({e.device for e in found.executions}) == 12
    assert found.value - found.lower_bound <= 0.001 * found.value


def test_for_throughput_the_best_placement_comes_first_and_those_far_behind_are_left(monkeypatch):
    """A slow machine ends after the first."""
    problem = layers(6, "throughput")
    instance = Instance(problem)
    slow, good = [2] * 6, [0, 0, 1, 1, 2, 2]
    monkeypatch.setattr(count_dp, "_placements", lambda *_: iter([slow, good]))
    assert [p for _, p in count_dp._in_turn(instance, counted())] == [good, slow]
    carried = []

    def schedule(instance, placement, options):
        carried.append(placement)
        return count_dp._steady(instance, placement, options)

    monkeypatch.setattr(count_dp, "_schedule", schedule)
    assert count_dp.solve(problem, counted()).value == 8.0
    assert carried == [good]


def test_a_plan_counts_every_task_once():
    problem = layers(6)
    line = TaskLine(Instance(problem))
    machines = machines_of(Instance(problem))
    kinds = kinds_of(line, machines)
    plan = count_plan(line, machines, kinds, counted())
    assert plan == {(0, 0): 2, (1, 0): 2, (2, 0): 2}
    assert sorted(realise(line, kinds, plan)) == [0, 0, 1, 1, 2, 2]


def test_an_atom_that_no_device_can_run_is_said_and_no_crash():
    """The color of a and c holds b between them: the atom is for no device."""
    graph = TaskGraph(
        [Task("a", color="red"), Task("b"), Task("c", color="red")],
        [Edge("a", "b", 1), Edge("b", "c", 1)],
    )
    cost = Cost(((1, 1.0),))
    costs = {"a": {"p1": cost}, "b": {"p2": cost}, "c": {"p1": cost}}
    problem = Problem(graph, costs, processors(2))
    with pytest.raises(SolverError, match="found no division"):
        count_dp.solve(problem, counted())


def test_other_objectives_are_refused_by_name():
    problem = layers(2)
    devices = tuple(replace(d, watts=1.0) for d in problem.platform.devices)
    problem = replace(
        problem,
        platform=replace(problem.platform, devices=devices),
        objective=Objective("energy"),
    )
    with pytest.raises(SolverError, match="not energy"):
        count_dp.solve(problem, counted())


@settings(max_examples=draws(40), deadline=None)
@given(problems(5, 3, kinds=("latency", "throughput"), batch=2, memory=True))
def test_what_it_finds_is_valid(problem):
    try:
        found = count_dp.solve(problem, counted(time_limit=5))
    except (SolverError, InfeasibleError):
        return
    assert verified(problem, found).value >= found.lower_bound


def test_the_memory_of_a_stop_on_the_way_counts():
    """Both tensors at once are too much for the hub that they pass."""
    p1, p2, hub = (Device(name, overlap=True) for name in ("p1", "p2", "hub"))
    links = (Link("p1", "hub", 8.0, 0.0), Link("hub", "p2", 8.0, 0.0))
    costs = {"a": {"p1": 1.0}, "b": {"p1": 1.0}, "c": {"p2": 1.0}}

    def found(room: int) -> Schedule:
        platform = Platform((p1, p2, replace(hub, memory=room)), links)
        problem = problem_of(costs, [("a", "c", 80), ("b", "c", 80)], platform)
        return verified(problem, count_dp.solve(problem, counted()))

    assert found(160).value == pytest.approx(1 + 1 + 10 + 10 + 1)
    with pytest.raises(SolverError, match="found no division"):
        found(159)


def test_the_same_bytes_again():
    problem = layers(8)
    assert count_dp.solve(problem, counted()) == count_dp.solve(problem, counted())


def test_idle_devices_that_are_alike_are_not_exchanged():
    """A list scheduler tries the first of those that are alike; here each part has its own."""
    problem = chain_on(cluster([{"gpu": 2}] * 2), {"gpu": 1.0})
    homes = [[3], [1], [2]]
    executions, _ = count_dp._carried_out(Instance(problem), homes)
    names = problem.platform.names
    assert [e.device for e in executions] == [names[3], names[1], names[2]]
