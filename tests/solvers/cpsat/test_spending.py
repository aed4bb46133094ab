"""Energy and cost of CP-SAT's models: which coefficients are whole, and what that proves."""

from __future__ import annotations

import pytest

from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.cpsat.batch import solve_whole
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import instance_of


def on_cores(count: int, idle: float, kind: Kind = "energy") -> Problem:
    """A task on two levels of so many cores."""
    cores = tuple(range(count))
    figures = {"idle_watts": idle, "price": 3600.0 * idle}
    levels = [
        Device(f"all.{name}", cores=cores, level_of="all", watts=watts, **figures)  # type: ignore[arg-type]
        for name, watts in (("low", 30.0), ("high", 90.0))
    ]
    costs = {"x": {"all.low": Cost(((1, 2.0),)), "all.high": Cost(((1, 1.0),))}}
    return Problem(TaskGraph([Task("x")], []), costs, Platform(tuple(levels)), Objective(kind))


@pytest.mark.parametrize("kind", ["energy", "cost"])
@pytest.mark.parametrize(("count", "idle"), [(6, 4.0), (64, 1.0), (7, 3.0)])
def test_cores_with_the_same_devices_spend_together(count: int, idle: float, kind: Kind) -> None:
    """4 W of six cores are no whole thousandths of each, and 1 W of 64 is 15.6."""
    options = Options(5.0)
    instance = instance_of(on_cores(count, idle, kind))
    found = solve_whole(instance, options, None, CpsatBudget.of(options, now()))
    assert found.value == pytest.approx(60.0 if kind == "energy" else idle)
    assert found.lower_bound == pytest.approx(found.value, rel=1e-6)
