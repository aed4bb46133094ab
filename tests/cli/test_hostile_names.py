"""Every verb that prints, on files whose every free text is an attack on the terminal.

What is written is looked at by the byte: no control character but the newlines of our own lines, no
mark that turns a line around, no tag in a page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoke import tvm_hetero

ATTACK = "\x1b[31m\x1b]0;title\x07\x9b2J\r\nFAKE \u202egnp\u2028<script>alert(1)</script>&'\""
FORMAT = "tvm-hetero/problem/1"


def name(text: str) -> str:
    return text + ATTACK


def problem(**objective: Any) -> dict[str, Any]:
    device: dict[str, Any] = {"watts": 5, "idle_watts": 1, "price": 1, "node": name("n")}
    return {
        "format": FORMAT,
        "name": name("p"),
        "platform": {
            "format": "tvm-hetero/platform/1",
            "name": name("pl"),
            "devices": [{"name": "a", **device}, {"name": "b", **device}],
            "links": [{"from": "a", "to": "b", "bandwidth": 1e9, "both": True}],
        },
        "tasks": [
            {"id": name("s"), "op": name("op"), "cost": {"a": 1, "b": 3}, "color": name("c"),
             "output_bytes": 8, "weight_bytes": 9},
            {"id": name("t"), "cost": {"a": {"1": 3, "2": 5}, "b": 1}},
            {"id": name("u"), "cost": {"b": 1}},
        ],
        "edges": [{"src": name("s"), "dst": name(to), "bytes": 8, "tensor": name("x")}
                  for to in "tu"],
        "objective": {"kind": "latency", "batch": 2, **objective},
    }  # fmt: skip


def check_clean(text: str) -> None:
    """Nothing raw is in what was written."""
    raw = {c for c in text if not c.isprintable() and c != "\n"}
    assert not raw, f"{raw} in {text[:2000]!r}"
    assert not re.search(r"^FAKE", text, re.MULTILINE), text


def check_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    raw = {c for c in text if not c.isprintable() and c not in "\n\t\u2028\xa0\u202f\u2009"}
    assert not raw, f"{raw} in {path.name}"
    assert "<script>alert" not in text


def run(*words: object) -> int:
    done = tvm_hetero(*words)
    check_clean(done.out)
    check_clean(done.err)
    return done.status


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A problem, its platform, its schedule, and schedules that say something else."""
    document = problem()
    (tmp_path / "p.json").write_text(json.dumps(document))
    (tmp_path / "platform.json").write_text(json.dumps(document["platform"]))
    words = ("--solver", "heft", "-o", tmp_path / "s.json")
    assert run("schedule", tmp_path / "p.json", *words) == 0
    schedule = json.loads((tmp_path / "s.json").read_text())
    for i, key in enumerate(["device", "task"]):
        changed = json.loads(json.dumps(schedule))
        changed["executions"][0][key] = name("z")
        changed |= {"solver": name("me"), "best_single_device": {"device": name("d"), "value": 1}}
        (tmp_path / f"wrong{i}.json").write_text(json.dumps(changed))
    return tmp_path


def test_schedules_are_shown_and_judged(files: Path) -> None:
    for schedule in ("s", "wrong0", "wrong1"):
        path = files / f"{schedule}.json"
        run("show", path)
        run("show", path, "--problem", files / "p.json")
        run("check", files / "p.json", path)
    assert run("show", files / "p.json") == run("show", files / "platform.json") == 0
    assert run("show", files / "s.json", "--html", files / "o.html", "--svg", files / "o.svg") == 0
    check_page(files / "o.html")
    check_page(files / "o.svg")


def test_schedules_are_made(files: Path) -> None:
    (files / "q.json").write_text(json.dumps(problem(kind="throughput")))
    assert run("schedule", files / "q.json", "--solver", "greedy", "-o", files / "r.json") == 0
    assert run("show", files / "r.json", "--html", files / "q.html") == 0
    check_page(files / "q.html")


def _refused() -> list[dict[str, Any]]:
    """Problems that are none, by their names."""
    found = [problem(kind=name("k"), batch=1), problem(latency_limit=1e-9, kind="energy")]
    for change in (
        lambda p: p["tasks"][0]["cost"].update({name("d"): 1}),
        lambda p: p["tasks"].append(p["tasks"][0]),
        lambda p: p["edges"].append({"src": name("t"), "dst": name("nowhere"), "bytes": 1}),
        lambda p: p["edges"].append({"src": name("t"), "dst": name("s"), "bytes": 1}),
        lambda p: p["tasks"][0].update({name("key"): 1}),
        lambda p: p["tasks"][0].update({"cost": {"a": name("1 s")}}),
        lambda p: p["tasks"][0].update({"weight_bytes": name("8GiB")}),
        lambda p: p["tasks"][0].update({"implementation": {"a": name("i")}}),
        lambda p: p["platform"]["devices"][0].update({"name": name("a")}),
        lambda p: p["platform"]["devices"][0].update({"target": name("llvm")}),
        lambda p: p["platform"]["devices"][0].update({"memory": "1B"}),
        lambda p: p["platform"]["links"][0].update({"from": name("a")}),
        lambda p: p.update({"format": name("f")}),
        lambda p: p.update({"platform": name("f")}),
    ):
        document = problem()
        change(document)
        found.append(document)
    return found


def test_what_is_refused_is_named_without_its_escapes(tmp_path: Path) -> None:
    for i, document in enumerate(_refused()):
        path = tmp_path / (f"{i}.json" if i % 2 else name("f").replace("/", ""))
        path.write_text(json.dumps(document))
        run("schedule", path, "--solver", "heft")
        run("show", path)
    for verb in (
        "simulate",
        "plan",
        "place-layers",
        "zoo",
        "adapt",
        "onnx-check",
        "relay-check",
        "run",
        "generate",
        "cluster",
        "check",
        "show",
        "tune",
        "problem",
        "partition",
    ):
        run(verb, tmp_path / name("f").replace("/", ""))
        run(verb, name("x"), "-o", name("y"))
