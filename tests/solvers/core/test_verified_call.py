"""That there is no schedule is said only with a proof; who is stuck says that he found nothing."""

from __future__ import annotations

import pytest

from tests.solvers.examples import counted, problem_of, processors
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.verified_call import solve_verified


def there_and_back(*, contiguous: bool) -> Problem:
    """Its only placement reads from p1 to p2 and from p2 to p1: no pipeline."""
    costs = {"a": {"p1": 1.0}, "b": {"p2": 1.0}, "c": {"p1": 1.0}}
    edges = [("a", "b", 8), ("b", "c", 8)]
    return problem_of(costs, edges, processors(2), Objective("throughput", contiguous=contiguous))


@pytest.mark.parametrize(("proven", "kind"), [(True, InfeasibleError), (False, SolverError)])
def test_a_solver_that_is_stuck_has_found_nothing(proven: bool, kind: type[Exception]) -> None:
    def stuck(_problem: Problem, _options: Options) -> Schedule:
        raise InfeasibleError("task 'a' fits nowhere", proven=proven)

    with pytest.raises(kind, match="fits nowhere"):
        solve_verified(there_and_back(contiguous=False), "stuck", stuck, Options())


def test_no_stages_are_no_proof_that_there_is_no_placement() -> None:
    free = there_and_back(contiguous=False)
    with pytest.raises(SolverError):
        solve(free, "stages", counted(1.0))
    assert solve(free, "auto", counted(1.0)).value == 2.0


def test_no_stages_are_proof_where_stages_are_asked_for() -> None:
    with pytest.raises(InfeasibleError) as caught:
        solve(there_and_back(contiguous=True), "auto", counted(1.0))
    assert caught.value.proven
