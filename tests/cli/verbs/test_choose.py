"""``tvm-hetero choose``: text, JSON and the page."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.invoke import tvm_hetero
from tests.planning.choosing.questions import load as load_class
from tests.planning.choosing.questions import planned, question

NAMED = "<b>quick</b>"


def write_question(folder: Path, **changes: object) -> Path:
    """A question on the small machines, with costs of problem files."""
    request = question((load_class("a", 1.0, 1.0),))
    problems: dict[str, dict[str, str]] = {}
    for option in planned():
        file = f"{option.variant.name}-{option.machine.name}.json"
        option.service.step.problem.save(folder / file)
        problems.setdefault(option.variant.name, {})[option.machine.name] = file
        option.machine.platform.save(folder / f"{option.machine.name}.yaml")
    document = {
        "format": "tvm-hetero/choice-request/1",
        "variants": [
            {"name": v.name, "problems": problems[v.name], "accuracy": v.accuracy}
            for v in request.variants
        ],
        "machines": [
            {"name": m.name, "platform": f"{m.name}.yaml", "available": 3} for m in request.machines
        ],
        "load": {
            "seconds": 3,
            "classes": [
                {"name": NAMED, "rate": 80, "slo": {"latency": {"p99": 0.06}}, "accuracy": 75},
                {"name": "slow", "rate": 40, "slo": {"latency": {"p50": 0.2}}},
            ],
        },
        "batches": [1, 4],
    } | changes
    path = folder / "ask.json"
    path.write_text(json.dumps(document))
    return path


def test_the_answer_is_told_drawn_and_written(tmp_path: Path) -> None:
    page = tmp_path / "choice.html"
    told = tvm_hetero("choose", write_question(tmp_path), "--html", page)
    assert told.status == 0, told.err
    assert "no choice has less than" in told.out and "Binding:" in told.out
    drawn = page.read_text(encoding="utf-8")
    assert drawn.count("<circle") >= 2 and "<title>" in drawn
    assert NAMED not in drawn and "&lt;b&gt;quick&lt;/b&gt;" in drawn  # names are of strangers
    assert "<script" not in drawn and "http://" not in drawn.replace("http://www.w3.org", "")


def test_the_json_has_the_proof_the_simulation_and_the_front(tmp_path: Path) -> None:
    told = tvm_hetero("choose", write_question(tmp_path, goal="front"), "--json")
    answer = json.loads(told.out)
    choice = answer["choice"]
    assert choice["bound"] <= choice["value"] == choice["price"]
    assert choice["gap"] == (choice["value"] - choice["bound"]) / choice["value"]
    for served in choice["classes"]:
        assert all(row["simulated"] <= row["limit"] for row in served["slo"])
    assert [point["price"] for point in answer["front"]] == sorted(
        point["price"] for point in answer["front"]
    )
    assert all(row["carries_at_most"] <= row["carries"] for row in answer["dominated"])
    assert all(row["plan"]["gap"] <= 0.01 for row in choice["replicas"])


def test_what_nothing_answers_ends_with_a_line(tmp_path: Path) -> None:
    path = write_question(tmp_path, budget={"price": 0.5})
    told = tvm_hetero("choose", path)
    assert told.status == 3
    assert "raise 'available' or the budget" in told.err


def test_a_page_that_cannot_be_written_does_not_cost_the_answer(tmp_path: Path) -> None:
    path = write_question(tmp_path)
    told = tvm_hetero("choose", path, "--html", "/dev/full")
    assert told.status == 2 and "no choice has less than" in told.out
    assert "--html /dev/full: cannot be written: No space left" in told.err
    assert "only its page is lost: make room" in told.err
    told = tvm_hetero("choose", path, "--html", "/dev/full", "--json")
    assert told.status == 2 and json.loads(told.out)["choice"]["price"] > 0


def test_the_time_limit_is_that_of_the_whole_answer(tmp_path: Path) -> None:
    path = write_question(tmp_path)
    told = tvm_hetero("choose", path, "--time-limit", "1e-9")
    assert told.status == 3 and "the time is up before" in told.err
    assert "raise the time limit" in told.err
    told = tvm_hetero("choose", path, "--time-limit", "0")
    assert told.status == 2 and "--time-limit 0: expected seconds above 0" in told.err
