"""The line-up: what its solvers are told depends on the problem and the limit, not on the clock."""

from __future__ import annotations

import pytest

from tests.solvers.examples import fork_join
from tvm_hetero.solvers import Options, auto, solve
from tvm_hetero.solvers.auto import Stage, _share, portfolio
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget

NET_AS_IT_IS = True  # see conftest.py


@pytest.mark.parametrize("stage", portfolio(fork_join(3)))
def test_the_work_of_a_stage_does_not_depend_on_the_clock(stage: Stage) -> None:
    """The last stage may take all that is left; it counted its work from the seconds left."""
    options = Options(time_limit=10.0, seed=3)
    early, late = (_share(stage, options, None, left) for left in (7.0, 2.5))
    assert early.time_limit == late.time_limit and early.seed == late.seed == 3
    assert late.patience <= 2.5


def test_a_stage_is_cut_only_where_it_takes_several_times_its_share() -> None:
    """On a busy machine, or with libraries still to be loaded, its counted work takes longer."""
    told = _share(Stage("milp-split", 0.1), Options(time_limit=10.0), None, 9.0)
    assert (told.time_limit, told.patience) == (1.0, 4.0)
    late = _share(Stage("milp-split", 0.1), Options(time_limit=10.0), None, 2.5)
    assert late.patience == 2.5


def test_the_clock_cuts_a_budget_and_does_not_count_it() -> None:
    whole, cut = (CpsatBudget.of(Options(time_limit=10.0, clock=c), 5.0) for c in (None, 2.0))
    assert whole.work == cut.work and (whole.deadline, cut.deadline) == (15.0, 7.0)


@pytest.mark.parametrize("solver", ["annealing", "batches", "count-dp", "cpsat", "milp-split"])
def test_hardly_any_time_on_the_clock_is_no_crash(solver: str) -> None:
    problem = fork_join(3)
    answer = solve(problem, solver, Options(time_limit=10.0, clock=1e-6))
    assert answer.value <= solve(problem, "single").value


def test_nobody_is_asked_when_the_clock_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts work; what is left of a larger search is on the clock."""
    problem = fork_join(3)
    start = solve(problem, "single")
    monkeypatch.setattr(auto, "_ask", None)
    answer = auto.solve(problem, Options(time_limit=60.0, clock=1e-9, start=start))
    assert answer.value == start.value
