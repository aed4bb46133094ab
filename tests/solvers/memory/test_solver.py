"""Where memory binds: valid plans with a true bound, near the optimum on short memories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.bounds.memory.test_memory_chain import unlike_layers
from tests.bounds.throughput.test_patterns import layers
from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.check import verified
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.memory import solver as memory_limits
from tvm_hetero.solvers.run_solver import solve

SHORT = counted(time_limit=1.0)


def limited(name: str, share: float) -> Problem:
    """A network whose two accelerators hold a share of the weights each."""
    problem = zoo.problem(name, "sched-nvl")
    weights = sum(task.weight_bytes for task in problem.tasks)
    host, *others = problem.platform.devices
    devices = (host, *(replace(d, memory=int(share * weights)) for d in others))
    return replace(problem, platform=replace(problem.platform, devices=devices))


@pytest.mark.parametrize("memory", [1, 4, 6, 9])
def test_a_chain_of_unlike_layers_is_proven(memory):
    problem = unlike_layers(memory).problem
    found = solve(problem, "memory", SHORT)
    assert found.value == pytest.approx(brute_force(problem))
    assert found.status == "optimal"


def test_layers_that_segments_do_not_fit():
    """Contiguous segments leave part of every memory empty; the cheapest plan does not."""
    problem = layers(7)
    found = solve(problem, "memory", SHORT)
    assert found.value == pytest.approx(brute_force(problem))
    assert found.value - found.lower_bound <= 0.05 * found.value


def test_gap_on_a_network_of_which_a_quarter_fits():
    problem = limited("light-vgg19", 0.25)
    found = solve(problem, "memory", counted(time_limit=4.0))
    assert found.value - found.lower_bound <= 0.05 * found.value


@pytest.mark.parametrize("kind", ["energy", "cost"])
def test_other_objectives_have_a_start_as_well(kind):
    problem = unlike_layers(5).problem
    devices = tuple(replace(d, watts=2.0, price=1.0) for d in problem.platform.devices)
    platform = replace(problem.platform, devices=devices)
    problem = replace(problem, platform=platform, objective=Objective(kind))
    found = solve(problem, "memory", SHORT)
    assert found.value == pytest.approx(brute_force(problem))


def test_throughput_goes_to_its_own_solver():
    problem = layers(6, "throughput")
    assert solve(problem, "memory", SHORT).value == pytest.approx(brute_force(problem))


@settings(max_examples=draws(25), deadline=None)
@given(problems(4, 2, kinds=("latency", "energy", "cost"), memory=True))
def test_valid_and_bounded(problem):
    options = counted(time_limit=0.2)
    optimum = brute_force(problem)
    try:
        found = verified(problem, memory_limits.solve(problem, options))
    except SolverError as error:
        assert "too little" in str(error) or "latency limit" in str(error)
        return
    assert found.lower_bound <= optimum * (1 + 1e-9)
    assert found.value >= optimum * (1 - 1e-9)


@settings(max_examples=draws(25), deadline=None)
@given(problems(4, 2, kinds=("latency",), memory=True, feasible=False))
def test_infeasible_is_never_answered(problem):
    optimum = brute_force(problem)
    try:
        found = solve(problem, "memory", counted(time_limit=0.2))
    except (InfeasibleError, SolverError):
        return
    assert found.value >= optimum * (1 - 1e-9)


@pytest.mark.slow
def test_the_same_bytes_again():
    problem = limited("light-squeezenet", 0.5)
    # Work is counted, so the limit must be far from what it takes on a busy machine.
    options = counted(time_limit=4.0)
    assert memory_limits.solve(problem, options) == memory_limits.solve(problem, options)


def test_activations_that_no_placement_holds_are_proven_infeasible():
    """All weights fit, and every task alone; but where one runs there is no room for the rest."""
    problem = unlike_layers(None).problem
    devices = tuple(replace(d, memory=8) for d in problem.platform.devices)
    edges = tuple(replace(edge, bytes=2) for edge in problem.graph.edges)
    tasks = tuple(replace(t, output_bytes=2 * (t.id != "l3")) for t in problem.tasks)
    problem = replace(
        problem,
        graph=type(problem.graph)(tasks, edges),
        platform=replace(problem.platform, devices=devices),
    )
    assert brute_force(problem) == float("inf")
    with pytest.raises(InfeasibleError, match=r"proven.*device .* too little"):
        solve(problem, "memory", SHORT)
