"""The judge of the page holds the same rules as Python's, on random problems and schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.report.explorer.node_judge import NodeJudge
from tests.strategies import orders, problems
from tvm_hetero.check import check_schedule
from tvm_hetero.check.value import objective_value
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.objective_kinds import KINDS
from tvm_hetero.problem.schedule import Schedule, SingleDevice, schedule_to_dict
from tvm_hetero.problem.simulate import simulate
from tvm_hetero.report.explorer.data import MOST_EXECUTIONS, problem_data
from tvm_hetero.solvers import Options, solve

RANDOM = {
    "kinds": KINDS, "batch": 3, "memory": True, "feasible": False, "exact": False,
    "contiguous": True, "teams": True, "energies": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def node() -> Iterator[NodeJudge]:
    with NodeJudge() as judge:
        yield judge


@st.composite
def plans(draw: st.DrawFn) -> tuple[Problem, list[Any], Schedule]:
    """A problem, steps, and what they are when they are carried out."""
    problem = draw(problems(**RANDOM))
    steps = draw(orders(problem))
    executions, copies = simulate(problem, steps)
    value = objective_value(problem, executions, copies)
    kind = problem.objective.kind
    return problem, steps, Schedule(problem.digest, "x", kind, executions, copies, value, 0.0)


@settings(max_examples=draws(20))
@given(plans())
def test_times_and_value_are_the_same_to_the_last_bit(
    node: NodeJudge, plan: tuple[Problem, list[Any], Schedule]
) -> None:
    problem, steps, schedule = plan
    tasks, devices = problem.graph.index, problem.platform.index
    rows = [[tasks[t], devices[d], list(elements)] for t, d, elements in steps]
    told = node.ask(data=problem_data(problem), steps=rows)
    assert told["value"] == schedule.value
    assert [(e["task"], e["device"], e["start"], e["end"]) for e in told["executions"]] == [
        (tasks[e.task], devices[e.device], e.start, e.end) for e in schedule.executions
    ]
    assert [(c["src"], c["dst"], c["start"], c["end"]) for c in told["copies"]] == [
        (devices[c.src], devices[c.dst], c.start, c.end) for c in schedule.copies
    ]


@settings(max_examples=draws(30))
@given(plans(), st.data())
def test_what_is_wrong_with_a_schedule_is_wrong_by_the_same_rules(
    node: NodeJudge, plan: tuple[Problem, list[Any], Schedule], data: st.DataObject
) -> None:
    problem, _, schedule = plan
    for _ in range(data.draw(st.integers(0, 2))):
        schedule = spoil(problem, schedule, data)
    document = json.loads(json.dumps(schedule_to_dict(schedule)))
    told = node.ask(data=problem_data(problem), document=document)
    found = check_schedule(problem, schedule)
    assert [(v["rule"], v["amount"]) for v in told] == [
        (v.rule, pytest.approx(v.amount, rel=1e-9, abs=1e-12)) for v in found
    ], (told, found)


def small(objective: Objective, memory: int | None = None, color: str | None = None) -> Problem:
    """A chain of three tasks on two devices with a link each way."""
    tasks = [Task("a", output_bytes=8, color=color), Task("b", color=color), Task("c")]
    row = {"d": Cost(((1, 1.0),)), "e": Cost(((1, 2.0),))}
    figures = {"watts": 1.0, "memory": memory}
    return Problem(
        TaskGraph(tasks, [Edge("a", "b", 8), Edge("b", "c", 8)]),
        dict.fromkeys(("a", "b", "c"), row),
        Platform((Device("d", **figures), Device("e", **figures)), (), (Fabric("node0", 8.0),)),
        objective,
    )


def change(schedule: Schedule, i: int, **fields: Any) -> Schedule:
    runs = list(schedule.executions)
    runs[i] = replace(runs[i], **fields)
    return replace(schedule, executions=tuple(runs))


LATENCY = small(Objective())
BROKEN: dict[str, tuple[Problem, Callable[[Schedule], Schedule], int]] = {
    "durations": (LATENCY, lambda s: change(s, 2, start=s.executions[2].start - 0.5), 1),
    "colors": (small(Objective(), color="x"), lambda s: s, 1),
    "resources": (LATENCY, lambda s: change(s, 2, start=0.0, end=1.0), 2),
    "copies gone": (LATENCY, lambda s: replace(s, copies=s.copies[1:]), 3),
    "copies unneeded": (
        LATENCY,
        lambda s: change(s, 1, device="d", end=s.executions[1].end - 1),
        3,
    ),
    "inputs": (LATENCY, lambda s: change(s, 1, start=0.0, end=2.0), 5),
    "memory": (small(Objective(), memory=7), lambda s: s, 6),
    "limit": (small(Objective("energy", latency_limit=0.5)), lambda s: s, 7),
    "value": (LATENCY, lambda s: replace(s, value=1.0), 7),
    "stages": (small(Objective("throughput", contiguous=True)), lambda s: s, 8),
    "words": (LATENCY, lambda s: replace(s, lower_bound=1e9), 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_judged(node: NodeJudge, name: str) -> None:
    """Each is broken by a schedule of a, b and c on d, e and d; random ones may miss one."""
    problem, spoiled, rule = BROKEN[name]
    executions, copies = simulate(problem, [("a", "d", (0,)), ("b", "e", (0,)), ("c", "d", (0,))])
    value = objective_value(problem, executions, copies)
    kind = problem.objective.kind
    schedule = spoiled(Schedule(problem.digest, "x", kind, executions, copies, value, 0.0))
    told = node.ask(data=problem_data(problem), document=schedule_to_dict(schedule))
    found = check_schedule(problem, schedule)
    assert rule in {violation.rule for violation in found}
    assert [(v["rule"], v["amount"]) for v in told] == [
        (v.rule, pytest.approx(v.amount)) for v in found
    ]


def spoil(problem: Problem, schedule: Schedule, data: st.DataObject) -> Schedule:
    """The schedule with something changed: a time, a place, a copy, or what it says of itself."""
    runs, copies = list(schedule.executions), list(schedule.copies)
    if not runs:  # all of it is gone already
        return schedule
    what = data.draw(st.sampled_from(["time", "place", "copy", "elements", "words", "gone"]))
    i = data.draw(st.integers(0, len(runs) - 1))
    by = data.draw(st.sampled_from([-1.0, -0.125, 0.125, 1.0, 100.0]))
    device = data.draw(st.sampled_from([*problem.platform.names, "nobody"]))
    if what == "time":
        runs[i] = replace(runs[i], start=runs[i].start + by, end=runs[i].end + by)
    elif what == "place":
        runs[i] = replace(runs[i], device=device)
    elif what == "elements":
        runs[i] = replace(runs[i], elements=data.draw(st.sampled_from([(), (0,), (0, 0), (7,)])))
    elif what == "gone":
        del runs[i]
    elif what == "copy" and copies:
        j = data.draw(st.integers(0, len(copies) - 1))
        changed = replace(copies[j], start=max(0.0, copies[j].start + by))
        where = replace(copies[j], dst=device)
        copies[j : j + 1] = data.draw(
            st.sampled_from(
                [[], [copies[j]] * 2, [changed], [where], [replace(copies[j], elements=(0, 1))]]
            )
        )
    elif what == "words":
        return data.draw(
            st.sampled_from(
                [
                    replace(schedule, value=schedule.value + by),
                    replace(schedule, lower_bound=schedule.value * 2 + 1),
                    replace(schedule, status="optimal"),
                    replace(schedule, problem="0" * 64),
                    replace(schedule, kind="money"),
                    replace(schedule, best_single_device=SingleDevice(device, schedule.value / 2)),
                ]
            )
        )
    return replace(schedule, executions=tuple(runs), copies=tuple(copies))


def test_a_plan_is_read_up_to_as_many_executions_as_a_page_can_handle(node: NodeJudge) -> None:
    problem = Problem(
        TaskGraph([Task("t")], []), {"t": {"d": Cost(((1, 1.0),))}}, Platform((Device("d"),))
    )
    schedule = solve(problem, "auto", Options(60.0))
    document = schedule_to_dict(schedule)
    for count, told in ((MOST_EXECUTIONS, False), (MOST_EXECUTIONS + 1, True)):
        many = document | {"executions": document["executions"] * count}
        answer = node.ask(data=problem_data(problem), document=many)
        assert (isinstance(answer, dict) and f"{count} rows are more" in answer["error"]) == told
