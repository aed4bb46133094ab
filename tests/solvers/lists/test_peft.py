"""PEFT against its paper."""

from __future__ import annotations

import pytest

from tests.solvers.examples import problem_of, processors
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.lists.peft import optimistic_cost_table, peft
from tvm_hetero.views.instance import Instance


def arabnejad() -> Problem:
    """Figure 1 of the PEFT paper: 10 tasks on 3 processors, 133 by HEFT and 122 by PEFT."""
    times = {
        1: (22, 21, 36), 2: (22, 18, 18), 3: (32, 27, 43), 4: (7, 10, 4), 5: (29, 27, 35),
        6: (26, 17, 24), 7: (14, 25, 30), 8: (29, 23, 36), 9: (15, 21, 8), 10: (13, 16, 33),
    }  # fmt: skip
    transfers = {
        (1, 2): 17, (1, 3): 31, (1, 4): 29, (1, 5): 13, (1, 6): 7, (2, 8): 3, (2, 9): 30,
        (3, 7): 16, (4, 8): 11, (4, 9): 7, (5, 9): 57, (6, 8): 5, (7, 10): 9, (8, 10): 42,
        (9, 10): 7,
    }  # fmt: skip
    edges = [Edge(f"n{i}", f"n{j}", b, f"n{i}-{j}") for (i, j), b in transfers.items()]
    costs = {
        f"n{i}": {f"p{k}": Cost(((1, float(s)),)) for k, s in enumerate(row, start=1)}
        for i, row in times.items()
    }
    return Problem(
        TaskGraph([Task(f"n{i}") for i in times], edges), costs, processors(3, bandwidth=1.0)
    )


def test_paper_example_takes_122_where_heft_takes_133() -> None:
    assert solve(arabnejad(), "heft").value == 133.0
    assert solve(arabnejad(), "peft").value == 122.0


def test_optimistic_costs_are_those_of_the_paper() -> None:
    instance = Instance(arabnejad())
    table = optimistic_cost_table(instance, (0, 1, 2))
    assert table == [
        [64, 68, 86], [42, 39, 42], [27, 41, 43], [42, 39, 50], [28, 37, 28],
        [42, 39, 44], [13, 16, 22], [13, 16, 33], [13, 16, 20], [0, 0, 0],
    ]  # fmt: skip
    # rank_oct 72.7, 41, 37, 43.7, 31, 41.7, 17, 20.7, 16.3, 0: of the ready, the largest.
    names = [instance.tasks[v] for v in peft(instance, (0, 1, 2)).order]
    assert names == ["n1", "n4", "n6", "n2", "n3", "n5", "n8", "n7", "n9", "n10"]


def test_looks_past_the_device_on_which_a_task_ends_first() -> None:
    # `a` is quicker on p2, but what follows can run on p1 only, and the copy takes long.
    costs = {"a": {"p1": 2.0, "p2": 1.0}, "b": {"p1": 1.0}}
    problem = problem_of(costs, [("a", "b", 5)], processors(2, bandwidth=1.0))
    assert solve(problem, "peft").value == 3.0
    assert peft(Instance(problem), (0, 1)).score(0, 1, 1.0) == 7.0


def test_the_table_knows_only_devices_in_use() -> None:
    costs = {"a": {"p1": 2.0, "p2": 1.0}, "b": {"p1": 1.0, "p2": 9.0}}
    instance = Instance(problem_of(costs, [("a", "b", 0)], processors(2)))
    assert optimistic_cost_table(instance, (1,))[0] == [0.0, 9.0]


@pytest.mark.parametrize("kind", ["throughput", "latency"])
def test_answers_bear_its_name(kind: str) -> None:
    costs = {f"t{i}": {"p1": 1.0, "p2": 1.0} for i in range(4)}
    problem = problem_of(costs, [], processors(2), Objective(kind))  # type: ignore[arg-type]
    answer = solve(problem, "peft")
    assert (answer.solver, answer.value) == ("peft", 2.0)
