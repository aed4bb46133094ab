"""Bounds under memory limits by modules: never above the optimum, and exact where it is plain."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounds.throughput.test_patterns import layers
from tests.brute_force import brute_force
from tests.draws import draws
from tests.fuzz.small_problems import small_problem
from tests.solvers.examples import counted, problem_of
from tests.strategies import problems
from tvm_hetero.bounds import bound_ladder
from tvm_hetero.bounds.core.module_choices import find_undominated
from tvm_hetero.bounds.memory.prices_and_labels import MemoryBoundSearch, memory_bound, memory_chain
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.exhaustive import solver as exhaustive
from tvm_hetero.views.instance import Instance, instance_of

WORK = 400_000


def unlike_layers(fast: int | None) -> Instance:
    """A chain of four layers; the fast device saves most where weights are largest."""
    costs = {f"l{i}": {"fast": 1.0, "slow": slow} for i, slow in enumerate([2.0, 5.0, 3.0, 6.0])}
    edges = [(a, b, 0) for a, b in pairwise(costs)]
    weights = {f"l{i}": w for i, w in enumerate([1, 4, 2, 5])}
    platform = Platform(
        (Device("fast", memory=fast), Device("slow")), fabrics=(Fabric("node0", math.inf, 0.25),)
    )
    return Instance(problem_of(costs, edges, platform, weight_bytes=weights))


@pytest.mark.parametrize("memory", [0, 1, 2, 4, 5, 6, 7, 8, 9, 11])
def test_exact_on_a_chain_without_activations(memory):
    instance = unlike_layers(memory)
    optimum = brute_force(instance.problem)
    assert memory_bound(instance, 1.5 * optimum, WORK) == pytest.approx(optimum)


def test_the_ways_are_placements_that_fit():
    instance = unlike_layers(6)
    chain = memory_chain(instance, 40.0)
    assert chain is not None
    search = MemoryBoundSearch(chain, 40.0, WORK)
    search.run()
    placement = chain.placement(search.ways[0])
    assert sum(w for w, d in zip(instance.weights, placement, strict=True) if d == 0) <= 6
    assert search.ways[0].seconds == pytest.approx(search.bound)


def test_activations_take_room_from_weights():
    """One byte each way leaves 6 of 8 bytes: as if the limit were 6, but for the ends."""
    problem = unlike_layers(8).problem
    edges = tuple(replace(edge, bytes=1) for edge in problem.graph.edges)
    tasks = tuple(replace(task, output_bytes=int(task.id != "l3")) for task in problem.tasks)
    problem = replace(problem, graph=type(problem.graph)(tasks, edges))
    optimum = brute_force(problem)
    bound = memory_bound(Instance(problem), 1.5 * optimum, WORK)
    assert memory_bound(unlike_layers(8), 40.0, WORK) < bound <= optimum
    assert bound == pytest.approx(optimum)


def test_two_limited_devices_share_the_layers():
    problem = layers(6)
    optimum = brute_force(problem)
    bound = memory_bound(Instance(problem), 2 * optimum, WORK)
    assert 12 < bound <= optimum
    assert bound == pytest.approx(optimum)


def test_nothing_to_say_without_limits_or_a_value():
    assert memory_bound(unlike_layers(None), 40.0) == 0.0
    assert memory_bound(unlike_layers(4), math.inf) == 0.0


def test_what_cannot_be_below_is_the_value_itself():
    instance = unlike_layers(4)
    optimum = brute_force(instance.problem)
    assert memory_bound(instance, optimum, WORK) == pytest.approx(optimum)
    assert memory_bound(instance, 0.9 * optimum, WORK) == pytest.approx(0.9 * optimum)


@settings(max_examples=draws(50), deadline=None)
@given(problems(4, 2, kinds=("latency",), memory=True), st.sampled_from([1.0, 1.1, 2.0]))
def test_never_above_the_optimum(problem, slack):
    optimum = brute_force(problem)
    assert memory_bound(Instance(problem), slack * optimum, 60_000) <= optimum * (1 + 1e-9)


@settings(max_examples=draws(30), deadline=None)
@given(problems(4, 2, kinds=("latency",), memory=True, exact=False))
def test_never_above_the_optimum_with_all_digits(problem):
    optimum = brute_force(problem)
    assert memory_bound(Instance(problem), 1.2 * optimum, 60_000) <= optimum * (1 + 1e-9)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40))
def test_undominated_rows(rows):
    table = np.array(rows, dtype=float)
    kept = find_undominated(table[:, 0], table[:, 1:]).tolist()
    best = {row for row in rows if not any(_beats(other, row) for other in rows)}
    assert {rows[i] for i in kept} == best
    assert len(kept) == len(best)


def _beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def test_the_ladder_has_it_as_a_rung():
    instance = unlike_layers(4)
    optimum = brute_force(instance.problem)
    rungs = {rung.name: rung.value for rung in bound_ladder(instance.problem)}
    assert rungs["memory"] == pytest.approx(optimum)
    assert "memory" not in {rung.name for rung in bound_ladder(unlike_layers(None).problem)}


def test_an_output_that_is_written_in_no_time_at_the_end_needs_no_memory():
    costs = {"a": {"small": 1.0}, "b": {"small": 0.0, "other": 5.0}}
    devices = (Device("small", memory=4), Device("other"))
    platform = Platform(devices, fabrics=(Fabric("node0", math.inf, 0.0),))
    problem = problem_of(costs, [("a", "b", 0)], platform, output_bytes={"a": 0, "b": 8})
    assert brute_force(problem) == 1.0
    assert all(rung.value <= 1.0 for rung in bound_ladder(problem))


def test_what_is_made_later_is_not_there_yet() -> None:
    """Two tensors that no task reads come after the moment at which memory is fullest."""
    folder = Path(__file__).parents[2] / "data" / "small_batches"
    problem = Problem.load(folder / "unread_45031.problem.json")
    best = solve(problem, "exhaustive").value
    assert 0 < memory_bound(instance_of(problem), 1.05 * best) <= best * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(1000, 1400))
def test_never_above_the_optimum_of_random_problems(seed: int) -> None:
    problem = small_problem(seed)
    if problem.batch > 1 or problem.objective.kind != "latency":
        return
    try:
        best = exhaustive.solve(problem, counted(20.0)).value
    except InfeasibleError:
        return
    # 0 where no memory binds.
    assert memory_bound(instance_of(problem), 1.1 * best) <= best * (1 + 1e-9)
