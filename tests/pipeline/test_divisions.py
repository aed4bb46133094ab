"""Which ways to divide the cores are tried, and which are not worth it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.models import as_schedule, branchy, lowered, teams_of_cpus, unit_problem
from tests.pipeline.conftest import TWO_CORES
from tvm_hetero.cost_models.analytical import AnalyticalCosts
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.errors import SolverError
from tvm_hetero.pipeline.divisions import (
    division_here,
    may_gain,
    shared_contests,
    try_divisions,
    ways_to_divide,
)
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.platform import Platform
from tvm_hetero.platform.division import ONE_CORE_EACH, Division, usual_divisions
from tvm_hetero.problem import Objective
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.core_rows import fixed_width_value

LATENCY = PartitionOptions()
THROUGHPUT = PartitionOptions(objective=Objective("throughput"))


def planned(device: str, seconds: float) -> tuple[Schedule, Problem]:
    """A plan of a network that takes so long, on one device of a platform of teams."""
    module = lowered(branchy(), teams_of_cpus())
    problem = unit_problem(module, teams_of_cpus())
    steps = [(task, device, (0,)) for task in problem.graph.topological_order]
    return replace(as_schedule(problem, steps), value=seconds), problem


def test_for_latency_all_ways_of_this_machine_are_tried() -> None:
    assert ways_to_divide(LATENCY) == usual_divisions(Platform.detect())


@pytest.mark.parametrize("model", ["analytical", AnalyticalCosts()])
def test_costs_that_nobody_measures_are_for_devices_elsewhere(model: object) -> None:
    assert ways_to_divide(replace(LATENCY, cost_model=model)) == [Division()]


def test_for_throughput_cores_are_divided() -> None:
    assert ways_to_divide(THROUGHPUT) == [Division()]


def test_annotations_name_devices_of_divided_cores() -> None:
    assert ways_to_divide(replace(LATENCY, respect_annotations=True)) == [Division()]


def test_a_plan_in_seconds_is_on_teams_alone() -> None:
    assert ways_to_divide(PartitionOptions.quick()) == usual_divisions(Platform.detect())[:1]


@TWO_CORES
def test_of_a_batch_parts_of_the_cores_take_elements_and_teams_are_tried_beside() -> None:
    batch = replace(LATENCY, objective=Objective("latency", 4))
    ways = ways_to_divide(batch)
    assert ways[0] == division_here(batch) == Division()
    assert {way.teams for way in ways} == {way.teams for way in ways_to_divide(LATENCY)}


@TWO_CORES
def test_one_plan_is_on_teams_unless_its_solver_knows_none() -> None:
    assert division_here(LATENCY) == usual_divisions(Platform.detect())[0]
    assert division_here(replace(LATENCY, solver="segments")) == Division()


@pytest.mark.parametrize(
    ("device", "seconds", "expected"),
    [("both", 1e-3, True), ("big", 1e-3, False), ("both", 2e-5, False)],
)
def test_divided_cores_are_tried_beside_a_plan_that_uses_teams(
    device: str, seconds: float, expected: bool
) -> None:
    assert may_gain(Division(), *planned(device, seconds)) == expected


def test_one_core_each_is_tried_where_it_is_not_far_behind_by_prediction() -> None:
    schedule, problem = planned("both", 1.0)
    alone = fixed_width_value(problem, 1)
    assert alone is not None
    near, far = (replace(schedule, value=share * alone) for share in (0.9, 0.5))
    assert may_gain(ONE_CORE_EACH, near, problem)
    assert not may_gain(ONE_CORE_EACH, far, problem)
    assert may_gain(Division(), far, problem)


def test_a_way_that_cannot_be_had_is_told_of_and_the_next_one_taken() -> None:
    told: list[str] = []

    def make(way: Division) -> str:
        if way.teams != "none":
            raise SolverError(f"no {way.teams}")
        return "built"

    ways = [Division(teams="all"), Division()]
    assert try_divisions(ways, make, lambda error: told.append(str(error))) == ["built"]
    assert told == ["no all"]
    with pytest.raises(SolverError, match="no all"):
        try_divisions(ways[:1], make, lambda error: told.append(str(error)))


def test_ways_that_cannot_gain_are_not_made() -> None:
    schedule, problem = planned("big", 1.0)
    made: list[Division] = []

    def make(way: Division) -> tuple[object, str]:
        made.append(way)
        return SimpleNamespace(schedule=schedule, problem=problem), "built"

    assert len(try_divisions([Division(teams="all"), Division()], make, print)) == 1
    assert made == [Division(teams="all")]


def test_contests_of_kernels_are_held_once_for_all_ways() -> None:
    model, decided = ProfiledCosts(), {("k", 1): "packed"}
    with shared_contests(model, decided):
        assert model.decided == decided
    with shared_contests(AnalyticalCosts(), decided), nullcontext():
        assert decided == {("k", 1): "packed"}
