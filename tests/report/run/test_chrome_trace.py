from __future__ import annotations

import json
from pathlib import Path

from tests.report import samples
from tvm_hetero.report.run.chrome_trace import chrome_trace, save_trace
from tvm_hetero.report.schedule.intervals import plan_intervals


def test_events_of_plan_and_measured_run(tmp_path: Path) -> None:
    problem = samples.problem(evil=True)
    plan = plan_intervals(samples.schedule(problem), problem)
    save_trace(tmp_path / "t.json", {"plan": plan, "measured": plan[:3]}, ["big", "little"])
    document = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert document == chrome_trace({"plan": plan, "measured": plan[:3]}, ["big", "little"])
    events = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert len(events) == 7
    assert {e["pid"] for e in events} == {1, 2}
    b = events[1]
    assert (b["name"], b["cat"]) == ("b", "relu")
    assert abs(b["ts"] - 1000.0) < 1e-6 and abs(b["dur"] - 4000.0) < 1e-6  # microseconds
    assert events[2]["name"] == samples.EVIL  # JSON carries any name
    assert events[3]["args"] == {"detail": "3.91 KiB"}


def test_processes_and_threads_have_names() -> None:
    plan = plan_intervals(samples.schedule())
    events = chrome_trace({"plan": plan}, ["little", "big"])["traceEvents"]
    names = {(e["name"], e["tid"]): e["args"] for e in events if e["ph"] == "M"}
    assert names["process_name", 0] == {"name": "plan"}
    assert names["thread_name", 1] == {"name": "little"}
    assert names["thread_name", 2] == {"name": "big"}
    assert names["thread_name", 3] == {"name": "big → little"}
