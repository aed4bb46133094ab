"""``make demo``: it runs, its files are whole, and the second time it finds what it measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import tvm_hetero as th
from tvm_hetero.check import check_schedule
from tvm_hetero.cli.main import main
from tvm_hetero.cli.verbs.demo import _default
from tvm_hetero.cost_models.in_network import bench as in_place_bench
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.report.run.run_table import Comparison
from tvm_hetero.util.statistics import summarize

# What was measured while others disturbed it is not kept.
pytestmark = pytest.mark.alone
# A real model whose kernels are measured in a third of the time that the default's take.
DEMO = ("demo", "--model", "squeezenet", "--repeat", "5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a demo that keeps what it measures, be the machine's other guests quiet or not.

    (That only what has settled is kept is for `tests/cost_models/in_network/test_costs.py`.)
    """
    path = tmp_path_factory.mktemp("demo")
    measured = in_place_bench.run_in_turns

    def settled(*arguments: Any) -> bool:
        measured(*arguments)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_place_bench, "run_in_turns", settled)
        patch.setattr(in_place_bench, "_plausible", lambda *_: True)
        assert main([*DEMO, "--folder", str(path)]) == 0
    return path


def test_the_report_is_self_contained(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 2, "the plan above the measured run"
    # Without a network: nothing is fetched. Namespaces of SVG are names, not addresses.
    links = re.findall(r"(?:src|href)\s*=\s*[\"']?(\w+:)?//", page)
    assert links == []
    assert "<script src" not in page
    assert "ONNX Runtime" in page


def test_the_trace_is_in_chromes_format(folder):
    trace = json.loads((folder / "trace.json").read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    tasks = json.loads((folder / "net.hetero" / "schedule.json").read_text())["executions"]
    assert len(events) >= len(tasks) > 20
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)


def test_the_artifact_holds_a_checked_schedule(folder):
    with th.load(folder / "net.hetero", "partition") as executor:
        assert check_schedule(executor.problem, executor.schedule) == []
        assert executor.schedule.value <= executor.schedule.best_single_device.value
        executor.run(executor.random_inputs(0))
        used = {device for devices in executor.schedule.placement.values() for device in devices}
        assert {step.device for step in executor.trace()} == used


def test_the_second_time_nothing_is_measured_or_solved_otherwise(folder, monkeypatch, tmp_path):
    measured = []
    original = ProfiledCosts.costs

    def counting(self, kernels, platform, progress=None):
        costs = original(self, kernels, platform, progress)
        measured.append(self.runs)
        return costs

    monkeypatch.setattr(ProfiledCosts, "costs", counting)
    assert main([*DEMO, "--folder", str(tmp_path)]) == 0
    assert measured == [0]
    first, second = (
        json.loads((path / "net.hetero" / "schedule.json").read_text())
        for path in (folder, tmp_path)
    )
    assert first | {"seconds": 0} == second | {"seconds": 0}


@pytest.mark.parametrize(("chosen", "explained"), [("partition", False), ("single", True)])
def test_a_default_that_was_slower_this_time_is_explained(chosen, explained):
    seconds = {"partition": 0.021, "single": 0.027}
    measured = {name: summarize([value]) for name, value in seconds.items()}
    text = _default(chosen, Comparison(measured))
    assert text.startswith(f"by default net.hetero runs: {chosen}")
    assert ("run it again to decide" in text) == explained
