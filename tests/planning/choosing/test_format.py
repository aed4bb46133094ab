"""Questions as documents: what they say, and what is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.planning.choosing.questions import planned
from tvm_hetero.errors import FormatError, HeteroError, UsageError
from tvm_hetero.planning.choosing import load_choice_request, parse_choice_request
from tvm_hetero.planning.choosing.request import SloLimit

DOCUMENT: dict[str, Any] = {
    "format": "tvm-hetero/choice-request/1",
    "variants": [{"name": "r18", "model": "resnet18", "accuracy": 69.8}],
    "machines": [
        {"name": "t4", "platform": "t4x4", "devices": ["cpu", "gpu0"], "available": 2}
    ],
    "load": {
        "seconds": "2s",
        "classes": [{"name": "a", "rate": 20, "slo": {"latency": {"p99": "40ms", "p50": 0.01}}}],
    },
}  # fmt: skip


def test_a_question_is_read_with_its_defaults() -> None:
    request = parse_choice_request(DOCUMENT)
    (served,) = request.classes
    assert served.slo == (SloLimit("latency", 50, 0.01), SloLimit("latency", 99, 0.04))
    assert (request.goal, request.batches, request.budget.price) == ("price", (1, 4, 16), None)
    assert all(0 <= each.arrival < 2 and each.output == 1 for each in served.requests)
    assert [link.src for link in request.machines[0].platform.links] == ["cpu", "gpu0"]
    again = parse_choice_request(DOCUMENT)
    assert again.classes[0].requests == served.requests


def test_files_are_looked_for_beside_the_document(tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    option = planned()[0]
    option.service.step.problem.save(tmp_path / "net.json")
    option.machine.platform.save(tmp_path / "box.yaml")
    rows = [{"arrival": moment, "prompt": 1, "output": 1} for moment in (0.5, 0.1)]
    trace = {"format": "tvm-hetero/requests/1", "requests": rows}
    (tmp_path / "day.json").write_text(json.dumps(trace))
    document["variants"] = [{"name": "own", "problems": {"box": "net.json"}, "accuracy": 1}]
    document["machines"] = [{"name": "box", "platform": "box.yaml", "available": 1}]
    document["load"]["classes"] = [
        {"name": "a", "trace": "day.json", "slo": {"latency": {"p99": 1}}}
    ]
    (tmp_path / "ask.json").write_text(json.dumps(document))
    request = load_choice_request(tmp_path / "ask.json")
    assert [each.arrival for each in request.classes[0].requests] == [0.1, 0.5]
    assert request.variants[0].problems["box"].tasks[0].id == "t"


def test_bursts_and_names_change_what_is_drawn() -> None:
    def counts(**changes: Any) -> int:
        document = copy.deepcopy(DOCUMENT)
        document["load"]["classes"][0] |= changes
        return len(parse_choice_request(document).classes[0].requests)

    quiet = counts(rate=200)
    bursts = {"factor": 11, "every": "1s", "length": "500ms"}
    assert 4 * quiet < counts(rate=200, bursts=bursts) < 8 * quiet
    assert counts(rate=200, name="b") != quiet


def test_each_name_has_a_random_stream_of_its_own() -> None:
    drawn = set()
    for name in ("ab", "ca", "ba", "a", "a\0"):
        document = copy.deepcopy(DOCUMENT)
        document["load"]["classes"][0]["name"] = name
        drawn.add(parse_choice_request(document).classes[0].requests)
    assert len(drawn) == 5


def _edit(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        where: Any = document
        *parents, last = path.split("/")
        for key in parents:
            where = where[int(key)] if key.isdigit() else where[key]
        where[last] = value

    return edit


WRONG: list[tuple[str, Any, type[HeteroError], str]] = [
    ("goal", "speed", FormatError, "goal: expected one of 'price', 'energy'"),
    ("variants", [], FormatError, "variants: expected a list of one or more"),
    ("batches", [0], FormatError, r"batches\[0\]: expected an integer of at least 1"),
    ("batches", [4096], FormatError, "batches: expected a list of sizes from 1 to 1024"),
    ("variants/0/problems", {}, FormatError, "either 'model'"),
    ("variants/0/model", "resnet17", UsageError, "did you mean|resnet1"),
    ("variants/0/precision", "fp16", FormatError, "precision: expected one of"),
    ("machines/0/devices", ["gpu9"], UsageError, "has no device 'gpu9'"),
    ("machines/0/available", 0, FormatError, "available: expected an integer from 1"),
    ("machines/0/idle_watts", 5, FormatError, "both watts or none"),
    ("load/classes/0/trace", "t.json", FormatError, "either 'rate'"),
    ("load/classes/0/slo", {}, FormatError, "at least one limit"),
    ("load/classes/0/slo", {"latency": {"p98": 1}}, FormatError, "unknown key 'p98'"),
    ("load/classes/0/slo", {"latency": {"p99": "1kg"}}, FormatError, "p99: expected time"),
    ("load/seconds", 0, FormatError, "load: seconds: expected seconds above 0"),
    ("load/classes/0/rate", 0, FormatError, "class 0: rate: expected requests a second, above 0"),
    ("load/classes/0/rate", 1e9, UsageError, "class 0: rate: .*more than 1000000 requests"),
    (
        "load/classes/0/bursts",
        {"factor": 2, "every": 1e-15, "length": 1e-15},
        UsageError,
        "at most 1000000 bursts in 2 s",
    ),
    ("variants/0/parameters", {1: 2}, FormatError, "whose keys are names of parameters"),
    ("variants/0/accuracy", 1e15, FormatError, r"accuracy: expected at most 1e\+06"),
    ("machines/0/price", 1e15, FormatError, r"price: expected at most 1e\+06"),
    ("machines/0/devices", [], UsageError, "devices: expected devices of t4x4, got none"),
    ("budget", {"watts": 1e9}, FormatError, r"watts: expected at most 1e\+06"),
    ("load/classes/0/bursts", {"factor": 2, "every": 1, "length": 2}, FormatError, "length"),
    ("load/classes/0/prompt", 0, FormatError, "prompt: expected an integer of at least 1"),
    ("budget", {"prize": 1}, FormatError, "unknown key 'prize'"),
]


def test_levels_are_chosen_among_unless_the_machines_watts_hide_them(tmp_path: Path) -> None:
    levels = [{"name": "low", "speed": 0.5, "watts": 3}, {"name": "high", "speed": 1, "watts": 9}]
    row = {"name": "cpu", "target": "llvm", "peak_flops": 1e9, "bandwidth": 1e9, "levels": levels}
    document = {"format": "tvm-hetero/platform/1", "name": "clocked", "devices": [row]}
    (tmp_path / "clocked.json").write_text(json.dumps(document))
    given = copy.deepcopy(DOCUMENT)
    given["machines"][0] = {"name": "m", "platform": "clocked.json", "available": 1}
    (machine,) = parse_choice_request(given, folder=tmp_path).machines
    assert machine.platform.names == ("cpu.low", "cpu.high")
    given["machines"][0] |= {"idle_watts": 1, "busy_watts": 9}
    with pytest.raises(UsageError, match="'cpu' has frequency levels, each with watts of its own"):
        parse_choice_request(given, folder=tmp_path)
    given["machines"][0]["devices"] = ["cpu.low"]
    (machine,) = parse_choice_request(given, folder=tmp_path).machines
    assert machine.platform.names == ("cpu.low",)


@pytest.mark.parametrize(("path", "value", "error", "text"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_wrong_is_told(path: str, value: Any, error: type[HeteroError], text: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    _edit(path, value)(document)
    with pytest.raises(error, match=text):
        parse_choice_request(document, "ask.yaml")
