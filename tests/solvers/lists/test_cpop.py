"""CPOP against its paper."""

from __future__ import annotations

import pytest

from tests.solvers.examples import problem_of, processors, topcuoglu
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.lists.cpop import critical_path_device, critical_path_tasks
from tvm_hetero.solvers.lists.ranks import MeanCopies, downward_ranks, ready_order, upward_ranks
from tvm_hetero.views.instance import Instance


def test_paper_example_takes_86() -> None:
    answer = solve(topcuoglu(), "cpop")
    assert answer.value == 86.0
    # SET_CP on p_CP.
    assert {answer.placement[task] for task in ("n1", "n2", "n9", "n10")} == {("p2",)}


def test_downward_ranks_and_critical_path_are_those_of_the_paper() -> None:
    instance = Instance(topcuoglu())
    copies = MeanCopies(instance)
    published = [0.0, 31.0, 25.0, 22.0, 24.0, 27.0, 62.333, 66.667, 63.667, 93.333]
    assert downward_ranks(instance, copies) == pytest.approx(published, abs=1e-3)
    path = critical_path_tasks(instance, upward_ranks(instance, copies), copies)
    assert [instance.tasks[v] for v in path] == ["n1", "n2", "n9", "n10"]
    assert instance.names[critical_path_device(instance, path, (0, 1, 2))] == "p2"


def test_what_a_device_cannot_run_counts_with_the_slowest_that_can() -> None:
    costs = {"a": {"p1": 1.0}, "b": {"p1": 9.0, "p2": 1.0}, "c": {"p2": 1.0}, "d": {"p2": 1.0}}
    edges = [("a", "b", 1), ("b", "c", 1), ("c", "d", 1)]
    instance = Instance(problem_of(costs, edges, processors(2, bandwidth=1.0)))
    # p1: 1 + 9 + 1 + 1, p2: 1 + 1 + 1 + 1.
    assert critical_path_device(instance, [0, 1, 2, 3], (0, 1)) == 1
    assert solve(instance.problem, "cpop").value == 5.0


def test_ready_order_takes_makers_first_whatever_the_priorities() -> None:
    instance = Instance(topcuoglu())
    order = ready_order(instance, [float(v) for v in range(10)])
    assert order == [0, 5, 4, 3, 2, 6, 1, 8, 7, 9]
