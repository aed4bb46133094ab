"""CP-SAT's placements for throughput when the time is up before there is a model."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from tests.solvers.examples import problem_of, processors
from tvm_hetero.errors import SolverError
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.cpsat import throughput


class Looks(CpsatBudget):
    """A budget whose time is up after so many looks at the clock."""

    left = 0

    def late(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("contiguous", [False, True])
def test_when_the_time_is_up_no_more_of_a_model_is_written(
    monkeypatch: pytest.MonkeyPatch, contiguous: bool
) -> None:
    names = [f"t{i}" for i in range(5)]
    costs = {name: {f"p{k}": float(k) for k in (1, 2, 3)} for name in names}
    edges = [(a, b, 8) for a, b in pairwise(names)]
    objective = Objective("throughput", contiguous=contiguous)
    problem, options = problem_of(costs, edges, processors(3), objective), Options()
    start = solve(problem, "greedy" if not contiguous else "single", options)
    budget = Looks(1.0, math.inf)
    begun: list[object] = []
    monkeypatch.setattr(throughput, "run", lambda *given, **_: begun.append(given) or 1 / 0)
    for looks in range(20):
        budget.left = looks
        with pytest.raises((SolverError, ZeroDivisionError)) as error:
            throughput.solve(problem, options, None, budget)
        if begun:
            break
        assert "no placement within its time limit" in str(error.value)
        budget.left = looks
        answer = throughput.solve(problem, options, start, budget)
        assert (answer.value, answer.lower_bound) == (start.value, 0.0)
    assert begun and looks > 2 * len(edges)  # one for each tensor, twice
