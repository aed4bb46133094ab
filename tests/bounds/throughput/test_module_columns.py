"""The columns of a chain of modules: given up when the time is up, at whichever look."""

from __future__ import annotations

from itertools import count

import pytest

from benchmarks.scheduling.runner import zoo_case
from tvm_hetero.bounds.core.time_is_up import TimeIsUp
from tvm_hetero.bounds.throughput.module_columns import throughput_chain
from tvm_hetero.errors import SolverError
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.milp_split import solver as milp_split
from tvm_hetero.views.instance import Instance

PROBLEM = zoo_case("resnet18", "diviml", Objective("throughput"))


@pytest.mark.parametrize("looks", [0, 1, 3, 8])
def test_columns_are_given_up_at_any_look(looks: int) -> None:
    asked = count()
    with pytest.raises(TimeIsUp):
        throughput_chain(Instance(PROBLEM), lambda: next(asked) >= looks)
    assert next(asked) == looks + 1, "who is late looks no more"


def test_a_solver_without_time_for_the_columns_says_so() -> None:
    ends = Deadline(0.0, lambda: 1.0)
    with pytest.raises(SolverError, match="the time is up before the modules' placements"):
        milp_split.solve(PROBLEM, Options(ends=ends))
