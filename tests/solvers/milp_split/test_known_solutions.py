"""What is known of modules, from a start or from the call before, is gone on from."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.solvers.examples import counted
from tvm_hetero import zoo
from tvm_hetero.problem import Problem
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.lists.partial_schedule import Solution, of_schedule
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.solvers.search import annealing
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import modules_of

OPTIONS = counted(time_limit=2.0)


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Modules of up to seven tasks."""
    return zoo.problem("light-inception_v1", "sched-pcie")


@pytest.fixture(scope="module")
def known(problem: Problem) -> Solution:
    """A good solution, not the best."""
    found = of_schedule(Instance(problem), annealing.solve(problem, counted(time_limit=0.2)))
    assert found is not None
    return found


def chain_for(problem: Problem) -> TableChain:
    instance = Instance(problem)
    return TableChain(instance, modules_of(instance))


def test_every_module_does_what_the_known_solution_does_there(
    problem: Problem, known: Solution
) -> None:
    chain = chain_for(problem)
    assert chain.best(low=False)[0] == math.inf
    chain.take(known)
    assert chain.best(low=False)[0] <= known.value * (1 + 1e-12)


def test_what_is_known_is_searched_as_if_it_were_not(problem: Problem, known: Solution) -> None:
    """Level 0 gives every entry what it gives without a start, or better; so do bounds."""
    seeded, plain = chain_for(problem), chain_for(problem)
    seeded.take(known)
    for one, other in zip(seeded.tables, plain.tables, strict=True):
        for ends, entry in one.entries.items():
            twin = other.entries[ends]
            if twin.best is not None:
                continue
            for each in (entry, twin):
                each.improve(OPTIONS, CpsatBudget(1.0, math.inf))
            assert (entry.level, twin.level) == (1, 1)
            assert entry.value <= twin.value


def test_a_known_solution_is_proven_with_no_more_work(problem: Problem, known: Solution) -> None:
    spent = []
    for start in (None, known):
        budget = CpsatBudget(10.0, math.inf)
        answer = split.solve_instance(Instance(problem), OPTIONS, budget, start)
        assert answer.best.value - answer.low <= 1e-6 * answer.best.value
        spent.append(10.0 - budget.work)
    assert spent[1] <= 1.1 * spent[0]


def test_a_second_call_of_one_run_goes_on_where_the_first_ended(problem: Problem) -> None:
    instance, noted = Instance(problem), replace(OPTIONS, notes={})
    first = split.solve_instance(instance, noted, CpsatBudget(0.02, math.inf))
    second = split.solve_instance(instance, noted, CpsatBudget(0.0, math.inf), first.best)
    assert second.low >= first.low
    assert second.best.value <= first.best.value
    third = split.solve_instance(instance, noted, CpsatBudget(2.0, math.inf))
    assert third.low > second.low
    # Without notes it begins from nothing, and no one who asks twice gets two answers.
    alone = split.solve_instance(instance, OPTIONS, CpsatBudget(0.0, math.inf))
    assert alone.low < third.low
    assert OPTIONS.notes is None
