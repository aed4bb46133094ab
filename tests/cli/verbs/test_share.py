"""``tvm-hetero share``: text, JSON and the page."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.invoke import tvm_hetero
from tests.planning.choosing.questions import offer, variant

NAMED = "<b>small</b>\x1b[31m"


def write_day(folder: Path, **changes: object) -> Path:
    """A day of two hours on the small machines, with costs of problem files."""
    models = []
    for name, rates in (("small", [5, 30]), ("large", [2, 3])):
        files = {}
        for machine, problem in variant(name).problems.items():
            files[machine] = f"{name}-{machine}.json"
            problem.save(folder / files[machine])
        models.append({"name": NAMED if name == "small" else name, "problems": files,
                       "slo": {"latency": {"p99": 0.4}}, "rates": rates})  # fmt: skip
    for machine in ("slow", "fast"):
        offer(machine).platform.save(folder / f"{machine}.yaml")
    document = {
        "format": "tvm-hetero/sharing-request/1",
        "models": models,
        "machines": [{"name": m, "platform": f"{m}.yaml", "available": 2}
                     for m in ("slow", "fast")],
        "batches": [1, 4],
        "play": {"seconds": 3},
    } | changes  # fmt: skip
    path = folder / "day.json"
    path.write_text(json.dumps(document))
    return path


def test_a_day_is_told_and_drawn(tmp_path: Path) -> None:
    page = tmp_path / "day.html"
    told = tvm_hetero("share", write_day(tmp_path), "--html", page)
    assert told.status == 0, told.err
    assert "bound of this policy" in told.out and "The answer: shared, by the hour" in told.out
    assert "\x1b" not in told.out and "\\x1b[31m" in told.out
    drawn = page.read_text(encoding="utf-8")
    assert drawn.count("<rect") >= 4 and "<title>" in drawn
    assert NAMED not in drawn and "&lt;b&gt;small&lt;/b&gt;" in drawn  # names are of strangers
    assert "<script" not in drawn and "http://" not in drawn.replace("http://www.w3.org", "")


def test_the_json_has_every_policy_with_its_proof_and_simulation(tmp_path: Path) -> None:
    told = tvm_hetero("share", write_day(tmp_path), "--json")
    answer = json.loads(told.out)
    assert len(answer["policies"]) == 4 and answer["policy"] in answer["policies"]
    day = answer["policies"][answer["policy"]]
    assert day["bound"] <= day["price"] and len(day["hours"]) == 2
    for hour in day["hours"]:
        for model in hour["models"]:
            assert model["carried"] >= model["rate"]
            assert all(limit["simulated"] <= limit["limit"] for limit in model["slo"])
        for machine in hour["machines"]:
            assert sum(model["time"] for model in machine["models"]) <= 1


def test_a_policy_that_has_no_day_is_told_beside_those_that_have(tmp_path: Path) -> None:
    machines = [{"name": "slow", "platform": "slow.yaml", "available": 1}]
    path = write_day(tmp_path)
    document = json.loads(path.read_text())
    for model in document["models"]:
        model["problems"] = {"slow": model["problems"]["slow"]}
    document["machines"] = machines
    path.write_text(json.dumps(document))
    told = tvm_hetero("share", path)
    assert told.status == 0, told.err
    assert "one machine a model, for the peak: the machines that can be had" in told.out


def test_a_time_limit_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    told = tvm_hetero("share", write_day(tmp_path), "--time-limit", "0")
    assert told.status != 0 and "expected seconds above 0" in told.err
