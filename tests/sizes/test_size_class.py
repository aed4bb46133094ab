"""One schedule for a class of sizes: the nearest measured one's, at the times of the new size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_hetero.check import check_schedule
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.sizes.size_class import class_of, schedule_of_class
from tvm_hetero.solvers import solve


def fork(scale: float, kind: str = "latency", memory: int | None = None) -> Problem:
    """A task, two that may run at once, and one that joins them."""
    tasks = [Task(name, weight_bytes=100) for name in "abcd"]
    edges = [Edge(*pair, 1000) for pair in ("ab", "ac", "bd", "cd")]
    platform = Platform(
        devices=(Device("one", memory=memory), Device("two", memory=memory)),
        links=(Link("one", "two", 1e9, 1e-6), Link("two", "one", 1e9, 1e-6)),
    )
    costs = {
        name: {"one": Cost(((1, scale * 1e-3),)), "two": Cost(((1, scale * 1.1e-3),))}
        for name in "abcd"
    }
    return Problem(TaskGraph(tasks, edges), costs, platform, Objective(kind))


def test_the_nearest_measured_size_is_the_class_of_equals_the_smaller() -> None:
    assert class_of((192,), [(640,), (160,), (384,)]) == (160,)
    assert class_of((300,), [(160,), (384,), (640,)]) == (384,)
    assert class_of((20,), [(40,), (10,)]) == (10,)


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_placement_stays_and_times_are_the_new_sizes(kind: str) -> None:
    known = solve(fork(1.0, kind), "auto")
    larger = fork(2.0, kind)
    found = schedule_of_class(larger, known)
    assert found is not None
    assert found.placement == known.placement
    assert len({d for devices in known.placement.values() for d in devices}) == 2
    assert not check_schedule(larger, found)
    assert found.value == pytest.approx(2 * known.value, rel=0.01)
    assert found.lower_bound <= found.value
    assert found.best_single_device is not None and found.best_single_device.device == "one"


def test_a_size_of_other_tasks_has_no_schedule_of_another() -> None:
    problem = fork(1.0)
    known = solve(problem, "auto")
    tasks = [replace(t, id="e") if t.id == "d" else t for t in problem.tasks]
    edges = [replace(e, dst="e") if e.dst == "d" else e for e in problem.graph.edges]
    costs = {("e" if name == "d" else name): row for name, row in problem.costs.items()}
    assert (
        schedule_of_class(replace(problem, graph=TaskGraph(tasks, edges), costs=costs), known)
        is None
    )


def test_a_plan_that_the_memory_does_not_hold_is_not_taken_over() -> None:
    known = solve(fork(1.0), "auto")
    assert schedule_of_class(fork(1.0, memory=250), known) is None
