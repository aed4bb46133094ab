"""MILP-SPLIT: as good as one model of everything, and never a proof that is not one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.check import verified
from tvm_hetero.errors import HeteroError, InfeasibleError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.graph import TaskGraph
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.cpsat.batch import solve_whole
from tvm_hetero.solvers.lists.partial_schedule import list_schedule, of_schedule
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Piece, cut_is_exact, modules_of

QUICK = counted(time_limit=20.0)
# Where memory binds, all of the limit's steps are annealed; a false proof would be as false.
BRIEF = counted(time_limit=1.0)
quickly = settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
TWO = {"p1": 1.0, "p2": 1.0}


def chain_of_forks(widths: list[int], costs: list[float], overlap: bool = True) -> Problem:
    """c0, then for every width so many branches that join in the next c; costs in turn."""
    number = iter(range(10**6))

    def row() -> dict[str, float]:
        i = next(number)
        return {"p1": costs[i % len(costs)], "p2": costs[(i + 1) % len(costs)]}

    table, edges = {"c0": row()}, []
    for m, width in enumerate(widths):
        for b in range(width):
            table[f"m{m}b{b}"] = row()
            edges += [(f"c{m}", f"m{m}b{b}", 8), (f"m{m}b{b}", f"c{m + 1}", 16)]
        table[f"c{m + 1}"] = row()
    return problem_of(table, edges, processors(2, overlap=overlap, bandwidth=64.0))


@quickly
@given(problem=problems(max_tasks=5, max_devices=2))
def test_latency_equals_brute_force(problem: Problem) -> None:
    answer = solve(problem, "milp-split", QUICK)
    best = brute_force(problem)
    assert answer.value == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert answer.status == "optimal"


@settings(quickly, max_examples=draws(25))
@given(problem=problems(max_tasks=4, feasible=False, memory=True))
def test_never_a_false_proof_with_memory_and_missing_links(problem: Problem) -> None:
    best = brute_force(problem)
    assume(best < float("inf"))
    answer = solve(problem, "milp-split", BRIEF)
    assert answer.lower_bound <= best * (1 + 1e-9)
    assert answer.value >= best * (1 - 1e-9)


@settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=3, max_devices=2, batch=2))
def test_batches_claim_no_more_than_is_true(problem: Problem) -> None:
    best = brute_force(problem)
    answer = verified(problem, split.solve(problem, QUICK))
    assert answer.lower_bound <= best * (1 + 1e-9)
    assert answer.value >= best * (1 - 1e-9)


@quickly
@given(
    widths=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    costs=st.lists(st.integers(1, 9).map(float), min_size=3, max_size=7),
    overlap=st.booleans(),
)
def test_modules_joined_are_one_model(widths: list[int], costs: list[float], overlap: bool) -> None:
    problem = chain_of_forks(widths, costs, overlap)
    instance = Instance(problem)
    parts = verified(problem, split.solve(problem, QUICK))
    whole = solve_whole(instance, QUICK, None, CpsatBudget(10.0, float("inf")))
    assert parts.value == pytest.approx(whole.value, rel=1e-9)
    assert parts.status == "optimal"


@quickly
@given(problem=problems(max_tasks=8))
def test_the_chain_of_list_schedules_is_valid_and_bounded(problem: Problem) -> None:
    """Whatever was solved when work runs out, value and bound enclose the optimum."""
    instance = Instance(problem)
    assume(cut_is_exact(instance))
    budget = CpsatBudget(0.0, float("inf"))
    answer = split.solve_instance(instance, QUICK, budget)
    exact = solve_whole(instance, QUICK, None, CpsatBudget(10.0, float("inf")))
    assert answer.low <= exact.value * (1 + 1e-9)
    assert answer.best.value >= exact.value * (1 - 1e-9)
    assert answer.best.value <= list_schedule(instance).value * (1 + 1e-12)


def test_colors_across_a_cut_join_its_modules() -> None:
    edges = [("a", "b", 4), ("b", "c", 4), ("c", "d", 4)]
    costs = {"a": {"p1": 1.0, "p2": 9.0}, "b": TWO, "c": TWO, "d": {"p1": 9.0, "p2": 1.0}}
    problem = problem_of(costs, edges, processors(2, bandwidth=8.0), color={"a": "red", "d": "red"})
    instance = Instance(problem)
    assert [len(m.parts) for m in modules_of(instance)] == [4]
    answer = solve(problem, "milp-split", QUICK)
    assert (answer.value, answer.status) == (12.0, "optimal")


def test_equal_modules_have_one_table() -> None:
    problem = chain_of_forks([6] * 40, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    instance = Instance(problem)
    chain = TableChain(instance, modules_of(instance))
    # Seven tasks a module and seven costs: all alike, but for the lone first task.
    assert (len(chain.tables), chain.distinct) == (41, 2)
    answer = solve(problem, "milp-split", QUICK)
    assert answer.status == "optimal"


def test_any_number_of_workers_gives_the_same_bytes() -> None:
    problem = chain_of_forks([7, 5, 8], [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.0, 3.5])
    one = split.solve(problem, counted(time_limit=4.0, workers=1))
    two = split.solve(problem, counted(time_limit=4.0, workers=2))
    assert (one.executions, one.copies, one.lower_bound) == (
        two.executions,
        two.copies,
        two.lower_bound,
    )


def test_never_worse_than_the_start() -> None:
    problem = topcuoglu()
    best = solve(problem, "cpsat", QUICK)
    answer = solve(problem, "milp-split", counted(time_limit=0.01, start=best))
    assert answer.value == best.value == 73.0


def test_a_divided_batch_is_cut_between_its_whole_tasks() -> None:
    costs = dict.fromkeys("abcd", TWO)
    edges = [("a", "b", 4), ("b", "c", 4), ("c", "d", 4)]
    problem = problem_of(costs, edges, processors(2), Objective("latency", 2))
    halves = {task: [[0], [1]] for task in "bc"}
    instance = Instance(problem, halves)
    answer = split.solve_instance(instance, QUICK, CpsatBudget(5.0, float("inf")))
    assert answer.modules == 2
    # a and d take 2 s each, the two halves of b and c run beside each other.
    assert answer.best.value == pytest.approx(6.0)
    assert answer.low == pytest.approx(6.0)


def test_what_cannot_be_cut_goes_to_cpsat() -> None:
    problem = topcuoglu().with_objective(Objective("throughput", contiguous=True))
    answer = solve(problem, "milp-split", QUICK)
    assert answer.value == solve(problem, "cpsat", QUICK).value


@settings(max_examples=draws(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    widths=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    costs=st.lists(st.integers(1, 9).map(float), min_size=3, max_size=7),
    share=st.sampled_from([0.6, 0.7, 0.9]),
)
def test_latency_within_memory_equals_exhaustive(
    widths: list[int], costs: list[float], share: float
) -> None:
    problem = chain_of_forks(widths, costs)
    tasks = [replace(task, weight_bytes=64) for task in problem.tasks]
    graph = TaskGraph(tasks, problem.graph.edges)
    total = 64 * len(tasks) + sum(t.bytes for t in graph.tensors.values())
    devices = tuple(replace(d, memory=int(share * total)) for d in problem.platform.devices)
    problem = replace(problem, graph=graph, platform=replace(problem.platform, devices=devices))
    assume(any(Instance(problem).memory_binds))
    try:
        best = solve(problem, "exhaustive", QUICK)
    except InfeasibleError:
        with pytest.raises(HeteroError):
            split.solve(problem, counted(time_limit=0.5))
        return
    answer = verified(problem, split.solve(problem, counted(time_limit=0.5)))
    assert answer.value == pytest.approx(best.value, rel=1e-9)
    assert answer.lower_bound <= best.value * (1 + 1e-9)


@quickly
@given(problem=problems(max_tasks=6, feasible=True))
def test_a_schedule_comes_back_from_its_positions(problem: Problem) -> None:
    heft = solve(problem, "heft", QUICK)
    found = of_schedule(Instance(problem), heft)
    assert found is None or found.value <= heft.value * (1 + 1e-12)
    assert found is not None or len(heft.executions) != len(problem.tasks)


def test_a_piece_of_a_graph_solves_alone() -> None:
    problem = chain_of_forks([3, 3], [1.0, 2.0, 4.0])
    instance = Instance(problem)
    module = modules_of(instance)[1]
    piece = Piece(instance, module.parts).pinned({0: 1}, [0])
    found = list_schedule(piece)
    assert found.placement[0] == 1
    assert found.times[0] == (0.0, 0.0)
