"""What tasks weigh before anything is measured."""

from __future__ import annotations

import pytest

from tvm_hetero import zoo
from tvm_hetero.online.hints import task_weights
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.zoo.files import LISTED, stored_layers


@pytest.mark.parametrize("name", LISTED)
def test_tasks_of_a_list_weigh_what_its_layers_do(name: str) -> None:
    weights = task_weights(zoo.problem(f"layers-{name}").graph)
    assert {task: weights[task] for task in weights if task not in ("input", "output")} == {
        layer.name: layer.weight for layer in stored_layers(name).layers
    }
    assert weights["input"] == weights["output"] == 0


def test_an_imported_network_weighs_its_multiply_adds() -> None:
    graph = zoo.problem("light-resnet50").graph
    total = sum(task_weights(graph).values())
    assert total / 1e9 == pytest.approx(4.1, rel=0.03)


def test_what_multiplies_nothing_weighs_what_it_reads() -> None:
    tasks = [
        Task("a", output_bytes=400),
        Task("b", "add", output_bytes=400, flops=100.0),
        Task("c", "maxpool", output_bytes=100, flops=1800.0, bytes=500.0),
        Task("d", "conv", weight_bytes=80, output_bytes=40, flops=4000.0, bytes=220.0),
    ]
    edges = [Edge("a", "b", 400), Edge("b", "c", 400)]
    weights = task_weights(TaskGraph(tasks, edges))
    assert weights == {"a": 0.0, "b": 100.0, "c": 100.0, "d": 2000.0}
    assert task_weights(TaskGraph(tasks, edges), width=2)["c"] == 200.0


def test_a_task_without_tensors_before_it_weighs_what_it_moves() -> None:
    pool = Task("p", "avg_pool", output_bytes=100, flops=900.0, bytes=500.0)
    assert task_weights(TaskGraph([pool], [])) == {"p": 100.0}
