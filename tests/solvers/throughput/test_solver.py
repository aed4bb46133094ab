"""Throughput, free and in contiguous stages, against every placement there is."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.bounds.throughput.chain import chain_bound
from tvm_hetero.bounds.throughput.share_program import share_bound
from tvm_hetero.check import check_schedule, verified
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError, UsageError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.graph import Edge, TaskGraph
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.stage_dp import device_sets, ideals_dp, linear_dp, stage_dp
from tvm_hetero.solvers.stage_dp.ideals_dp import all_ideals
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.stages import solver as stages
from tvm_hetero.solvers.throughput import solver as throughput
from tvm_hetero.solvers.throughput.join_neighbours import join_neighbours
from tvm_hetero.solvers.throughput.solver import divide_evenly
from tvm_hetero.solvers.timing.device_loads import exact_value, is_pipeline
from tvm_hetero.views.instance import Instance

SLACK = st.sampled_from([1.0, 1.0, 1.25, 3.0])
QUICK = counted(time_limit=2.0)
PIPELINE = Objective("throughput", contiguous=True)
many = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))


def chain(length: int, devices: int = 2, objective: Objective = PIPELINE) -> Problem:
    """Tasks of 1 s in a line; copies of half a second that block both ends."""
    costs = {f"t{i}": {f"p{k}": 1.0 for k in range(1, devices + 1)} for i in range(length)}
    edges = [(f"t{i}", f"t{i + 1}", 8) for i in range(length - 1)]
    platform = processors(devices, overlap=False, latency=0.5)
    return problem_of(costs, edges, platform, objective)


def diamonds(count: int, devices: int) -> Problem:
    """Forks and joins in a row, of unlike lengths."""
    costs, edges = {}, []
    for i in range(count):
        for j, name in enumerate("abcd"):
            seconds = 1.0 + (3 * i + 5 * j) % 7
            costs[f"{name}{i}"] = {f"p{k}": seconds * k for k in range(1, devices + 1)}
        edges += [(f"a{i}", f"b{i}", 8), (f"a{i}", f"c{i}", 8)]
        edges += [(f"b{i}", f"d{i}", 8), (f"c{i}", f"d{i}", 8)]
        if i:
            edges.append((f"d{i - 1}", f"a{i}", 8))
    return problem_of(costs, edges, processors(devices, overlap=False, latency=0.25), PIPELINE)


def valid(problem: Problem, answer: Schedule) -> Schedule:
    """The answer as the judge sees it."""
    assert check_schedule(problem, verified(problem, answer)) == []
    return verified(problem, answer)


# --- contiguous stages -----------------------------------------------------------------------


@many
@given(
    problem=problems(
        max_tasks=5, kinds=["throughput"], memory=True, feasible=False, contiguous=True
    )
)
def test_stages_are_the_best_there_are(problem: Problem) -> None:
    best = brute_force(problem)
    if best == math.inf:
        with pytest.raises(InfeasibleError):
            solve(problem, "stages", QUICK)
        return
    answer = solve(problem, "stages", QUICK)
    assert answer.value == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert answer.status == "optimal"


@few
@given(problem=problems(max_tasks=6, kinds=["throughput"], memory=True, contiguous=True))
def test_every_solver_makes_pipelines_and_claims_no_more_than_is_true(problem: Problem) -> None:
    best = brute_force(problem)
    for solver in ("ideals-dp", "linear-dp", "heft", "throughput", "cpsat"):
        answer = solve(problem, solver, QUICK)
        assert check_schedule(problem, answer) == []
        assert answer.lower_bound <= best * (1 + 1e-9)
        assert answer.value >= best * (1 - 1e-9)


@few
@given(
    problem=problems(
        max_tasks=2, max_devices=2, kinds=["throughput"], batch=2, contiguous=True, memory=True
    )
)
def test_batches_in_stages_claim_no_more_than_is_true(problem: Problem) -> None:
    answer = solve(problem, "stages", QUICK)
    best = brute_force(problem)
    assert answer.lower_bound <= best * (1 + 1e-9)
    assert answer.value >= best * (1 - 1e-9)


def test_a_chain_is_cut_in_the_middle() -> None:
    answer = valid(chain(6), ideals_dp.solve(chain(6), QUICK))
    assert (answer.value, answer.status) == (3.5, "optimal")
    assert len(answer.copies) == 1


def test_a_chain_has_one_ideal_more_than_tasks() -> None:
    assert len(all_ideals(Instance(chain(50)))) == 51


def test_side_by_side_the_ideals_multiply_until_the_solver_gives_up() -> None:
    # Each of the branches may be in or out: 2^width, the empty set and everything.
    assert len(all_ideals(Instance(fork_join(6)))) == 2**6 + 2
    wide = fork_join(16).with_objective(PIPELINE)
    with pytest.raises(SolverError, match="ideals are left"):
        ideals_dp.solve(wide, QUICK)
    assert valid(wide, stages.solve(wide, QUICK)).value <= linear_dp.solve(wide, QUICK).value


def test_equal_devices_are_counted_not_named() -> None:
    # Eight devices by name would have 256 subsets and 40,320 orders.
    problem = chain(200, devices=8)
    answer = valid(problem, ideals_dp.solve(problem, QUICK))
    # Ends of one copy and middles of two: 200 + 7 is the least sum of loads.
    assert answer.status == "optimal"
    assert 200 / 8 < answer.value <= 26.0


def test_stages_of_unlike_devices_are_proven_across_diamonds() -> None:
    problem = diamonds(12, 3)
    answer = valid(problem, ideals_dp.solve(problem, QUICK))
    assert answer.status == "optimal"
    assert linear_dp.solve(problem, QUICK).value >= answer.value


@many
@given(problem=problems(max_tasks=6, kinds=["throughput"], memory=True, contiguous=True))
def test_sets_of_ways_to_use_devices_agree_with_the_table(problem: Problem) -> None:
    family = all_ideals(Instance(problem))
    # At most three devices, so eight ways to use them.
    chain = stage_dp.run(family)
    value, found = device_sets.least(family, math.inf)
    assert value == chain.value
    loads = []
    for kind, before, last in found:
        later, row = family.row(before, math.inf)
        loads.append(float(row[kind, list(later).index(last)]))
    assert max(loads, default=value) == value
    assert [before for _, before, _ in found[1:]] == [last for _, _, last in found[:-1]]
    for k, kind in enumerate(family.kinds):
        assert sum(1 for used, _, _ in found if used == k) <= len(kind.devices)
    known = device_sets.least(family, value * (1 - 1e-6))
    assert known[0] == math.inf or value == 0


def test_eight_unlike_devices_are_proven_at_once() -> None:
    answer = valid(diamonds(12, 8), solve(diamonds(12, 8), "ideals-dp", QUICK))
    assert answer.status == "optimal"


def test_what_lies_between_tasks_of_one_color_shares_their_stage() -> None:
    problem = chain(4)
    tasks = [replace(t, color="c" if t.id in ("t0", "t2") else None) for t in problem.tasks]
    graph = type(problem.graph)(tasks, problem.graph.edges)
    colored = replace(problem, graph=graph)
    answer = valid(colored, ideals_dp.solve(colored, QUICK))
    assert len({answer.placement[f"t{i}"] for i in range(3)}) == 1
    assert answer.value == 3.5


def test_memory_decides_where_a_stage_ends() -> None:
    problem = chain(4)
    devices = (replace(problem.platform.devices[0], memory=24), problem.platform.devices[1])
    tight = replace(problem, platform=replace(problem.platform, devices=devices))
    graph = type(tight.graph)([replace(t, weight_bytes=8) for t in tight.tasks], tight.graph.edges)
    tight = replace(tight, graph=graph)
    # One task takes 8 bytes of weights and 8 of output; two take 32.
    answer = valid(tight, ideals_dp.solve(tight, QUICK))
    assert sorted(answer.placement.values()).count(("p1",)) == 1
    assert (answer.value, answer.status) == (3.5, "optimal")


def test_stages_that_fit_nowhere() -> None:
    problem = chain(6)
    devices = tuple(replace(device, memory=20) for device in problem.platform.devices)
    tight = replace(problem, platform=replace(problem.platform, devices=devices))
    with pytest.raises(InfeasibleError, match="no placement keeps within memory"):
        solve(tight, "stages", QUICK)


@pytest.mark.parametrize("solver", ["ideals-dp", "linear-dp", "stages", "throughput"])
def test_other_objectives_are_refused(solver: str) -> None:
    with pytest.raises(UsageError, match="serves throughput, not latency"):
        {
            "ideals-dp": ideals_dp,
            "linear-dp": linear_dp,
            "stages": stages,
            "throughput": throughput,
        }[solver].solve(fork_join(3), QUICK)  # type: ignore[attr-defined]


def test_pipelines_are_told_from_circles() -> None:
    instance = Instance(chain(4))
    assert is_pipeline(instance, [0, 0, 1, 1])
    assert not is_pipeline(instance, [0, 1, 0, 0])
    assert exact_value(instance, [0, 1, 0, 0]) == math.inf
    free = Instance(chain(4, objective=Objective("throughput")))
    assert exact_value(free, [0, 1, 0, 0]) == 4.0


def test_long_orders_are_cut_at_some_places_only() -> None:
    instance = Instance(chain(1500, devices=3))
    plan = linear_plan(instance)
    assert plan is not None
    assert exact_value(instance, plan) <= 500 + 2 + 1


def test_of_many_tensors_fewer_places_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(chain(40, devices=2))
    monkeypatch.setattr(linear_dp, "_MOST_ENTRIES", 39 * 4)  # four stages of ten tasks
    plan = linear_plan(instance)
    assert plan is not None
    changes = [i for i in range(39) if plan[i] != plan[i + 1]]
    assert changes == [19]
    monkeypatch.setattr(linear_dp, "_MOST_ENTRIES", 39)  # one: no place to change
    assert len(set(linear_plan(instance) or [])) == 1


# --- free placement --------------------------------------------------------------------------


@many
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True, feasible=False))
def test_free_placement_is_the_best_there_is(problem: Problem) -> None:
    best = brute_force(problem)
    if best == math.inf:
        with pytest.raises(HeteroError):
            throughput.solve(problem, QUICK)
        return
    answer = valid(problem, throughput.solve(problem, QUICK))
    assert answer.value == pytest.approx(best, rel=1e-9, abs=1e-12)


@few
@given(problem=problems(max_tasks=2, max_devices=2, kinds=["throughput"], batch=3, memory=True))
def test_divided_batches_claim_no_more_than_is_true(problem: Problem) -> None:
    answer = valid(problem, throughput.solve(problem, QUICK))
    best = brute_force(problem)
    assert answer.value >= best * (1 - 1e-9)
    assert answer.lower_bound <= best * (1 + 1e-9)


@many
@given(problem=problems(max_tasks=4, kinds=["throughput"], memory=True, exact=False))
def test_shares_are_not_above_the_optimum(problem: Problem) -> None:
    value, weights = share_bound(Instance(problem))
    assert value <= brute_force(problem) * (1 + 1e-9)
    assert (weights >= 0).all()


@few
@given(problem=problems(max_tasks=2, max_devices=2, kinds=["throughput"], batch=2, memory=True))
def test_shares_of_batches_are_not_above_the_optimum(problem: Problem) -> None:
    assert share_bound(Instance(problem))[0] <= brute_force(problem) * (1 + 1e-9)


@many
@given(problem=problems(max_tasks=4, kinds=["throughput"], memory=True, exact=False), slack=SLACK)
def test_chains_are_not_above_the_optimum(problem: Problem, slack: float) -> None:
    order = problem.graph.topological_order
    line = [Edge(a, b, 8, f"{a}>{b}") for a, b in pairwise(order)]
    tasks = [replace(task, output_bytes=10**6) for task in problem.tasks]
    graph = TaskGraph(tasks, [*problem.graph.edges, *line])
    problem = replace(problem, graph=graph)
    best = brute_force(problem)
    assume(best < math.inf)
    instance = Instance(problem)
    _, weights = share_bound(instance)
    assert chain_bound(instance, best * slack, weights) <= best * (1 + 1e-9)


def test_chains_know_that_devices_must_change() -> None:
    instance = Instance(chain(80, devices=8, objective=Objective("throughput")))
    shares, weights = share_bound(instance)
    # No device may do more than 12 s of work, so there are six cuts or more, of 0.5 s at two ends.
    assert chain_bound(instance, 12.0, weights) >= shares + 6 * 1.0 / 8 - 0.1
    assert chain_bound(Instance(fork_join(4)), 12.0, weights[:2]) == 0.0


def test_shares_of_equal_devices_are_one_kind() -> None:
    # 10 s of work and no way around it: an eighth each, whatever is copied.
    value, weights = share_bound(Instance(chain(10, devices=8, objective=Objective("throughput"))))
    assert value == pytest.approx(10 / 8)
    assert weights == pytest.approx([1 / 8] * 8)


def test_memory_pushes_shares_off_the_quick_device() -> None:
    costs = {f"t{i}": {"p1": 1.0, "p2": 9.0} for i in range(4)}
    platform = processors(2)
    devices = (replace(platform.devices[0], memory=16), platform.devices[1])
    weights = dict.fromkeys(costs, 8)
    problem = problem_of(
        costs,
        [],
        replace(platform, devices=devices),
        Objective("throughput"),
        weight_bytes=weights,
    )
    # Two of the four fit on p1; the others take 9 s each.
    assert share_bound(Instance(problem))[0] == pytest.approx(18.0)
    assert solve(problem, "throughput", QUICK).value == 18.0


def test_an_exclusive_link_carries_what_must_cross() -> None:
    costs = {f"s{i}": {"p1": 0.0} for i in range(3)} | {f"r{i}": {"p2": 0.0} for i in range(3)}
    edges = [(f"s{i}", f"r{i}", 8) for i in range(3)]
    platform = processors(2, latency=2.0, exclusive=True)
    costs["s0"]["p1"] = 1.0
    problem = problem_of(costs, edges, platform, Objective("throughput"))
    assert share_bound(Instance(problem))[0] == pytest.approx(6.0)


def test_a_batch_is_shared_by_elements() -> None:
    costs = {"a": {"p1": 1.0, "p2": 1.0}}
    problem = problem_of(costs, [], processors(2), Objective("throughput", 8))
    answer = solve(problem, "throughput", QUICK)
    assert (answer.value, answer.status) == (4.0, "optimal")
    assert [len(part) for part in divide_evenly(problem)["a"]] == [4, 4]


def test_tidying_removes_copies_that_gain_nothing() -> None:
    problem = replace(
        chain(7, objective=Objective("throughput")), platform=processors(2, overlap=True)
    )
    instance = Instance(problem)
    zigzag = [0, 1, 0, 1, 0, 1, 0]
    tidy = join_neighbours(instance, zigzag)
    crossings = sum(a != b for a, b in pairwise(tidy))
    assert exact_value(instance, tidy) == exact_value(instance, zigzag) == 4.0
    assert crossings <= 3


def test_the_same_seed_gives_the_same_bytes() -> None:
    free, uncut = Objective("throughput"), replace(QUICK, deadline=1000.0)
    for problem in (diamonds(3, 3), diamonds(2, 2).with_objective(free)):
        first, second = (solve(problem, "throughput", uncut) for _ in range(2))
        assert first.dumps(canonical=True) == second.dumps(canonical=True)


def test_starts_along_an_order_leave_time_to_anneal(monkeypatch):
    """Those along an order are told when they have to end."""
    told = []
    monkeypatch.setattr(throughput, "linear_plan", lambda instance, deadline: told.append(deadline))
    end = time.monotonic() + 1e6
    throughput._starts(
        Instance(chain(3, objective=Objective("throughput"))), QUICK, CpsatBudget(1, end)
    )
    assert told and all(deadline < end - 5e4 for deadline in told)


def test_copies_of_thousands_of_tasks_are_in_the_bound_of_a_limit_of_some_seconds() -> None:
    # 10,408 rows for copies. Limits below 30 s had only 10,000, and a gap of 65 % for it.
    problem = zoo.problem("layered", "h100x8-serial", Objective("throughput"), tasks=1300)
    instance = Instance(problem)
    without = share_bound(instance)[0]
    assert share_bound(instance, throughput.rows_within(15.0))[0] > 2 * without
    assert throughput.rows_within(1.0) < throughput.rows_within(15.0)
    assert throughput.rows_within(1e9) == throughput.rows_within(30.0)
