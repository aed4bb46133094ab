"""States in the passes: who reads them, where they live, what they count."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tvm_ffi import structural_equal

from tests.executor.native_plans import planned
from tests.models import as_schedule, lowered, random_schedule, two_cpus, unit_problem
from tests.stateful_model import LENGTH, WIDTH, running_sums
from tvm_hetero.errors import ModelError
from tvm_hetero.passes.annotate_devices import annotate_devices, strip_devices
from tvm_hetero.passes.attributes import RANGES, STATE_SETS, STATES
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.passes.states import state_readers
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective

BYTES = 4 * LENGTH * WIDTH


def changed(name: str, value: object):
    """The lowered model with another attribute of ``main``."""
    mod = lowered(running_sums(), two_cpus())
    mod["main"] = mod["main"].with_attr(name, value)
    return mod


def test_lowering_keeps_the_attributes_and_the_tasks_their_bytes() -> None:
    mod = lowered(running_sums(), two_cpus())
    tasks = extract_tasks(mod)
    assert tasks.states == (2, 3, 4)
    keepers = [task for task in tasks.graph.index if "remember" in task]
    assert tasks.state_bytes == dict.fromkeys(keepers, BYTES) and len(keepers) == 3
    assert [task for task in tasks.graph.index if task not in keepers]
    # Inputs and states make no edges: they are there from the start.
    assert all(edge.src in tasks.graph.index for edge in tasks.graph.edges)


def test_a_problem_counts_the_states_of_the_whole_batch_and_of_every_set() -> None:
    for sets in (1, 2):
        mod = changed(STATE_SETS, sets)
        problem = make_problem(
            mod,
            fast(two_cpus()),
            PartitionOptions(objective=Objective(batch=3), cost_model="analytical"),
        ).problem
        plain = extract_tasks(mod).graph
        for task in problem.graph.tasks:
            own = 3 * sets * BYTES if "remember" in task.id else 0
            assert task.weight_bytes == plain.task(task.id).weight_bytes + own


def fast(platform: Platform) -> Platform:
    """The platform with figures for the analytical cost model."""
    rows = tuple(replace(d, peak_flops=1e11, bandwidth=1e10) for d in platform.devices)
    return replace(platform, devices=rows)


def test_a_state_lives_on_the_device_of_its_reader_and_is_never_copied() -> None:
    host, apart = two_cpus().devices
    private = replace(apart, private=True, overlap=False)
    place = Platform((host, private), links=two_cpus().links, name="apart")
    mod = lowered(running_sums(), place)
    problem = make_problem(
        mod, fast(place), PartitionOptions(objective=Objective(batch=2), cost_model="analytical")
    ).problem
    assert not any(task.id in ("input.2", "input.3") for task in problem.tasks)
    steps = []
    for task in problem.tasks:
        devices = problem.devices_for(task.id)
        steps += [(task.id, devices[element % len(devices)], (element,)) for element in (0, 1)]
    placed = annotate_devices(mod, problem, as_schedule(problem, steps))
    split = split_segments(placed)
    plan = planned(split, problem.platform)
    rows = {row["name"]: row for row in plan["inputs"]}
    assert {name for name, row in rows.items() if row.get("state")} == {
        f"sum.{layer}#{element}" for layer in range(3) for element in (0, 1)
    }
    for layer in range(3):
        spaces = [
            plan["slots"][rows[f"sum.{layer}#{element}"]["slot"]]["device"] for element in (0, 1)
        ]
        assert spaces == [0, 1]
    assert rows["position#1"]["range"] == [0, LENGTH - 1] and "range" not in rows["x#0"]
    copied = {slot for step in plan["steps"] if step["kind"] == "copy" for slot in step["ins"]}
    assert copied and not copied & {row["slot"] for row in rows.values() if row.get("state")}


@pytest.mark.parametrize("batch", [1, 3])
def test_stripping_undoes_annotating(batch: int) -> None:
    mod = lowered(running_sums(), two_cpus())
    problem = unit_problem(mod, two_cpus(), batch)
    placed = annotate_devices(mod, problem, random_schedule(problem, 1))
    main = read_main(placed)
    assert len(state_readers(main)) == 3 * batch
    again = strip_devices(placed)
    assert [str(n) for n in again["main"].attrs[STATES]] == ["sum.0", "sum.1", "sum.2"]
    assert structural_equal(
        again, strip_devices(annotate_devices(again, problem, random_schedule(problem, 2)))
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (STATES, ["sum.0", "sun.1"], "'sun.1', which is no input"),
        (STATES, ["position"], "state 'position' is read by"),
        (RANGES, "[1]", "expected JSON such as"),
        (RANGES, '{"position": 3}', "expected JSON such as"),
    ],
)
def test_what_is_wrong_is_said(name: str, value: object, words: str) -> None:
    mod = changed(name, value)
    with pytest.raises(ModelError, match=words):
        problem = unit_problem(mod, two_cpus())
        placed = annotate_devices(mod, problem, random_schedule(problem, 0))
        planned(split_segments(placed), two_cpus())


def test_ranges_are_json() -> None:
    mod = lowered(running_sums(), two_cpus())
    assert json.loads(str(mod["main"].attrs[RANGES])) == {"position": [0, LENGTH - 1]}


def test_no_state_no_attribute() -> None:
    from tests.models import branchy

    mod = lowered(branchy(), two_cpus())
    problem = unit_problem(mod, two_cpus(), 2)
    placed = annotate_devices(mod, problem, random_schedule(problem, 0))
    assert STATES not in placed["main"].attrs and extract_tasks(mod).states == ()
