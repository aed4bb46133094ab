"""What is kept with a problem, and that the judge still judges what is said of a plan it knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.solvers.examples import fork_join
from tvm_hetero import check
from tvm_hetero.check import verified
from tvm_hetero.errors import SolverError
from tvm_hetero.problem import Problem
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.lists.heft import solve as heft
from tvm_hetero.views.instance import instance_of


def test_once_asks_each_problem_once_and_keeps_no_error() -> None:
    asked = []

    @cached_per_problem
    def question(problem: Problem) -> int:
        asked.append(problem)
        if len(asked) == 1:
            raise ValueError
        return len(asked)

    one, other = fork_join(3), fork_join(3)
    with pytest.raises(ValueError):
        question(one)
    assert [question(one), question(one), question(other), question(one)] == [2, 2, 3, 2]
    assert instance_of(one) is instance_of(one) is not instance_of(other)
    assert one == other, "what is kept is no part of a problem"


def test_the_seed_is_the_callers() -> None:
    problem = fork_join(3)
    assert [heft(problem, Options(seed=seed)).seed for seed in (3, 0, 5)] == [3, 0, 5]


def answer() -> tuple[Problem, Schedule]:
    problem = fork_join(3)
    return problem, verified(problem, heft(problem, Options()))


def test_a_known_plan_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, known = answer()
    monkeypatch.delattr(check, "check_schedule")
    assert verified(problem, known) == known


@pytest.mark.parametrize(
    "lie",
    [{"value": 1e-9}, {"lower_bound": 1e9}, {"problem": "0" * 64}, {"kind": "energy"}],
    ids=["value", "bound", "problem", "kind"],
)
def test_what_is_said_of_a_known_plan_is_not_believed(lie: dict[str, float | str]) -> None:
    problem, known = answer()
    with pytest.raises(SolverError):
        verified(problem, replace(known, **lie))  # type: ignore[arg-type]


def test_another_plan_and_another_problem_are_judged() -> None:
    problem, known = answer()
    late = replace(known.executions[0], start=known.value, end=known.value)
    with pytest.raises(SolverError):
        verified(problem, replace(known, executions=(late, *known.executions[1:])))
    costs = {task: dict(list(row.items())[:1]) for task, row in problem.costs.items()}
    other = replace(problem, costs=costs)
    with pytest.raises(SolverError):
        verified(other, replace(known, problem=other.digest))


def test_a_plan_that_could_change_is_judged_each_time() -> None:
    problem, known = answer()
    elements: list[int] = [0]
    first = replace(known.executions[0], elements=elements)  # type: ignore[arg-type]
    soft = replace(known, executions=(first, *known.executions[1:]))
    verified(problem, soft)
    elements.append(7)
    with pytest.raises(SolverError):
        verified(problem, soft)
