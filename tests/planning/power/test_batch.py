"""A batch that is done within its period: what its steady state proves of it, and what not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.planning.power.small_problems import independent
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.power import batch_energy, least_energy
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options

QUICK = Options(2.0, deadline=60.0)


def chain(memory: int, *others: Device) -> Problem:
    """a -> b -> c -> d, a second each, tensors of 40 bytes, of which two are alive at a time."""
    devices = (Device("d0", watts=2.0, idle_watts=1.0, memory=memory), *others)
    tasks = [Task(name, output_bytes=0 if name == "d" else 40) for name in "abcd"]
    graph = TaskGraph(tasks, [Edge(*pair, 40) for pair in ("ab", "bc", "cd")])
    costs = {name: {d.name: Cost(((1, 1.0),)) for d in devices} for name in "abcd"}
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    return Problem(graph, costs, platform, Objective("energy"))


def test_memory_is_counted_by_lifetime() -> None:
    timed, found = batch_energy(chain(100), 5.0, QUICK)
    assert check_schedule(timed, found) == []
    assert found.value == pytest.approx(9.0) and found.lower_bound > 8.99
    with pytest.raises(InfeasibleError):  # a steady state keeps all three
        least_energy(replace(chain(100), objective=Objective("throughput")), 5.0, QUICK)


def test_the_bound_is_not_that_of_what_keeps_every_tensor() -> None:
    """With the dear device beside it a steady state would have to divide the chain."""
    timed, found = batch_energy(chain(100, Device("dear", watts=50.0)), 5.0, QUICK)
    assert check_schedule(timed, found) == []
    assert found.value == pytest.approx(9.0) and found.lower_bound <= 9.0 + 1e-9


def test_where_the_steady_state_has_no_room_the_solvers_of_energy_are_asked() -> None:
    """Alone within its period, but the cheapest placement can not be put in order in memory."""
    timed, found = batch_energy(chain(79, Device("dear", watts=50.0)), 8.0, QUICK)
    assert check_schedule(timed, found) == []
    assert found.lower_bound <= found.value and found.value > 12.0


def test_a_batch_that_nothing_can_do_in_time_is_refused_for_sure() -> None:
    with pytest.raises(InfeasibleError) as refused:
        batch_energy(chain(100), 3.9, QUICK)
    assert refused.value.proven


def test_a_latency_limit_is_kept_or_refused() -> None:
    limited = replace(chain(100), objective=Objective("energy", latency_limit=4.5))
    with pytest.raises(UsageError, match=r"latency limit of 4\.50 s is below the period"):
        batch_energy(limited, 5.0, QUICK)
    assert batch_energy(limited, 4.5, QUICK)[0].objective.latency_limit == 4.5


def test_a_bound_is_never_above_the_value_by_rounding() -> None:
    problem = replace(independent([{"a": 0.1}] * 3, a=(0.3, 0.1)), objective=Objective("energy"))
    timed, found = batch_energy(problem, 0.3, QUICK)
    assert check_schedule(timed, found) == [] and found.lower_bound <= found.value


def test_what_the_steady_state_refuses_the_solvers_of_energy_are_asked() -> None:
    """Nothing that takes time; and beside it a period that is beyond all whole numbers."""
    for seconds, period in ((0.0, 1.0), (1e-3, 1e12)):
        problem = independent([{"a": seconds, "b": seconds}], a=(3, 1), b=(4, 2))
        asked = replace(problem, objective=Objective("energy"))
        timed, found = batch_energy(asked, period, QUICK)
        assert check_schedule(timed, found) == []
        assert (
            found.value == pytest.approx(period + 2 * seconds) and found.lower_bound <= found.value
        )


def test_levels_of_a_device_whose_memory_binds_are_chosen_for_least_energy() -> None:
    """The cheapest place has no memory for both tasks, the quickest plan takes two places."""
    levels = [
        Device(f"d1.{name}", cores=(1,), level_of="d1", memory=12, watts=watts, idle_watts=1.0)
        for name, watts in (("fast", 7.0), ("slow", 5.0))
    ]
    devices = (Device("d0", watts=4.0, idle_watts=2.0, memory=8), *levels)
    tasks = [Task("x", weight_bytes=4), Task("y", weight_bytes=4, output_bytes=4)]
    costs = {t.id: {d.name: Cost(((1, 1.0),)) for d in devices} for t in tasks}
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    graph = TaskGraph(tasks, [Edge("x", "y", 0)])
    energy = Problem(graph, costs, platform, Objective("energy"))
    timed, found = batch_energy(energy, 2.0, QUICK)
    assert check_schedule(timed, found) == [] and found.value == pytest.approx(10.0)
