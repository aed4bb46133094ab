"""Counts of what symmetry saves, against counting one by one."""

from __future__ import annotations

import itertools
import math

import pytest

from tvm_hetero import zoo
from tvm_hetero.planning.symmetry_counts import symmetry_counts
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.views.symmetry import find_symmetry


def alike(nodes: int, devices: int, tasks: int) -> Problem:
    """Independent tasks on equal nodes of equal devices."""
    places = tuple(Device(f"n{i}.d{j}", node=f"n{i}") for i in range(nodes) for j in range(devices))
    fabrics = tuple(Fabric(f"n{i}", 4e9) for i in range(nodes)) if devices > 1 else ()
    platform = Platform(places, fabrics=(*fabrics, Fabric(None, 1e9)))
    cost = {d.name: Cost(((1, 1.0),)) for d in places}
    graph = TaskGraph([Task(f"t{i}") for i in range(tasks)], [])
    return Problem(graph, {task.id: cost for task in graph.tasks}, platform)


def orbits(problem: Problem) -> int:
    """Classes of placements, found by carrying each one around."""
    count = len(problem.platform.devices)
    generators = list(find_symmetry(problem).generators())
    left = set(itertools.product(range(count), repeat=len(problem.tasks)))
    found = 0
    while left:
        found += 1
        waiting = [left.pop()]
        while waiting:
            here = waiting.pop()
            for g in generators:
                there = tuple(g[d] for d in here)
                if there in left:
                    left.remove(there)
                    waiting.append(there)
    return found


@pytest.mark.parametrize(("nodes", "devices", "tasks"), [(3, 1, 4), (2, 2, 5), (1, 3, 4)])
def test_classes_are_at_least_placements_over_exchanges(nodes: int, devices: int, tasks: int):
    problem = alike(nodes, devices, tasks)
    counts = symmetry_counts(problem)
    assert counts.exchanges == math.factorial(nodes) * math.factorial(devices) ** nodes
    assert counts.placements == pytest.approx(math.log10((nodes * devices) ** tasks))
    exact = orbits(problem)
    assert 10**counts.classes <= exact * (1 + 1e-9)
    assert exact <= 2.5 * 10**counts.classes  # few tasks: symmetric placements count, too


def test_with_more_tasks_the_count_is_nearly_exact():
    problem = alike(2, 2, 8)
    assert orbits(problem) == pytest.approx(10 ** symmetry_counts(problem).classes, rel=0.1)


def test_six_servers():
    counts = symmetry_counts(zoo.problem("gpt3-175b", "gpt3-6node"))
    assert counts.exchanges == math.factorial(6)
    assert counts.types == 3
    assert counts.named == 2**18
    assert counts.counted == 6 * 2**3
    sched = symmetry_counts(zoo.problem("gpt3-175b", "sched-6"))
    assert sched.exchanges == math.factorial(6) * 2**6


def test_where_nothing_is_alike_nothing_is_saved():
    counts = symmetry_counts(zoo.problem("resnet18", "diviml"))
    assert (counts.exchanges, counts.types) == (1, 3)
    assert counts.classes == counts.placements
