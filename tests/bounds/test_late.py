"""Bounds where the time is up: what was proven by then stands, and nothing long is begun."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case
from tests.solvers.examples import fork_join
from tvm_hetero.bounds import bound_ladder, lower_bound
from tvm_hetero.bounds.core.time_is_up import TimeIsUp, check_late
from tvm_hetero.bounds.latency.critical_path import path_of
from tvm_hetero.bounds.memory.prices_and_labels import memory_bound
from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.views.arrays import figures_of
from tvm_hetero.views.instance import instance_of
from tvm_hetero.views.modularity import modules_of


def after(looks: int) -> Callable[[], bool]:
    """A clock that says after so many looks that the time is up."""
    seen = count()
    return lambda: next(seen) >= looks


def test_the_first_rung_is_always_there() -> None:
    rungs = bound_ladder(fork_join(3), late=lambda: True)
    assert [rung.name for rung in rungs] == ["diviml"]
    assert 0 < rungs[0].value == lower_bound(fork_join(3), late=lambda: True)


def test_a_rung_is_given_up_half_way_and_those_below_it_stand() -> None:
    problem = fork_join(3)
    names = [rung.name for rung in bound_ladder(problem)]
    for looks in (1, 2, 5, 12, 30):
        found = [rung.name for rung in bound_ladder(problem, late=after(looks))]
        assert found == names[: len(found)]
    assert bound_ladder(problem, late=after(1))[-1].name == "diviml"


def test_the_critical_path_looks_at_the_clock_on_the_way() -> None:
    with pytest.raises(TimeIsUp):
        path_of(figures_of(instance_of(fork_join(3))), after(2))
    check_late(lambda: False)


def test_prices_of_memory_prove_less_in_less_time_and_nothing_wrong() -> None:
    problem = limited(zoo_case("light-squeezenet", "sched-nvl"), 0.5)
    instance = instance_of(problem)
    upper = 1.0
    short, long = (memory_bound(instance, upper, late=after(looks)) for looks in (1, 20))
    assert 0 < short <= long <= memory_bound(instance, upper)


def test_tables_of_modules_are_given_up_where_the_time_is_up() -> None:
    instance = instance_of(fork_join(3))
    TableChain(instance, modules_of(instance), Deadline.after(1000))
    with pytest.raises(SolverError, match="the time is up"):
        TableChain(instance, modules_of(instance), Deadline.after(-1))
