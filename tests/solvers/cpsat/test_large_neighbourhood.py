"""Windows: valid, never worse, and better where a start is bad."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.problem import Problem
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.cpsat.large_neighbourhood import (
    NeighbourhoodSearch,
    improve_by_windows,
    keys_of,
)
from tvm_hetero.solvers.lists.partial_schedule import Solution, list_schedule, solution
from tvm_hetero.solvers.timing.orders import Delays
from tvm_hetero.solvers.timing.timing import to_schedule
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import is_connected

OPTIONS = counted(seed=3)


def layered(n: int, seed: int) -> Problem:
    """A random graph without cuts: every task reads from up to three of the ten before it."""
    rng = random.Random(seed)
    costs = {f"t{i}": {p: float(rng.randint(1, 9)) for p in ("p1", "p2", "p3")} for i in range(n)}
    edges = {
        (f"t{u}", f"t{v}", 16) for v in range(3, n) for u in rng.sample(range(max(0, v - 10), v), 3)
    }
    return problem_of(costs, sorted(edges), processors(3, bandwidth=8.0))


def poor(instance: Instance, seed: int) -> Solution:
    """Random devices, topological order."""
    rng = random.Random(seed)
    home = [rng.choice(instance.devices[group[0]]) for group in instance.groups]
    placement = [home[instance.group_of[v]] for v in range(len(instance))]
    keys = [(0.0, 0.0)] * len(instance)
    for p, v in enumerate(instance.order):
        keys[v] = (float(p), float(p))
    return solution(instance, placement, keys, {})


def assert_valid(problem: Problem, found: Solution) -> None:
    executions, copies = to_schedule(found.plan, [start for start, _ in found.times])
    schedule = make_schedule(problem, "windows", executions, copies)
    assert not check_schedule(problem, schedule)
    assert schedule.value == found.value


def test_a_poor_start_gets_much_better() -> None:
    instance = Instance(layered(40, 1))
    start = poor(instance, 1)
    budget = CpsatBudget(1.0, float("inf"))
    found = improve_by_windows(instance, start, OPTIONS, budget, 1.0)
    assert found is not None
    assert found.value < 0.7 * start.value
    assert found.value <= list_schedule(instance).value
    assert_valid(instance.problem, found)


def test_the_same_seed_gives_the_same_times() -> None:
    instance = Instance(layered(30, 2))
    start = list_schedule(instance)
    found = [
        improve_by_windows(instance, start, OPTIONS, CpsatBudget(0.2, float("inf")), 1.0)
        for _ in range(2)
    ]
    assert found[0] is None or found[1] is None or found[0].times == found[1].times
    assert (found[0] is None) == (found[1] is None)


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=8, overlap=True, exclusive=False), seed=st.integers(0, 99))
def test_windows_are_valid_and_never_worse(problem: Problem, seed: int) -> None:
    instance = Instance(problem)
    assume(not instance.contended and is_connected(instance))
    start = poor(instance, seed)
    search = NeighbourhoodSearch(instance, start, OPTIONS)
    assert search.now.makespan <= start.value * (1 + 1e-12)
    before = search.now.makespan
    for _ in range(3):
        search.step(CpsatBudget(1.0, float("inf")), 0.0)
        assert search.now.makespan <= before * (1 + 1e-12)
        before = search.now.makespan
    assert_valid(problem, solution(instance, search.now.place, keys_of(search.now), {}))


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=8, exclusive=False), seed=st.integers(0, 99))
def test_tails_and_ends_meet_on_the_critical_path(problem: Problem, seed: int) -> None:
    instance = Instance(problem)
    assume(not instance.contended and is_connected(instance))
    start = poor(instance, seed)
    delays = Delays(instance)
    now = delays.timed(list(instance.order), list(start.placement))
    tails = delays.tails(now)
    longest = max(end + tail for end, tail in zip(now.end, tails, strict=True))
    assert abs(longest - now.makespan) <= 1e-9 * max(1.0, now.makespan)
