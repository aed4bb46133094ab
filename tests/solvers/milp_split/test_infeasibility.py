"""Refuting limits: what is refuted is not there, what is there is found."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero.problem import Problem
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.milp_split.infeasibility import LEAST, programs_work, refute
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Piece, cut_is_exact

OPTIONS = counted(time_limit=20.0)


def whole(problem: Problem) -> Piece:
    instance = Instance(problem)
    return Piece(instance, instance.order)


@settings(max_examples=draws(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    problem=problems(max_tasks=5, max_devices=3),
    part=st.sampled_from([0.7, 0.97, 1 - 2 * LEAST, 1 + 1e-6, 1.1]),
    linear=st.sampled_from([0, 1]),
)
def test_refuted_is_what_brute_force_does_not_reach(
    problem: Problem, part: float, linear: int
) -> None:
    assume(cut_is_exact(Instance(problem)))
    piece, best = whole(problem), brute_force(problem)
    assume(best > 0)
    verdict = refute(piece, best * part, OPTIONS, CpsatBudget(20.0, math.inf), linear=linear)
    assert verdict.refuted == (part < 1)
    assert (verdict.found is None) == (part < 1)
    if verdict.found is not None:
        assert best * (1 - 1e-9) <= verdict.found.value <= best * part * (1 + 1e-6)


def test_nothing_is_said_without_work() -> None:
    piece = whole(problem_of({"a": {"p1": 1.0}}, [], processors(1)))
    verdict = refute(piece, 0.5, OPTIONS, CpsatBudget(0.0, math.inf))
    assert not verdict.refuted
    assert verdict.found is None


def test_many_devices_have_no_programs() -> None:
    costs = {"a": {f"p{i}": 1.0 for i in range(1, 8)}}
    assert programs_work(whole(problem_of(costs, [], processors(7)))) == math.inf
