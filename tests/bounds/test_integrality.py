"""Bounds that are rounded up stay at or below the optimum, and reach it where they can."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.fuzz.small_problems import small_problem
from tests.solvers.examples import counted, fork_join, problem_of, processors
from tvm_hetero.bounds import lower_bound, round_up
from tvm_hetero.bounds.integrality import seconds_of
from tvm_hetero.errors import HeteroError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP
from tvm_hetero.solvers.exhaustive import solver


def three_tasks(objective: Objective, bandwidth: float = math.inf, latency: float = 0.0) -> Problem:
    """Three tasks of 0.3 s on two devices: two of them must share one."""
    devices = (
        Device("p1", watts=4.0, idle_watts=1.0, price=7.2),
        Device("p2", watts=4.0, price=7.2),
    )
    platform = Platform(devices, fabrics=(Fabric("node0", bandwidth, latency),))
    return problem_of(
        {t: {"p1": 0.3, "p2": 0.3} for t in "abc"}, [("a", "b", 6)], platform, objective
    )


def test_a_bound_between_two_multiples_becomes_the_upper_one() -> None:
    problem = three_tasks(Objective())
    assert lower_bound(problem) == pytest.approx(0.6, rel=1e-11)
    assert round_up(problem, 0.45) == pytest.approx(0.6, rel=1e-11)
    assert round_up(problem, 0.6) == 0.6


def test_what_copies_take_counts() -> None:
    # 6 bytes at 60 B/s and 50 ms: all times are multiples of 50 ms.
    problem = three_tasks(Objective(), bandwidth=60.0, latency=0.05)
    assert round_up(problem, 0.61) == pytest.approx(0.65, rel=1e-11)


def test_cost_and_energy_come_in_units_of_prices_and_watts() -> None:
    assert round_up(three_tasks(Objective("cost")), 0.0005) == pytest.approx(0.3 * 7.2 / 3600)
    assert round_up(three_tasks(Objective("energy")), 0.31) == pytest.approx(0.6)


def test_times_without_a_unit_leave_a_bound_as_it_is() -> None:
    problem = problem_of({"a": {"p1": math.pi}, "b": {"p1": math.e}}, [], processors(1))
    assert round_up(problem, 5.0) == 5.0


def test_a_bound_that_is_too_high_by_what_programs_may_be_off_is_not_rounded_up() -> None:
    problem = fork_join(3)
    assert round_up(problem, 4.0 * (1 + OPTIMAL_GAP)) == 4.0 * (1 + OPTIMAL_GAP)


@pytest.mark.parametrize("seed", range(300))
def test_a_rounded_bound_is_never_above_the_optimum(seed: int) -> None:
    problem = small_problem(seed)
    try:
        best = solver.solve(problem, counted(10.0)).value
    except HeteroError:
        return
    for share in (1.0, 1 - 1e-9, 0.999, 0.9, 0.6):
        assert round_up(problem, best * share) <= best * (1 + 1e-12)
    assert lower_bound(problem, seconds=0.02) <= best * (1 + 1e-9)


@settings(max_examples=draws(200))
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 50)), min_size=1, unique_by=lambda p: p[0]
    ),
    st.integers(1, 12),
)
def test_decimal_seconds_are_those_of_the_table(points: list[tuple[int, int]], n: int) -> None:
    table = tuple(sorted((size, tenths / 10) for size, tenths in points))
    exact = seconds_of(table, n)
    assert isinstance(exact, Fraction)
    assert float(exact) == pytest.approx(Cost(table).seconds(n), rel=1e-12)
