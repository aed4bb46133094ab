"""Squeezed modules: bounds of entries that no schedule beats, and gaps that close."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import verified
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.lists.partial_schedule import list_schedule
from tvm_hetero.solvers.milp_split import tighten
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.solvers.milp_split.module_cpsat import search
from tvm_hetero.solvers.milp_split.tighten import Squeeze, potentials, slack_of, squeeze
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import cut_is_exact, modules_of

OPTIONS = counted(time_limit=20.0)


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of any size are squeezed, whatever the work."""
    monkeypatch.setattr(tighten, "_LARGE", 2)
    monkeypatch.setattr(tighten, "_PROGRAMS", math.inf)


def crowd(n: int, modules: int = 1) -> Problem:
    """Tasks that are alike between two others, one such module after the other."""
    costs = {f"c{m}": {"p1": 1.0, "p2": 1.0} for m in range(modules + 1)}
    edges = []
    for m in range(modules):
        for i in range(n):
            costs[f"m{m}b{i}"] = {"p1": 1.0, "p2": 1.25}
            edges += [(f"c{m}", f"m{m}b{i}", 0), (f"m{m}b{i}", f"c{m + 1}", 0)]
    return problem_of(costs, edges, processors(2))


def chain_for(problem: Problem) -> TableChain:
    instance = Instance(problem)
    return TableChain(instance, modules_of(instance))


@pytest.mark.slow
@settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=6, max_devices=2))
@pytest.mark.usefixtures("everything")
def test_bounds_are_below_every_entry_and_meet_the_chain(problem: Problem) -> None:
    assume(cut_is_exact(Instance(problem)))
    chain, best = chain_for(problem), brute_force(problem)
    squeeze(chain.tables, OPTIONS, CpsatBudget(20.0, math.inf))
    assert chain.best(low=True)[0] <= best * (1 + 1e-9)
    for table in chain.tables:
        for entry in table.entries.values():
            start = list_schedule(entry.piece)
            budget = CpsatBudget(5.0, math.inf)
            found, _ = search(entry.piece, start, OPTIONS, budget, linear=0, prove=False)
            assert found is not None
            assert entry.low <= found.value * (1 + 1e-9)
            assert entry.value >= found.value * (1 - 1e-9)


@pytest.mark.usefixtures("everything")
def test_two_modules_are_closed_together() -> None:
    # Five alike on devices of 1.0 and 1.25: three and two, 3 s; half and half would be 2.78 s.
    chain = chain_for(crowd(5, modules=2))
    squeeze(chain.tables, OPTIONS, CpsatBudget(20.0, math.inf))
    assert chain.best(low=True)[0] == pytest.approx(9.0, rel=1e-6)
    for table in chain.tables[1:]:
        assert min(entry.value for entry in table.entries.values()) == pytest.approx(4.0)


def test_small_modules_are_left_alone() -> None:
    chain = chain_for(crowd(5))
    budget = CpsatBudget(20.0, math.inf)
    squeeze(chain.tables, OPTIONS, budget)
    assert budget.work == 20.0
    assert chain.best(low=False)[0] == math.inf


@pytest.mark.usefixtures("everything")
def test_potentials_ask_no_more_than_the_values_give() -> None:
    chain = chain_for(crowd(4, modules=3))
    squeeze(chain.tables, OPTIONS, CpsatBudget(5.0, math.inf))
    spots = potentials(chain.tables)
    for table, (before, after) in zip(chain.tables, pairwise(spots), strict=True):
        for (i, j), entry in table.entries.items():
            assert after[j] - before[i] <= entry.value + 1e-9
    assert max(spots[-1].values()) - min(spots[0].values()) == pytest.approx(11.5)
    known = potentials(chain.tables, 9.0)
    assert max(known[-1].values()) - min(known[0].values()) == pytest.approx(9.0)


def test_aims_go_down_and_come_back() -> None:
    chain = chain_for(crowd(4))
    own = Squeeze(chain.tables[-1], 0.0)
    assert own.aim(0.3) == 0.03
    assert own.aim(0.03) == 0.015
    own.failed = 0.01
    assert own.aim(0.03) == 0.02
    assert own.aim(0.0105) is None
    assert own.aim(0.0) is None


def test_slack_is_none_where_everything_is_proven() -> None:
    chain = chain_for(crowd(3))
    chain.close(OPTIONS, CpsatBudget(20.0, math.inf))
    spots = potentials(chain.tables)
    for table, ends in zip(chain.tables, pairwise(spots), strict=True):
        assert slack_of(table, ends) <= 1e-6


@pytest.mark.usefixtures("everything")
def test_an_answer_with_squeezed_modules_passes_the_checker() -> None:
    problem = crowd(7, modules=2)
    answer = verified(problem, solve(problem, "milp-split", OPTIONS))
    assert answer.status == "optimal"
