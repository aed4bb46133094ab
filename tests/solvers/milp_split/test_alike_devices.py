"""Devices that can change places: ends of modules are looked at by class, and nothing is lost."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of
from tvm_hetero.check import verified
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.lists.partial_schedule import of_schedule
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import modules_of

OPTIONS = counted(time_limit=20.0)


def alike(count: int, *, exclusive: bool = False, overlap: bool = True) -> Platform:
    """A host and so many accelerators that are alike."""
    devices = [Device(name, overlap=overlap) for name in ("host", *map(str, range(count)))]
    return Platform(tuple(devices), fabrics=(Fabric("node0", 4.0, 0.5, exclusive=exclusive),))


def forks(widths: list[int], seconds: list[float], platform: Platform) -> Problem:
    """Modules of so many branches; the host takes another time than the accelerators."""
    number = iter(range(10**6))
    accelerators = platform.names[1:]

    def row() -> dict[str, float]:
        i = next(number)
        host, other = seconds[i % len(seconds)], seconds[(i + 1) % len(seconds)]
        return {"host": host} | dict.fromkeys(accelerators, other)

    table, edges = {"c0": row()}, []
    for m, width in enumerate(widths):
        for b in range(width):
            table[f"m{m}b{b}"] = row()
            edges += [(f"c{m}", f"m{m}b{b}", 2), (f"m{m}b{b}", f"c{m + 1}", 1 + b)]
        table[f"c{m + 1}"] = row()
    return problem_of(table, edges, platform)


@settings(max_examples=draws(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seconds=st.lists(st.sampled_from([1.0, 1.5, 2.0, 4.0, 7.0]), min_size=3, max_size=5),
    widths=st.sampled_from([[2, 1], [1, 2], [3]]),
    exclusive=st.booleans(),
    overlap=st.booleans(),
)
def test_latency_equals_brute_force(
    seconds: list[float], widths: list[int], exclusive: bool, overlap: bool
) -> None:
    problem = forks(widths, seconds, alike(2, exclusive=exclusive, overlap=overlap))
    answer = verified(problem, solve(problem, "milp-split", OPTIONS))
    assert answer.value == pytest.approx(brute_force(problem), rel=1e-9)
    assert answer.status == "optimal"


def test_eight_accelerators_and_a_host_have_the_entries_of_two_classes() -> None:
    instance = Instance(forks([3, 4], [1.0, 1.5, 2.0], alike(8)))
    chain = TableChain(instance, modules_of(instance))
    assert [len(table.entries) for table in chain.tables] == [2, 4, 4]


def test_modules_are_joined_where_the_one_before_ended() -> None:
    # Every module's best solution begins on the first accelerator and most end on another one.
    problem = forks([5, 5, 5, 5], [9.0, 2.0, 9.5, 2.5, 8.0, 3.0, 7.5], alike(4, exclusive=True))
    answer = verified(problem, split.solve(problem, OPTIONS))
    assert answer.status == "optimal"
    instance = Instance(problem)
    found = split.solve_instance(instance, OPTIONS, CpsatBudget(10.0, math.inf))
    assert found.best.value == pytest.approx(answer.value, rel=1e-9)


def test_a_solution_on_any_of_them_is_kept_by_module() -> None:
    problem = forks([4, 5], [9.0, 2.0, 8.0, 2.5, 7.0], alike(3, exclusive=True))
    instance = Instance(problem)
    known = split.solve_instance(instance, OPTIONS, CpsatBudget(10.0, math.inf)).best
    # All accelerators one further.
    turned = {"host": "host", "0": "1", "1": "2", "2": "0"}
    schedule = verified(problem, split.solve(problem, OPTIONS))
    executions = [replace(e, device=turned[e.device]) for e in schedule.executions]
    copies = [replace(c, src=turned[c.src], dst=turned[c.dst]) for c in schedule.copies]
    other = verified(problem, replace(schedule, executions=tuple(executions), copies=tuple(copies)))
    start = of_schedule(instance, other)
    assert start is not None
    chain = TableChain(instance, modules_of(instance))
    chain.take(start)
    assert chain.best(low=False)[0] == pytest.approx(known.value, rel=1e-12)
