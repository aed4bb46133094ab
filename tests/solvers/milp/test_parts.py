"""The MILP's parts: expressions, candidates, hints, margins, exact starts."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.lists.best_start import best_start
from tvm_hetero.solvers.milp import backends as backends
from tvm_hetero.solvers.milp.candidates import (
    choose_class,
    is_exact,
    make_candidates,
    merging_is_free,
)
from tvm_hetero.solvers.milp.extract_schedule import earliest_starts
from tvm_hetero.solvers.milp.model import ONE, ZERO, MilpModel, total
from tvm_hetero.solvers.milp.solver import MilpProgram
from tvm_hetero.solvers.timing.timing import make_plan
from tvm_hetero.views.instance import Instance

relaxed = settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))


def test_expressions_add_up() -> None:
    model = MilpModel()
    x, y = model.binary("x"), model.number(0.0, 5.0, "y")
    expression = 2.0 * x - (y - 3.0) + total([x, ONE]) + ZERO
    assert expression.terms == {0: 3.0, 1: -1.0}
    assert expression.value([1.0, 2.0]) == 5.0
    assert (1.0 - x).value([1.0, 0.0]) == 0.0


def test_rows_without_variables_are_judged_at_once() -> None:
    model = MilpModel()
    model.at_most(ONE, 1.0)
    assert (model.rows, model.contradiction) == ([], False)
    model.at_least(ZERO, 1.0)
    assert model.contradiction
    assert backends.solve(model, "highs", 1.0, 1.0, 0).infeasible


@pytest.mark.parametrize("backend", ["highs", "scip", "gurobi"])
def test_backends_solve_bound_and_refuse(backend: backends.Backend) -> None:
    if backend == "gurobi":
        pytest.importorskip("gurobipy")
    # A knapsack: 5 a + 4 b + 3 c, of which 7 fit, worth 8, 7 and 4: a and b do not go together.
    model = MilpModel()
    a, b, c = (model.binary(name) for name in "abc")
    model.at_most(5.0 * a + 4.0 * b + 3.0 * c, 7.0)
    model.objective = -8.0 * a - 7.0 * b - 4.0 * c
    outcome = backends.solve(model, backend, 10.0, 10.0, 0)
    assert outcome.values == pytest.approx([0.0, 1.0, 1.0])
    assert -11.0 - 1e-3 <= outcome.bound < -11.0
    model.at_least(a + b + c, 3.0)
    assert backends.solve(model, backend, 10.0, 10.0, 0).infeasible


def test_a_wider_model_has_a_larger_margin() -> None:
    model = MilpModel()
    model.number(0.0, 1.0, "x")
    small = backends.margin(model, 1e-9)
    model.number(0.0, 1000.0, "y")
    assert backends.margin(model, 1e-9) == pytest.approx(small + 1e-6)
    assert backends.margin(model, 1e-8) == pytest.approx(10 * (small + 1e-6))


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("memory", [False, True])
def test_a_known_schedule_breaks_no_row(batch: int, memory: bool) -> None:
    """What the model says of heft's schedule is a solution, and read back it is as good."""

    @relaxed
    @given(problems(4, 3, batch=batch, memory=memory, kinds=["latency", "energy", "throughput"]))
    def judge(problem: Problem) -> None:
        try:
            start = best_start(problem, counted())
        except HeteroError:
            start = None
        assume(start is not None)
        program = MilpProgram(problem, start)
        assume(program.placement.start is not None)
        assert None not in program.model.hints
        values = [float(hint or 0.0) for hint in program.model.hints]
        assert program.model.violation(values) < 1e-6
        timed = program.read(values)
        assert timed is not None
        again = make_schedule(problem, "milp", *timed)
        assert check_schedule(problem, again) == []
        assert start is not None
        assert again.value <= start.value * (1 + 1e-9)

    judge()


def test_classes_of_candidates() -> None:
    one, two = Instance(fork_join(2)), Instance(fork_join(2).with_objective(Objective(batch=2)))
    assert (choose_class(one), choose_class(two)) == ("whole", "slots")
    slots = make_candidates(two, "slots")
    assert [row.elements for row in slots.rows[:2]] == [(0, 1), (1,)]
    assert {mode.size for mode in slots.rows[1].modes} == {1}
    places = make_candidates(two, "places")
    assert [row.devices for row in places.rows[:2]] == [(0,), (1,)]
    large = Instance(topcuoglu().with_objective(Objective(batch=16)))
    assert choose_class(large) == "places"
    assert not is_exact(large, "places")


def test_merging_is_free_only_where_it_is() -> None:
    def instance(seconds: float, overlap: bool, kind: str = "throughput") -> Instance:
        cost = {d: Cost(((1, 1.0), (2, seconds))) for d in ("p1", "p2")}
        objective = Objective(kind, 2)  # type: ignore[arg-type]
        platform = processors(2, overlap=overlap)
        return Instance(Problem(TaskGraph([Task("a")], []), {"a": cost}, platform, objective))

    assert merging_is_free(instance(1.5, True))
    assert merging_is_free(instance(2.0, True))
    assert not merging_is_free(instance(2.5, True))
    assert not merging_is_free(instance(1.5, False))
    assert not merging_is_free(instance(1.5, True, "latency"))


def test_earliest_starts_are_longest_paths() -> None:
    plan = make_plan(Instance(fork_join(2)), [0, 0, 0, 0])
    chain = [(0, 1, True), (1, 2, True), (2, 3, True)]
    assert earliest_starts(plan, chain) == [0.0, 1.0, 2.0, 3.0]
    together = [(0, 1, True), (1, 2, False), (2, 1, False)]
    assert earliest_starts(plan, together) == [0.0, 1.0, 1.0, 0.0]
    assert earliest_starts(plan, [(0, 1, True), (1, 0, True)]) is None


def test_a_circle_that_takes_no_time_is_no_circle() -> None:
    problem = problem_of({"a": {"p1": 0.0}, "b": {"p1": 0.0}}, [], processors(1))
    plan = make_plan(Instance(problem), [0, 0])
    assert earliest_starts(plan, [(0, 1, True), (1, 0, True)]) == [0.0, 0.0]


def test_the_horizon_of_a_known_latency_is_that_latency() -> None:
    problem = problem_of({"a": {"p1": 1.0, "p2": 9.0}}, [], processors(2))
    start = best_start(problem, counted())
    free, bound = MilpProgram(problem, None), MilpProgram(problem, start)
    assert (start and start.value, bound.timing.windows.horizon) == (1.0, pytest.approx(1.0))
    assert free.timing.windows.horizon == pytest.approx(9.0)
    assert math.isclose(bound.timing.horizon, 1000.0)
    # On p2 the task would take longer than what is known.
    assert [row.devices for row in bound.placement.candidates.rows] == [(0,)]
    assert [row.devices for row in free.placement.candidates.rows] == [(0, 1)]
