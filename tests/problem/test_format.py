"""The problem format: what is written is read again, and every refusal names its place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.strategies import problems
from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import KINDS, Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.util.documents import canonical_json, parse_document


def example() -> dict[str, Any]:
    """The example of the format, with a second task and a platform."""
    return {
        "format": "tvm-hetero/problem/1",
        "name": "resnet50",
        "platform": {
            "format": "tvm-hetero/platform/1",
            "devices": [{"name": "big"}, {"name": "little"}],
            "links": [{"from": "big", "to": "little", "bandwidth": "20GB/s"}],
        },
        "tasks": [
            {
                "id": "conv1",
                "op": "conv2d",
                "cost": {"big": 0.0012, "little": {"4": 0.015, "1": 0.004}},
                "weight_bytes": 37632,
                "output_bytes": 3211264,
                "flops": 2.4e8,
                "bytes": 4.1e6,
                "color": "c0",
            },
            {"id": "relu1", "cost": {"big": 0}},
        ],
        "edges": [{"src": "conv1", "dst": "relu1", "bytes": 3211264}],
        "objective": {"kind": "latency", "batch": 2},
    }


def test_the_example_of_the_format() -> None:
    problem = Problem.from_dict(example())
    assert problem.name == "resnet50"
    assert problem.tasks[0] == Task("conv1", "conv2d", 37632, 3211264, 2.4e8, 4.1e6, "c0")
    assert problem.costs["conv1"]["little"] == Cost(((1, 0.004), (4, 0.015)))
    assert problem.graph.edges == (Edge("conv1", "relu1", 3211264, "conv1"),)
    assert problem.objective == Objective("latency", 2)


def test_implementations_are_written_where_they_are_not_the_rule() -> None:
    document = example()
    plain = Problem.from_dict(document)
    assert "implementation" not in str(plain.to_dict())
    document["tasks"][0]["implementation"] = {"little": "tuned", "big": "rule"}
    problem = Problem.from_dict(document)
    assert problem.costs["conv1"]["little"].implementation == "tuned"
    assert problem.costs["conv1"]["big"] == plain.costs["conv1"]["big"]
    written = problem.to_dict()
    assert written["tasks"][0]["implementation"] == {"little": "tuned"}
    assert Problem.from_dict(written) == problem and problem.digest != plain.digest


def test_sizes_are_written_where_kernels_compute_several_elements() -> None:
    document = example()
    plain = Problem.from_dict(document)
    assert "sizes" not in str(plain.to_dict())
    document["tasks"][0]["sizes"] = {"little": [1, 4], "big": [1]}
    problem = Problem.from_dict(document)
    assert problem.costs["conv1"]["little"] == Cost(((1, 0.004), (4, 0.015)), sizes=(1, 4))
    assert problem.costs["conv1"]["big"] == plain.costs["conv1"]["big"]
    written = problem.to_dict()
    assert written["tasks"][0]["sizes"] == {"little": [1, 4]}
    assert Problem.from_dict(written) == problem and problem.digest != plain.digest


@given(problems(kinds=KINDS, batch=3, memory=True, exact=False))
def test_problems_come_back(problem: Problem) -> None:
    document = problem.to_dict()
    again = Problem.from_dict(parse_document(canonical_json(document), "p"))
    assert again == problem
    assert again.digest == problem.digest


@given(problems(kinds=KINDS, batch=3, memory=True, exact=False))
def test_the_digest_is_that_of_the_document_s_text(problem: Problem) -> None:
    """It is put together from the texts of costs: on many devices that is far quicker."""
    assert problem.digest == _digest_of(problem)


def test_nor_do_names_that_look_like_a_row_change_the_digest() -> None:
    task, cost = '{"cost":null}', Cost(((1, 3.0),), implementation="tuned", sizes=(1, 2))
    plain = {name: Cost(((1, 2.0), (2, 3.0))) for name in ("b", "a")}
    problem = Problem(
        TaskGraph([Task("cost"), Task(task, op='"cost":null')], [Edge("cost", task, 3)]),
        {"cost": plain, task: {"cost": cost}},
        Platform(tuple(Device(name) for name in ("b", "cost", "a"))),
        name='"tasks":[]}',
    )
    assert problem.digest == _digest_of(problem)


def _digest_of(problem: Problem) -> str:
    return hashlib.sha256(canonical_json(problem.to_dict()).encode()).hexdigest()


@given(problems(max_tasks=3))
def test_files_come_back(tmp_path_factory: pytest.TempPathFactory, problem: Problem) -> None:
    path = tmp_path_factory.mktemp("problem") / "p.json"
    problem.save(path)
    assert Problem.load(path) == problem


def test_whole_numbers_and_floats_are_one_problem() -> None:
    """A digest over 5 and one over 5.0 would part a problem from its own saved file."""

    def make(number: type[int] | type[float]) -> Problem:
        device = Device("a", watts=number(5), price=number(2))
        task = Task("t", flops=number(7), bytes=number(8))
        cost = {"t": {"a": Cost(((1, number(3)), (2, number(4))))}}
        graph = TaskGraph([task], [])
        return Problem(graph, cost, Platform((device,)), Objective("energy", 1, number(9)))

    assert make(int).digest == make(float).digest
    assert Problem.from_dict(make(int).to_dict()).digest == make(int).digest


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "x", "expected .*problem/1"),
        (["taks"], [], "unknown key 'taks'; did you mean 'tasks'?"),
        (["tasks"], {}, r"tasks: expected a list, got \{\}"),
        (["tasks"], [], "the graph has no tasks"),
        (["edges"], None, "edges: expected a list, got None"),
        (["tasks", 1], 3, "task 1: expected a mapping, got 3"),
        (["tasks", 1, "id"], "", "task 1: id: expected a name, got ''"),
        (["tasks", 1, "id"], "conv1", "task 'conv1' is given twice"),
        (["tasks", 1, "weight"], 3, "task 1: unknown key 'weight'; did you mean 'weight_bytes'?"),
        (["tasks", 1, "cost"], 3, r"task 1 \(relu1\): cost: expected \{device: seconds\}, got 3"),
        (["tasks", 1, "cost"], {}, "task 'relu1' has no cost on any device"),
        (["tasks", 1, "implementation"], 3, r"\(relu1\): implementation: expected \{device"),
        (["tasks", 1, "implementation"], {"little": "rule"}, "there is no cost on 'little'"),
        (["tasks", 1, "implementation"], {"big": "best"}, "expected one of .*got 'best'"),
        (["tasks", 1, "sizes"], [1, 4], r"\(relu1\): sizes: expected \{device: \[1, ...\]\}"),
        (["tasks", 1, "sizes"], {"little": [1]}, "sizes: there is no cost on 'little'"),
        (
            ["tasks", 1, "sizes"],
            {"big": 4},
            r"sizes on 'big': expected a list of integers such as \[0, 1\], got 4",
        ),
        (
            ["tasks", 1, "sizes"],
            {"big": [1, True]},
            r"sizes on 'big'\[1\]: expected an integer, got True",
        ),
        (["tasks", 1, "sizes"], {"big": [4]}, r"sizes on 'big': expected rising .* got \[4\]"),
        (["tasks", 1, "sizes"], {"big": [1, 4, 2]}, r"rising numbers from 1, got \[1, 4, 2\]"),
        (["tasks", 1, "cost", "big"], -1, "cost on 'big': expected a finite number of at least 0"),
        (["tasks", 1, "cost", "big"], "fast", "cost on 'big': expected number"),
        (["tasks", 1, "cost", "big"], {}, "cost on 'big': the table is empty"),
        (["tasks", 1, "cost", "big"], {"0": 1}, "expected batch sizes from 1 as keys, got '0'"),
        (["tasks", 1, "cost", "big"], {"x": 1}, "expected batch sizes from 1 as keys, got 'x'"),
        (["tasks", 1, "cost", "big"], {"9" * 5000: 1}, "expected batch sizes from 1 as keys"),
        (
            ["tasks", 1, "cost", "big"],
            {"1": 1, "01": 2},
            r"rising batch sizes from 1, got \[1, 1\]",
        ),
        (["tasks", 1, "cost", "big"], {"2": "x"}, "cost on 'big', batch 2: expected number"),
        (["tasks", 0, "output_bytes"], "3 apples", "output_bytes: expected size"),
        (["tasks", 0, "flops"], None, "flops: expected number"),
        (["tasks", 0, "color"], 3, "color: expected a name, got 3"),
        (["edges", 0, "dst"], "relu2", "edge 'conv1' -> 'relu2': there is no task 'relu2'"),
        (["edges", 0, "dst"], "conv1", "in a cycle: conv1 -> conv1"),
        (["edges", 0, "bytes"], -4, "edge 0: bytes: expected a finite size"),
        (["edges", 0, "sorce"], 1, "edge 0: unknown key 'sorce'"),
        (["objective", "kind"], "speed", "unknown kind 'speed'"),
        (["objective", "batch"], 1.5, "batch: expected an integer, got 1.5"),
        (["objective", "batch"], True, "batch: expected an integer, got True"),
        (["objective", "latency_limit"], 1.0, "latency takes no latency_limit"),
        (["platform", "devices", 0, "nme"], 1, "p.json: platform: device 0: unknown key 'nme'"),
    ],
)
def test_refused(path: list[Any], value: object, message: str) -> None:
    document = example()
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(FormatError, match=message) as error:
        Problem.from_dict(document, "p.json")
    assert str(error.value).startswith("p.json: ")
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("key", ["format", "platform", "tasks", "edges"])
def test_missing_keys(key: str) -> None:
    document = example()
    del document[key]
    with pytest.raises(FormatError, match=f"p.json: key '{key}' is missing"):
        Problem.from_dict(document, "p.json")


def test_a_cost_on_a_device_that_is_not_there() -> None:
    document = example()
    document["tasks"][1]["cost"] = {"bigg": 1}
    with pytest.raises(PlatformError, match=r"device 'bigg', .* lacks; did you mean 'big'\?"):
        Problem.from_dict(document)


def test_a_yaml_problem_with_a_number_for_a_device(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "format: tvm-hetero/problem/1\n"
        "platform: {format: tvm-hetero/platform/1, devices: [{name: a}]}\n"
        "tasks: [{id: t, cost: {5: 1.0}}]\n"
        "edges: []\n"
    )
    with pytest.raises(PlatformError, match="device 5, which platform 'platform' lacks; known: a"):
        Problem.load(path)


def test_contiguous_stages_come_back_and_are_refused_elsewhere() -> None:
    document = example()
    document["objective"] = {"kind": "throughput", "contiguous": True}
    problem = Problem.from_dict(document)
    assert problem.objective == Objective("throughput", contiguous=True)
    assert problem.to_dict()["objective"]["contiguous"] is True
    document["objective"]["contiguous"] = 1
    with pytest.raises(FormatError, match="contiguous: expected true or false, got 1"):
        Problem.from_dict(document)
    document["objective"] = {"kind": "energy", "contiguous": True}
    with pytest.raises(FormatError, match="contiguous stages belong to throughput, not to energy"):
        Problem.from_dict(document)


def test_equal_tables_are_one_object_and_true_is_no_time() -> None:
    document = example()
    row = document["tasks"][0]["cost"]
    document["tasks"][1]["cost"] = {"big": dict(row["little"]), "little": {"1": 1.0}}
    costs = Problem.from_dict(document).costs
    assert costs["relu1"]["big"] is costs["conv1"]["little"]
    # Equal to what was read before, and yet refused.
    document["tasks"][1]["cost"]["big"] = {"1": True}
    with pytest.raises(FormatError, match="batch 1"):
        Problem.from_dict(document)
    document["tasks"][1]["cost"] = {"big": {"1": 1.0}, "little": {"1": True}}
    with pytest.raises(FormatError, match="batch 1"):
        Problem.from_dict(document)
