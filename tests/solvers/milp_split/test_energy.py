"""MILP-SPLIT for energy and cost: sets of devices and chains of columns against everything."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import verified
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Kind, Objective, Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.milp_split.cost import least_cost
from tvm_hetero.solvers.milp_split.energy import OnDevices, least_energy
from tvm_hetero.solvers.milp_split.energy_columns import energy_chain
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import cut_is_exact

QUICK = counted(time_limit=6.0)
many = settings(max_examples=draws(30), deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def forks(draw: st.DrawFn, kind: Kind = "energy") -> Problem:
    """One to three modules of one to three branches on two devices, with watts and prices."""
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    time, size = st.integers(1, 9).map(float), st.sampled_from([0, 8, 16, 40])
    costs, edges = {}, []

    def add(name: str) -> None:
        costs[name] = {"p1": draw(time), "p2": draw(time)}

    add("c0")
    for m, width in enumerate(widths):
        whole = draw(size)
        for b in range(width):
            add(f"m{m}b{b}")
            edges += [(f"c{m}", f"m{m}b{b}", whole), (f"m{m}b{b}", f"c{m + 1}", draw(size))]
        add(f"c{m + 1}")
    platform = processors(2, overlap=draw(st.booleans()), bandwidth=16.0)
    devices = tuple(
        replace(
            device,
            watts=draw(st.integers(0, 8)) / 1.0,
            idle_watts=draw(st.integers(0, 3)) / 1.0,
            price=draw(st.integers(0, 8)) * 450.0,
        )
        for device in platform.devices
    )
    platform = Platform(devices, platform.links, platform.fabrics)
    alone = sum(row["p1"] for row in costs.values())
    limit = draw(st.sampled_from([None, alone, 0.8 * alone, 0.6 * alone]))
    return problem_of(costs, edges, platform, Objective(kind, 1, limit))


def by_modules(problem: Problem) -> tuple[float, float]:
    """The value and the bound of the modules alone; no start, no CP-SAT of the whole."""
    instance, budget = Instance(problem), CpsatBudget(5.0, math.inf)
    if problem.objective.kind == "cost":
        best, low = least_cost(instance, QUICK, budget, None)
    else:
        chain = energy_chain(instance)
        assert chain is not None
        best, low = least_energy(chain, QUICK, budget, None)
    if best is None:
        return math.inf, low
    return verified(problem, best).value, low


def assert_exact(problem: Problem) -> None:
    """Modules alone give the least there is, and prove it."""
    value, low = by_modules(problem)
    assert value == pytest.approx(brute_force(problem), rel=1e-9, abs=1e-12)
    if value < math.inf:
        assert value - low <= OPTIMAL_GAP * value


@many
@given(problem=forks())
def test_energy_of_modules_equals_brute_force(problem: Problem) -> None:
    assume(len(problem.tasks) <= 6)
    # Where idling takes more than working, modules have a bound only.
    assume(all(d.idle_watts <= (d.watts or 0.0) for d in problem.platform.devices))
    assert_exact(problem)


@many
@given(problem=forks("cost"))
def test_cost_of_modules_equals_brute_force(problem: Problem) -> None:
    assume(len(problem.tasks) <= 6)
    assert_exact(problem)


def test_a_bound_on_the_limit_does_not_end_the_search() -> None:
    """The free device alone takes 17 s of 16; the best chain by bounds takes exactly the limit."""
    platform = processors(2, bandwidth=16.0)
    devices = tuple(
        replace(device, price=price)
        for device, price in zip(platform.devices, (450.0, 0.0), strict=True)
    )
    costs = {
        "c0": {"p1": 1.0, "p2": 1.0},
        "m0b0": {"p1": 1.0, "p2": 6.0},
        "m0b1": {"p1": 9.0, "p2": 1.0},
        "c1": {"p1": 9.0, "p2": 9.0},
    }
    edges = [(a, b, 0) for a, b in (("c0", "m0b0"), ("c0", "m0b1"), ("m0b0", "c1"), ("m0b1", "c1"))]
    platform = Platform(devices, platform.links, platform.fabrics)
    assert_exact(problem_of(costs, edges, platform, Objective("cost", 1, 16.0)))


@many
@given(problem=problems(max_tasks=4, kinds=["energy", "cost"], max_devices=2))
def test_any_small_problem_equals_brute_force(problem: Problem) -> None:
    answer = solve(problem, "milp-split", QUICK)
    assert answer.value == pytest.approx(brute_force(problem), rel=1e-9, abs=1e-12)
    assert answer.status == "optimal"


@many
@given(problem=problems(max_tasks=4, kinds=["energy", "cost"], memory=True, feasible=False))
def test_never_a_false_proof(problem: Problem) -> None:
    best = brute_force(problem)
    assume(best < math.inf)
    answer = solve(problem, "milp-split", QUICK)
    assert answer.lower_bound <= best * (1 + 1e-9)
    assert answer.value >= best * (1 - 1e-9)
    instance = Instance(problem)
    if cut_is_exact(instance):
        assert by_modules(problem)[1] <= best * (1 + 1e-9)


@few
@given(problem=problems(max_tasks=2, max_devices=2, kinds=["energy", "cost"], batch=2))
def test_of_divided_batches_nothing_is_claimed(problem: Problem) -> None:
    answer = verified(problem, split.solve(problem, QUICK))
    assert answer.lower_bound <= brute_force(problem) * (1 + 1e-9)


def two_links(kind: Kind = "energy") -> Problem:
    """A fork whose copies wait for each other, which the bound of its seconds does not know."""
    costs = {"a": {"p1": 1.0}, "d": {"p1": 1.0}}
    costs |= {name: {"p1": 9.0, "p2": 1.0} for name in ("b", "c")}
    edges = [("a", "b", 16), ("a", "c", 16), ("b", "d", 16), ("c", "d", 16)]
    platform = processors(2, overlap=False, bandwidth=16.0)
    devices = tuple(replace(d, watts=2.0, idle_watts=1.0, price=3600.0) for d in platform.devices)
    platform = Platform(devices, platform.links, platform.fabrics)
    return problem_of(costs, edges, platform, Objective(kind))


def test_seconds_of_columns_that_are_wanted_become_exact() -> None:
    problem = two_links()
    chain = energy_chain(Instance(problem))
    assert chain is not None
    before = [table.seconds.copy() for table in chain.tables]
    best, low = least_energy(chain, QUICK, CpsatBudget(5.0, math.inf), None)
    assert best is not None
    assert best.value == pytest.approx(brute_force(problem))
    assert best.value - low <= OPTIMAL_GAP * best.value
    pairs = zip(before, chain.tables, strict=True)
    assert any((table.seconds > own).any() for own, table in pairs)


def long_chain(modules: int) -> Problem:
    """Equal forks on a device that is quick and one that takes few watts, with a latency limit."""
    costs, edges = {"c0": {"p1": 2.0, "p2": 3.0}}, []
    for m in range(modules):
        costs |= {f"a{m}": {"p1": 4.0, "p2": 5.0}, f"b{m}": {"p1": 3.0, "p2": 2.0}}
        costs[f"c{m + 1}"] = {"p1": 2.0, "p2": 3.0}
        edges += [(f"c{m}", f"{x}{m}", 16) for x in "ab"]
        edges += [(f"{x}{m}", f"c{m + 1}", 8) for x in "ab"]
    platform = processors(2, bandwidth=16.0)
    devices = tuple(
        replace(device, watts=watts, idle_watts=1.0, price=watts * 400.0)
        for device, watts in zip(platform.devices, (9.0, 4.0), strict=True)
    )
    platform = Platform(devices, platform.links, platform.fabrics)
    return problem_of(costs, edges, platform, Objective("energy", 1, 7.5 * modules))


def test_equal_modules_share_their_columns_and_schedules() -> None:
    chain = energy_chain(Instance(long_chain(20)))
    assert chain is not None
    tables = {id(table): table for table in chain.tables}
    # The lone first task, the module after it, those between, the last one.
    assert (len(chain.tables), len(tables)) == (21, 4)
    best, low = least_energy(chain, QUICK, CpsatBudget(5.0, math.inf), None)
    assert best is not None
    assert best.value - low <= OPTIMAL_GAP * best.value
    assert sum(len(table.known) for table in tables.values()) < 40


@pytest.mark.parametrize("kind", ["energy", "cost"])
def test_auto_proves_long_chains_by_modules(kind: Kind) -> None:
    problem = long_chain(40)
    limited = problem.with_objective(replace(problem.objective, kind=kind))
    assert solve(limited, "auto", counted(time_limit=10.0)).status == "optimal"


def test_a_set_that_cannot_keep_the_limit_is_out() -> None:
    problem = two_links().with_objective(Objective("energy", 1, 10.0))
    chain = energy_chain(Instance(problem))
    assert chain is not None
    # On p1 alone everything takes 20 s.
    assert OnDevices(chain, [0]).low == math.inf
    assert OnDevices(chain, [0, 1]).low < math.inf
