"""Linear programs: their proofs, and what each rung adds on a problem made for it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import fork_join, problem_of, processors
from tvm_hetero.bounds import bound_ladder, lower_bound
from tvm_hetero.bounds.core.linear import LinearProgram
from tvm_hetero.bounds.ladder import chain_of, diviml, program_of
from tvm_hetero.bounds.latency.critical_path import limit_of, path_of
from tvm_hetero.bounds.latency.loads import load_of, maximize_prices
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.views.arrays import figures_of
from tvm_hetero.views.instance import Instance


def program_bound(problem: Problem) -> float:
    figures = figures_of(Instance(problem))
    return program_of(figures, limit_of(figures, path_of(figures)))


def test_a_program_proves_its_optimum() -> None:
    program = LinearProgram()
    x, y = program.variable(4.0, 1.0), program.variable(1.0, 3.0)
    program.equal([(x, 1.0), (y, 2.0)], 3.0)
    program.at_most([(y, -1.0)], -0.25)
    answer = program.solve()
    assert answer.bound == pytest.approx(2.5 + 0.75)
    assert answer.point is not None and answer.point[x] == pytest.approx(2.5)


def test_a_program_without_solution_proves_nothing() -> None:
    program = LinearProgram()
    x = program.variable(1.0, 1.0)
    program.equal([(x, 1.0)], 3.0)
    assert program.solve().bound == -math.inf


@settings(max_examples=draws(30), deadline=None)
@given(rows=st.lists(st.lists(st.floats(0.1, 9.0), min_size=3, max_size=3), min_size=1, max_size=8))
def test_prices_find_the_best_shares(rows: list[list[float]]) -> None:
    program = LinearProgram()
    makespan = program.variable(100.0, 1.0)
    shares = [[program.variable() for _ in row] for row in rows]
    for row in shares:
        program.equal([(x, 1.0) for x in row], 1.0)
    for d in range(3):
        load = [(shares[v][d], rows[v][d]) for v in range(len(rows))]
        program.at_most([*load, (makespan, -1.0)], 0.0)
    assert maximize_prices(np.array(rows)) == pytest.approx(program.solve().bound, rel=1e-6)


def test_prices_of_one_device_and_of_free_tasks() -> None:
    assert maximize_prices(np.array([[1.0], [2.0]])) == 3.0
    assert maximize_prices(np.array([[0.0, 0.0]])) == 0.0
    assert maximize_prices(np.array([[1.0, math.inf], [math.inf, 1.0]])) == pytest.approx(1.0)


def test_diviml_shares_the_work_of_the_best_devices() -> None:
    costs = {f"t{i}": {"p1": 1.0, "p2": 2.0} for i in range(6)}
    figures = figures_of(Instance(problem_of(costs, [], processors(2))))
    assert diviml(figures) == pytest.approx(3.0)
    assert load_of(figures) == pytest.approx(4.0)  # it knows that p2 is slower


def test_the_program_knows_loads_between_fork_and_join() -> None:
    # in, 4 tasks of a second on two devices, out: 1 + 2 + 1, where the path is 3.
    problem = fork_join(4)
    figures = figures_of(Instance(problem))
    assert path_of(figures) == pytest.approx(3.0)
    assert load_of(figures) == pytest.approx(3.0)
    assert program_bound(problem) >= 4.0 - 1e-9


def test_modules_add_their_loads() -> None:
    # Two forks after each other. All loads together do not know which half they are in.
    names = ["a", *"bcde", "f", *"ghij", "k"]
    costs = {name: {"p1": 1.0, "p2": 1.0} for name in names}
    edges = [("a", n, 0) for n in "bcde"] + [(n, "f", 0) for n in "bcde"]
    edges += [("f", n, 0) for n in "ghij"] + [(n, "k", 0) for n in "ghij"]
    problem = problem_of(costs, edges, processors(2))
    figures = figures_of(Instance(problem))
    chain = chain_of(figures, 100.0)
    assert chain is not None
    assert chain.value() == pytest.approx(5.0)
    assert chain.close(100_000) == pytest.approx(7.0)
    assert len(chain.known) < 2 * 2 * 4, "equal modules share their entries"


def test_branching_finds_what_shares_hide() -> None:
    # Three equal tasks on two devices: half a task each is 1.5, whole tasks are 2.
    costs = {f"t{i}": {"p1": 1.0, "p2": 1.0} for i in range(3)}
    problem = problem_of(costs, [], processors(2))
    rungs = {rung.name: rung.value for rung in bound_ladder(problem, 1.0)}
    assert rungs["precedence program"] == pytest.approx(1.5)
    assert rungs["branched programs"] == pytest.approx(2.0)
    assert brute_force(problem) == 2.0


def test_a_batch_pays_for_every_execution() -> None:
    # 1 s a start and 0.1 s an element on two equal devices: two halves of 8 take 1.8 s each;
    # the best rate alone would say 1.3 s.
    cost = Cost(((1, 1.1), (16, 2.6)))
    row = {"p1": cost, "p2": cost}
    problem = Problem(
        TaskGraph([Task("a")], []), {"a": row}, processors(2), Objective("latency", 16)
    )
    assert load_of(figures_of(Instance(problem))) == pytest.approx(1.3)
    assert 0.98 * 1.8 <= lower_bound(problem) <= 1.8 * (1 + 1e-9)


def test_weights_that_do_not_fit_slow_a_chain_down() -> None:
    # Only one of four tasks fits the fast device.
    devices = (Device("fast", memory=10, overlap=True), Device("slow", overlap=True))
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    names = "abcd"
    costs = {name: {"fast": 1.0, "slow": 2.0} for name in names}
    edges = [(a, b, 0) for a, b in pairwise(names)]
    sizes = dict.fromkeys(names, 10)
    problem = problem_of(costs, edges, platform, weight_bytes=sizes)
    assert path_of(figures_of(Instance(problem))) == pytest.approx(4.0)
    assert lower_bound(problem) == pytest.approx(7.0)


def test_copies_keep_both_ends_busy() -> None:
    costs = {"a": {"p1": 4.0}, "b": {"p2": 4.0}}
    platform = processors(2, overlap=False, latency=1.0)
    problem = problem_of(costs, [("a", "b", 0)], platform, Objective("throughput"))
    assert lower_bound(problem) == pytest.approx(5.0)


def test_cost_of_the_cheaper_set_of_devices() -> None:
    devices = (Device("p1", price=3600.0, overlap=True), Device("p2", price=7200.0, overlap=True))
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    costs = {name: {"p1": 3.0, "p2": 1.0} for name in "ab"}
    problem = problem_of(costs, [("a", "b", 0)], platform, Objective("cost"))
    # p1 alone: 6 s at 1; p2 alone: 2 s at 2; both together at least 3 s at 3 money a second.
    assert lower_bound(problem) == pytest.approx(4.0)


def test_energy_counts_idle_devices_of_the_set() -> None:
    devices = tuple(Device(f"p{i}", watts=10.0, idle_watts=4.0, overlap=True) for i in (1, 2))
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    costs = {"a": {"p1": 1.0}, "b": {"p2": 1.0}}
    problem = problem_of(costs, [("a", "b", 0)], platform, Objective("energy"))
    assert lower_bound(problem) == pytest.approx(28.0)
    assert brute_force(problem) == pytest.approx(28.0)


def test_a_latency_limit_makes_the_cheap_device_too_slow() -> None:
    devices = (Device("p1", watts=1.0, overlap=True), Device("p2", watts=10.0, overlap=True))
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    costs = {name: {"p1": 2.0, "p2": 1.0} for name in "abcd"}
    edges = [("a", "b", 0), ("b", "c", 0), ("c", "d", 0)]
    limited = problem_of(costs, edges, platform, Objective("energy", 1, 6.0))
    free = limited.with_objective(Objective("energy"))
    assert lower_bound(free) == pytest.approx(8.0)
    assert lower_bound(limited) == pytest.approx(24.0)
    assert brute_force(limited) == pytest.approx(24.0)


def test_a_known_value_ends_the_ladder() -> None:
    problem = fork_join(4)
    short = bound_ladder(problem, 0.5, upper=bound_ladder(problem, 0.5)[1].value)
    assert [rung.name for rung in short] == ["diviml"]
    assert [rung.name for rung in bound_ladder(problem, 0.5)] == [
        "diviml", "critical path", "loads", "module programs", "branched programs",
    ]  # fmt: skip
