"""How many cores a task gets: CPA, MCPA and the work-area rule on graphs that are worked out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given

from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import KINDS, Cost, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.lists.allotment import Allotment
from tvm_hetero.solvers.lists.cpa import solve as solve_cpa
from tvm_hetero.solvers.lists.cpa import widen
from tvm_hetero.solvers.lists.mcpa import precedence_levels
from tvm_hetero.solvers.lists.mcpa import solve as solve_mcpa
from tvm_hetero.solvers.lists.one_width import solve as solve_one_width
from tvm_hetero.solvers.lists.work_area import allot
from tvm_hetero.solvers.lists.work_area import solve as solve_work_area
from tvm_hetero.views.instance import instance_of

# Four cores in buddies, each twice as wide as the one below.
SETS = [(i,) for i in range(4)] + [(0, 1), (2, 3), (0, 1, 2, 3)]
RULES = {
    "cpa": solve_cpa,
    "mcpa": solve_mcpa,
    "work-area": solve_work_area,
    "one-width": solve_one_width,
}


def branches(count: int, speedup: Sequence[float], *, stem: bool = True) -> Problem:
    """`count` tasks of 8 s side by side, behind a stem; `speedup` on 1, 2 and 4 cores."""
    devices = tuple(Device(f"t{i}", cores=cores, overlap=True) for i, cores in enumerate(SETS))
    names = [f"b{i}" for i in range(count)] + (["stem"] if stem else [])
    edges = [Edge("stem", f"b{i}", 0) for i in range(count)] if stem else []
    by_width = dict(zip((1, 2, 4), speedup, strict=True))
    costs = {
        name: {d.name: Cost(((1, 8.0 / by_width[len(d.cores)]),)) for d in devices}
        for name in names
    }
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    return Problem(TaskGraph([Task(name) for name in names], edges), costs, platform)


def allotment(problem: Problem) -> Allotment:
    return Allotment(instance_of(problem), range(len(problem.platform.devices)))


def test_an_allotment_begins_narrow_and_knows_its_path_and_area() -> None:
    own = allotment(branches(4, (1, 2, 4)))
    assert own.cores == 4 and own.width == [1] * 5
    assert max(own.levels()) == 16.0
    assert own.area() == 5 * 8.0 / 4
    names = own.instance.tasks
    assert [names[v] for v in own.critical_path(own.levels())] == ["stem", "b0"]
    own.width[names.index("stem")] = 4
    assert max(own.levels()) == 10.0 and own.area() == 10.0


def test_cpa_widens_the_path_until_it_is_as_short_as_the_area() -> None:
    own = allotment(branches(4, (1, 2, 4)))
    widen(own, lambda v, p: True)
    assert max(own.levels()) <= own.area()
    assert own.width == [2] * 5


def test_cpa_does_not_widen_what_gets_slower() -> None:
    own = allotment(branches(1, (1.0, 0.5, 0.25)))
    widen(own, lambda v, p: True)
    assert own.width == [1, 1]


def test_mcpa_leaves_cores_for_what_runs_side_by_side() -> None:
    problem = branches(4, (1, 2, 4), stem=False)
    assert precedence_levels(instance_of(problem)) == [0, 0, 0, 0]
    assert {e.device for e in solve_mcpa(problem, Options()).executions} == {
        "t0", "t1", "t2", "t3",
    }  # fmt: skip


def test_a_price_of_area_makes_tasks_narrow() -> None:
    own = allotment(branches(2, (1, 1.5, 2)))
    allot(own, 0.0)
    assert own.width == [4, 4, 4]
    allot(own, 16.0)
    assert own.width == [1, 1, 1]


@pytest.mark.parametrize("name", RULES)
def test_branches_that_do_not_scale_run_side_by_side(name: str) -> None:
    answer = RULES[name](branches(4, (1, 1.1, 1.2), stem=False), Options())
    assert answer.value == 8.0


@pytest.mark.parametrize("name", RULES)
def test_a_chain_that_scales_runs_on_all_cores(name: str) -> None:
    problem = branches(1, (1, 2, 4))
    assert RULES[name](problem, Options()).value == 4.0


@given(problems(5, 3, kinds=KINDS, teams=True, batch=2))
def test_their_schedules_are_valid(problem: Problem) -> None:
    for rule in RULES.values():
        try:
            answer = rule(problem, Options())
        except InfeasibleError:
            continue
        assert check_schedule(problem, answer) == []
