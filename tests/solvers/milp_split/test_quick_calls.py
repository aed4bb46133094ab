"""CP-SAT's first, quick call for every module: always made, once, and hardly presolved."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.solvers.examples import counted
from tvm_hetero import zoo
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.solvers.milp_split.module_bounds import BoundEntry
from tvm_hetero.solvers.milp_split.module_cpsat import search
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import modules_of

OPTIONS = counted(time_limit=2.0)
SMALL = [("inception-v1", "phone"), ("light-inception_v1", "sched-pcie")]


@pytest.mark.parametrize(("network", "platform"), SMALL)
def test_small_modules_are_closed_with_a_tenth_of_a_short_time(network: str, platform: str) -> None:
    """What each wished for was less than a call may take at least, and nobody was asked."""
    instance = Instance(zoo.problem(network, platform))
    answer = split.solve_instance(instance, OPTIONS, CpsatBudget(0.1, math.inf))
    assert answer.best.value - answer.low <= 1e-6 * answer.best.value


def test_auto_needs_nothing_but_modules_where_they_are_small() -> None:
    said: list[str] = []
    problem = zoo.problem("inception-v1", "phone")
    answer = solve(problem, "auto", counted(time_limit=3.0, tell=said.append))
    assert answer.status == "optimal"
    assert any("asking milp-split" in line for line in said)
    assert not any("asking annealing" in line for line in said)


def large_entry() -> BoundEntry:
    """The entry of a module that no quick call closes, after its list schedule."""
    instance = Instance(zoo.problem("module", "sched-nvl", tasks=50, seed=1))
    tables = TableChain(instance, modules_of(instance)).tables
    table = max(tables, key=lambda table: len(table.piece))
    entry = next(iter(table.entries.values()))
    entry.improve(OPTIONS, CpsatBudget(0.0, math.inf))
    return entry


def spent(entry: BoundEntry, work: float) -> float:
    """What an entry takes of so much work at its next level."""
    budget = CpsatBudget(work, math.inf)
    entry.improve(OPTIONS, budget)
    return work - budget.work


def test_another_call_is_made_with_more_work_only() -> None:
    entry = large_entry()
    assert not entry.closed and spent(entry, 0.05) > 0
    for work, again in ((0.05, False), (0.2, True)):
        entry.go_on()
        assert (spent(entry, work) > 0) == again


def test_who_was_not_asked_for_lack_of_work_is_asked_later() -> None:
    entry = large_entry()
    assert spent(entry, 0.001) == 0
    entry.go_on()
    assert spent(entry, 0.05) > 0


def test_only_the_first_call_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longer ones are to prove, which probing helps."""
    asked: list[bool] = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        asked.append(kwargs["quick"])
        return search(*args, **kwargs)

    monkeypatch.setattr("tvm_hetero.solvers.milp_split.module_bounds.search", noted)
    entry = large_entry()
    for _ in range(3):
        spent(entry, 0.03)
    assert asked == [True, False, False]
