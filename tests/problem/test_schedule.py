"""The schedule format: what is written is read again, and every refusal names its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import FormatError
from tvm_hetero.problem.schedule import (
    Copy,
    Execution,
    Robustness,
    Schedule,
    SingleDevice,
    schedule_from_dict,
    schedule_to_dict,
)


def example() -> Schedule:
    return Schedule(
        problem="ab" * 32,
        solver="milp-split",
        kind="latency",
        executions=(
            Execution("relu1", "little", (0,), 0.0015, 0.003),
            Execution("conv1", "big", (0,), 0.0, 0.0012),
        ),
        copies=(Copy("conv1", (0,), "big", "little", 0.0012, 0.0015),),
        value=0.004,
        lower_bound=0.003,
        best_single_device=SingleDevice("big", 0.021),
        seed=7,
        seconds=0.31,
    )


def test_gap_and_placement() -> None:
    schedule = example()
    assert schedule.gap == pytest.approx(0.25)
    assert replace(schedule, value=0.0, lower_bound=0.0).gap == 0.0
    assert replace(schedule, lower_bound=1.0).gap == 0.0
    assert schedule.placement == {"conv1": ("big",), "relu1": ("little",)}


def test_a_divided_task_has_its_places_in_order_of_start() -> None:
    parts = (
        Execution("t", "b", (1,), 1.0, 2.0),
        Execution("t", "a", (0,), 0.0, 1.0),
        Execution("t", "b", (2,), 2.0, 3.0),
    )
    assert replace(example(), executions=parts).placement == {"t": ("a", "b")}


times = st.just(0.0) | st.floats(1e-30, 1e6)
words = st.text(min_size=1, max_size=5)
elements = st.lists(st.integers(0, 99), max_size=3).map(tuple)
schedules = st.builds(
    Schedule,
    problem=words,
    solver=words,
    kind=words,
    executions=st.lists(st.builds(Execution, words, words, elements, times, times)).map(tuple),
    copies=st.lists(st.builds(Copy, words, elements, words, words, times, times)).map(tuple),
    value=times,
    lower_bound=times,
    status=st.sampled_from(["optimal", "feasible"]),
    best_single_device=st.one_of(st.none(), st.builds(SingleDevice, words, times)),
    seed=st.integers(),
    seconds=times,
)


@given(schedules)
def test_schedules_come_back(schedule: Schedule) -> None:
    again = Schedule.loads(schedule.dumps())
    assert again == schedule
    assert again.seconds == schedule.seconds
    assert again.dumps() == schedule.dumps()


def test_files_come_back(tmp_path: Path) -> None:
    example().save(tmp_path / "s.json")
    assert Schedule.load(tmp_path / "s.json") == example()


def test_wall_time_is_no_part_of_the_answer() -> None:
    """Same problem, options and seed: the same schedule, byte for byte."""
    slow = replace(example(), seconds=99.0)
    assert slow == example()
    assert slow.dumps(canonical=True) == example().dumps(canonical=True)
    assert slow.dumps() != example().dumps()


def test_the_text_is_json_with_one_row_a_line() -> None:
    text = example().dumps()
    assert json.loads(text) == schedule_to_dict(example())
    assert sum('"task"' in line for line in text.splitlines()) == 2
    assert schedule_to_dict(example())["gap"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "x", "expected .*schedule/1"),
        (["copys"], [], "unknown key 'copys'; did you mean 'copies'?"),
        (["status"], "best", "status: expected one of 'optimal', 'feasible', got 'best'"),
        (["status"], ["optimal"], "status: expected one of 'optimal', 'feasible'"),
        (["problem"], 5, "problem: expected a name, got 5"),
        (["objective"], 0.1, "objective: expected a mapping, got 0.1"),
        (["objective", "value"], -1, "objective: value: expected a finite number of at least 0"),
        (["objective", "vale"], 1, "objective: unknown key 'vale'"),
        (["lower_bound"], "low", "lower_bound: expected number"),
        (["seed"], 1.5, "seed: expected an integer, got 1.5"),
        (["executions"], {}, r"executions: expected a list, got \{\}"),
        (["executions", 1], 3, "execution 1: expected a mapping, got 3"),
        (["executions", 1, "task"], "", "execution 1: task: expected a name, got ''"),
        (["executions", 1, "begin"], 0, "execution 1: unknown key 'begin'"),
        (["executions", 1, "start"], -1, "execution 1: start: expected a finite number"),
        (
            ["executions", 1, "elements"],
            [0.5],
            r"execution 1: elements\[0\]: expected an integer of at least 0, got 0.5",
        ),
        (
            ["executions", 1, "elements"],
            [0, -1],
            r"elements\[1\]: expected an integer of at least 0, got -1",
        ),
        (["copies", 0, "from"], None, "copy 0: from: expected a name, got None"),
        (["copies", 0, "end"], "late", "copy 0: end: expected number"),
        (["best_single_device"], "big", "best_single_device: expected a mapping, got 'big'"),
    ],
)
def test_refused(path: list[Any], value: object, message: str) -> None:
    document = schedule_to_dict(example())
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(FormatError, match=message) as error:
        schedule_from_dict(document, "s.json")
    assert str(error.value).startswith("s.json: ")


@pytest.mark.parametrize(
    "key", ["format", "problem", "solver", "status", "executions", "copies", "objective"]
)
def test_missing_keys(key: str) -> None:
    document = schedule_to_dict(example())
    del document[key]
    with pytest.raises(FormatError, match=f"s.json: key '{key}' is missing"):
        schedule_from_dict(document, "s.json")


def test_the_gap_is_not_believed() -> None:
    document = schedule_to_dict(example())
    document["gap"] = 0.0
    assert schedule_from_dict(document).gap == pytest.approx(0.25)


def test_what_a_plan_is_worth_when_costs_are_off_is_kept() -> None:
    robust = replace(example(), robust=Robustness(0.1, 100, 7, 0.0041, 0.0045, late=3))
    assert Schedule.loads(robust.dumps()) == robust
    assert "robust" not in schedule_to_dict(example())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"perturbation": 1.0}, "perturbation below 1"),
        ({"samples": 0}, "samples: expected an integer of at least 1"),
        ({"late": 101}, "late"),
        ({"mean": "x"}, "mean"),
        ({"guess": 1}, "guess"),
    ],
)
def test_a_robust_entry_that_makes_no_sense(change: dict[str, Any], says: str) -> None:
    robust = replace(example(), robust=Robustness(0.1, 100, 7, 0.0041, 0.0045))
    document = schedule_to_dict(robust)
    document["robust"] |= change
    with pytest.raises(FormatError, match=says):
        schedule_from_dict(document)
