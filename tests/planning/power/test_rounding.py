"""Plans under watts at the edge of whole numbers: nothing is refused, or proven, by rounding."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.planning.power.small_problems import independent
from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.power import least_energy, most_throughput
from tvm_hetero.planning.power.longest_period import choose_ticks
from tvm_hetero.planning.power.steady_energy import shortest_period
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core import cpsat_run

QUICK = Options(2.0, deadline=60.0)
THIRD = 1 / 3


def test_a_period_that_is_no_whole_number_of_ticks_has_room_for_what_fills_it() -> None:
    found = least_energy(independent([{"a": THIRD}], a=(2, 1)), THIRD, QUICK)
    assert found.schedule.value == THIRD and found.joules == pytest.approx(2 * THIRD)
    assert 0.999 * found.joules < found.bound <= found.joules


def test_a_cap_has_room_for_rounding_where_no_device_can_do_all_alone() -> None:
    found = most_throughput(independent([{"a": THIRD}, {"b": 0.0}], a=(100, 0), b=(0, 0)), 1, QUICK)
    assert found.period == pytest.approx(100 * THIRD) and 0.999 * found.period < found.bound


def test_the_error_of_finer_ticks_is_theirs() -> None:
    """Ten seconds and a little, each of which is whole in ticks of a second but for noise."""
    problem = independent([{"a": 1.0000005}] * 10, a=(2, 0))
    ticks = choose_ticks(problem, 20.0)
    assert ticks.ticks(1.0000005) * 10 <= 10.000005 * ticks.per_second + ticks.slack
    found = least_energy(problem, 20.0, QUICK)
    assert found.bound <= found.joules == pytest.approx(20.00001, rel=1e-9)


def test_what_overloads_by_less_than_a_tick_is_ruled_out_and_the_rest_is_proven() -> None:
    """Two cheap tasks on `a` are above the period by less than rounding: one has to go to `b`."""
    longer = 0.5 + 1e-7
    problem = independent([{"a": longer, "b": longer}] * 2, a=(1, 0), b=(9, 0))
    found = least_energy(problem, 1.0, QUICK)
    assert found.schedule.value == longer and found.joules == pytest.approx(10 * longer)
    assert 0.999 * found.joules < found.bound <= found.joules * (1 + 1e-9)
    with pytest.raises(InfeasibleError) as refused:
        least_energy(independent([{"a": longer}] * 2, a=(1, 0)), 1.0, QUICK)
    assert refused.value.proven


def test_what_fills_a_period_to_the_last_bit_is_found_behind_what_overloads_it() -> None:
    problem = independent([{"a": THIRD * (1 + 1e-7), "b": THIRD}], a=(1, 0), b=(9, 0))
    found = least_energy(problem, THIRD, QUICK)
    assert found.joules == pytest.approx(9 * THIRD) and found.bound > 0.999 * found.joules


def test_all_tries_share_one_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[cpsat_run.CpsatBudget] = []
    real = cpsat_run.CpsatBudget.of.__func__

    def counted(cls: type[cpsat_run.CpsatBudget], *given: object) -> cpsat_run.CpsatBudget:
        budgets.append(real(cls, *given))
        return budgets[-1]

    monkeypatch.setattr(cpsat_run.CpsatBudget, "of", classmethod(counted))
    longer = 0.5 + 1e-7
    least_energy(independent([{"a": longer, "b": longer}] * 2, a=(1, 0), b=(9, 0)), 1.0, QUICK)
    assert len(budgets) == 1


def test_a_cap_between_thousandths_is_kept_by_another_placement() -> None:
    """`a` idles with more than the cap, by less than a thousandth of a watt."""
    problem = independent([{"a": 1.0, "b": 2.0}], a=(1.001, 1.001), b=(0.6, 0.5))
    found = most_throughput(problem, 1.0005, QUICK)
    assert found.period == 2.0 and found.watts == pytest.approx(0.6)
    assert found.bound <= 2.0


def test_where_none_keeps_it_but_by_rounding_it_is_said_what_to_allow() -> None:
    problem = independent([{"a": 1.0}], a=(1.001, 1.001))
    with pytest.raises(InfeasibleError, match=r"allow 1\.002 W") as refused:
        most_throughput(problem, 1.0005, QUICK)
    assert not refused.value.proven
    assert most_throughput(problem, 1.002, QUICK).period == 1.0


def test_a_cap_that_idling_takes_but_for_the_last_bit_gives_no_period_of_ages() -> None:
    """Three cores that idle with a third of a watt each, together with 1 W but for an ulp."""
    cores = {"one": (0,), "all": (0, 1, 2)}
    problem = independent([{"one": 0.0}, {"all": 1.0}], cores, one=(3, 1), all=(2, 1))
    with pytest.raises(InfeasibleError):
        most_throughput(problem, 1.0, QUICK)
    for load, watts in ((0.1, 1.0), (1e-3, 30.0)):
        assert shortest_period(load, math.nextafter(watts, 0), load, watts) is None


def test_periods_that_nobody_asked_for_are_not_refused() -> None:
    """The only device that can do all alone takes 10^9 s; the period that fits is far shorter."""
    problem = independent([{"a": 1.0, "slow": 5e8}, {"b": 1.0, "slow": 5e8}],
                          a=(400, 1), b=(400, 1), slow=(500, 0))  # fmt: skip
    found = most_throughput(problem, 700.0, QUICK)
    assert 1.0 < found.period < 1.2 and found.bound > 0.99 * found.period


def test_a_device_that_is_far_slower_does_no_harm() -> None:
    row = {"a": 1e-3, "b": 1.3e-3, "slow": 1e6}
    problem = independent([row] * 12, a=(400, 10), b=(300, 10), slow=(900, 10))
    capped = most_throughput(problem, 350.0, QUICK)
    assert {run.device for run in capped.schedule.executions} <= {"a", "b"}
    timed = least_energy(problem, 0.02, QUICK)
    assert timed.bound > 0.9 * timed.joules


def test_what_takes_no_time_has_no_shortest_period() -> None:
    nothing = independent([{"a": 0.0}], a=(1, 1))
    for plan in (most_throughput, least_energy):
        with pytest.raises(UsageError, match=r"nothing of .* takes any time"):
            plan(nothing, 1.0, QUICK)
    with pytest.raises(UsageError, match="takes no time"):
        most_throughput(independent([{"a": 0.0, "b": 1.0}], a=(1, 0), b=(1, 0)), 2.0, QUICK)


def test_where_only_what_is_moved_takes_time_there_is_a_shortest_period() -> None:
    devices = (Device("a", watts=2.0, idle_watts=1.0), Device("b", watts=2.0, idle_watts=1.0))
    costs = {"x": {"a": Cost(((1, 0.0),))}, "y": {"b": Cost(((1, 0.0),))}}
    graph = TaskGraph([Task("x", output_bytes=8), Task("y")], [Edge("x", "y", 8)])
    platform = Platform(devices, (Link("a", "b", bandwidth=16.0),))
    moved = Problem(graph, costs, platform, Objective("throughput"))
    assert most_throughput(moved, 4.0, QUICK).period == 0.5
    assert least_energy(moved, 1.0, QUICK).joules == pytest.approx(3.0)


def test_ticks_are_coarser_where_those_of_the_quickest_device_are_too_fine() -> None:
    """`hot` idles with more than the cap, and takes a hundred millionth of what `a` takes."""
    problem = independent([{"a": 100.0, "hot": 1e-6}], a=(2, 0), hot=(1000, 40))
    found = most_throughput(problem, 34.0, QUICK)
    assert found.period == 100.0 and 0.999 * found.period < found.bound <= found.period


def test_a_cap_that_is_what_idling_takes_is_refused_at_once() -> None:
    """CP-SAT raised the period tick by tick, for longer than its limit of work says."""
    levels = {"high": (0,), "low": (0,)}
    problem = independent([{"high": 123.456, "low": 1e-6}], levels, high=(8, 2), low=(6, 2))
    with pytest.raises(InfeasibleError):
        most_throughput(problem, 2.0, Options(1.0))


def test_teams_of_which_no_period_is_as_short_as_a_core_is_busy_are_refused() -> None:
    """Two seconds of each core, and three turns: what is on two cores is beside nothing."""
    cores = {"a": (0, 1), "b": (1, 2), "c": (0, 2)}
    rows = [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}]
    problem = independent(rows, cores, a=(2, 1), b=(2, 1), c=(2, 1))
    for plan in (most_throughput, least_energy):
        with pytest.raises(SolverError, match="one holds all cores of the other"):
            plan(problem, 9.0, QUICK)


def test_of_teams_that_draw_less_than_their_cores_idle_with_nothing_is_proven() -> None:
    """Both cores idle with 4 W where `wide` is in use, and `narrow` draws 1 W on one of them."""
    cores = {"wide": (0, 1), "narrow": (0,)}
    problem = independent([{"narrow": 1.0}, {"wide": 1.0}], wide=(9, 8), narrow=(1, 1), cores=cores)
    found = most_throughput(problem, 9.0, QUICK)
    assert found.bound <= found.period and found.bound == 0.0


def test_a_batch_of_several_has_no_bound() -> None:
    problem = independent([{"a": 1.0}], a=(2, 1))
    several = replace(problem, objective=replace(problem.objective, batch=2))
    assert least_energy(several, 4.0, QUICK).bound == 0.0


def test_what_or_tools_proves_wrongly_is_not_asked_for() -> None:
    """Both tasks on `a` take 2 J. With inclusions looked for presolve makes `c` be in use."""
    devices = (
        Device("a", cores=(0, 1, 2), memory=12, watts=3.0),
        Device("b", watts=6.5, idle_watts=2.0),
        Device("c", cores=(0, 1, 2), memory=12, watts=4.5, idle_watts=0.5, overlap=True),
    )
    rows = {"x": (2 * THIRD, THIRD, 1 + 1e-7), "y": (0.0, 0.1, 1.0)}
    costs = {
        task: {d.name: Cost(((1, seconds),)) for d, seconds in zip(devices, row, strict=True)}
        for task, row in rows.items()
    }
    bytes_a_second = {"ab": 24.0, "ba": 8 / 3, "cb": 3.0, "bc": 1e9, "ac": 1e9, "ca": 8 / 3}
    links = tuple(Link(*ends, bandwidth=rate) for ends, rate in bytes_a_second.items())
    graph = TaskGraph([Task("x", output_bytes=8), Task("y", output_bytes=4)], [Edge("x", "y", 8)])
    problem = Problem(graph, costs, Platform(devices, links), Objective("throughput"))
    found = least_energy(problem, 4.0, QUICK)
    assert found.joules == pytest.approx(2.0) and 1.999 < found.bound <= found.joules


def test_nothing_is_moved_in_vain_to_keep_a_device_from_idling() -> None:
    """`a` draws nothing while it receives: from `b`, where both tasks are dearer than on `c`."""
    devices = (
        Device("a", watts=0.0, idle_watts=1.0),
        Device("b", watts=4.5, overlap=True),
        Device("c", watts=4.0),
    )
    rows = {"x": {"b": 1.0, "c": 1.0}, "y": {"a": 100.0, "b": 1.0, "c": 1.0}, "z": {"a": 1.0}}
    costs = {
        task: {name: Cost(((1, seconds),)) for name, seconds in row.items()}
        for task, row in rows.items()
    }
    graph = TaskGraph([Task("x", output_bytes=8), Task("y"), Task("z")], [Edge("x", "y", 8)])
    platform = Platform(devices, (Link("b", "a", bandwidth=4.0),))
    problem = Problem(graph, costs, platform, Objective("throughput"))
    found = least_energy(problem, 4.0, QUICK)
    assert found.joules == pytest.approx(11.0) and 10.99 < found.bound <= found.joules
