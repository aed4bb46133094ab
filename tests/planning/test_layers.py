"""What a device holds, in ranges of layers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tvm_hetero import zoo
from tvm_hetero.planning.layers import format_ranges, list_holdings
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate

PLATFORM = zoo.platform("diviml:2")


def placed(problem: Problem, homes: Mapping[str, object]) -> Schedule:
    """A schedule with every task where `homes` says: a device, or {device: elements}."""
    steps = []
    for task in problem.graph.topological_order:
        home = homes.get(task, "n0.cpu")
        shares = home if isinstance(home, dict) else {home: range(problem.batch)}
        steps += [(task, device, tuple(elements)) for device, elements in shares.items()]
    executions, copies = simulate(problem, steps)
    end = max(e.end for e in executions)
    return Schedule(problem.digest, "by hand", "latency", executions, copies, end, 0.0)


def told(problem: Problem, homes: Mapping[str, object]) -> dict[str, str]:
    return {h.device: h.holds for h in list_holdings(problem, placed(problem, homes))}


def test_runs_of_numbers():
    assert format_ranges([5, 1, 2, 3, 7, 3]) == "1-3, 5, 7"
    assert format_ranges([4]) == "4"
    assert format_ranges([]) == ""


def test_whole_layers_parts_and_ends():
    problem = zoo.problem("gpt2-small", PLATFORM, layers=4)
    homes = {"attention_1": "n0.t4", "feedforward_1": "n0.t4", "attention_2": "n0.t4",
             "feedforward_2": "n1.v100", "head": "n1.v100"}  # fmt: skip
    assert told(problem, homes) == {
        "n0.cpu": "embedding; layers 0, 3",
        "n0.t4": "layer 1; attention 2",
        "n1.v100": "feedforward 2; head",
    }


def test_shards_of_a_layer_are_counted():
    problem = zoo.problem("gpt2-small", PLATFORM, layers=2, shards=4)
    homes = {f"attention_{i}": "n0.t4" for i in (4, 5, 6)} | {"attention_7": "n1.t4"}
    found = told(problem, homes)
    assert found["n0.t4"] == "attention 1 (3 of 4 parts)"
    assert found["n1.t4"] == "attention 1 (1 of 4 parts)"
    assert found["n0.cpu"] == "embedding; layer 0; sum 1; feedforward 1; head"


@pytest.mark.parametrize("grain", ["attention", "products"])
def test_layers_in_smaller_tasks_begin_with_what_comes_first(grain: str):
    problem = zoo.problem("gpt2-small", PLATFORM, layers=3, grain=grain)
    second = {t.id for t in problem.tasks if t.id.endswith("_1")}
    found = told(problem, dict.fromkeys(second, "n0.t4") | {"up_2": "n0.t4", "qkv_2": "n1.t4"})
    assert found["n0.t4"] == ("layer 1" if grain == "attention" else "layer 1; up 2")
    assert found["n1.t4"] == "qkv 2"
    assert found["n0.cpu"].startswith("embedding; layer 0; ") and found["n0.cpu"].endswith("head")


def test_a_layer_of_a_transformer_begins_with_its_projections():
    problem = zoo.problem("gpt-24-decode", PLATFORM, layers=3, groups=2)
    first = {"qkv", "attention", "attention_1", "proj", "up", "down"}
    assert told(problem, dict.fromkeys(first, "n0.t4"))["n0.t4"] == "layer 0"


def test_experts_and_dense_layers_of_a_mixture():
    problem = zoo.problem("deepseek-v3", "mixed-4", layers=4, groups=2)
    homes = {"experts": "n1.gpu0", "experts_1": "n1.gpu0", "feedforward_1": "n1.gpu1"}
    found = told(problem, {t.id: "n0.cpu" for t in problem.tasks} | homes)
    assert found["n1.gpu0"] == "experts 3"
    assert found["n1.gpu1"] == "feedforward 1"
    assert found["n0.cpu"].startswith("embedding; layers 0, 2; attention 1, 3")


def test_shares_of_the_batch_are_told():
    problem = zoo.problem("gpt2-small", PLATFORM, Objective("latency", 8), layers=2)
    homes = {"feedforward": {"n0.cpu": range(5), "n1.t4": range(5, 8)}}
    found = {h.device: h for h in list_holdings(problem, placed(problem, homes))}
    assert found["n1.t4"].holds == "feedforward 0, 3 of 8 sequences"
    assert found["n0.cpu"].holds.endswith("feedforward 0, 5 of 8 sequences")
    assert (found["n1.t4"].shared, found["n1.t4"].tasks) == (1, 1)


def test_other_graphs_are_told_by_their_tasks():
    problem = zoo.problem("resnet18", "diviml")
    homes = {task.id: "cpu" for task in problem.tasks}
    names = [task.id for task in problem.tasks if task.op not in ("input", "output")]
    homes |= dict.fromkeys(names[2:5], "t4")
    found = told(problem, homes)
    assert found["t4"] == "tasks 2-4"
    assert found["cpu"].startswith("tasks 0-1, 5-")


def test_memory_and_time_are_those_of_the_rules():
    problem = zoo.problem("gpt2-small", PLATFORM, layers=4)
    schedule = placed(problem, {"attention_1": "n0.t4"})
    peaks = memory_peaks(problem, schedule.executions, schedule.copies)
    for holding in list_holdings(problem, schedule):
        assert holding.memory == peaks[holding.device]
        assert holding.capacity == PLATFORM.device(holding.device).memory
    t4 = next(h for h in list_holdings(problem, schedule) if h.device == "n0.t4")
    assert t4.seconds == pytest.approx(problem.seconds("attention_1", "n0.t4"))
