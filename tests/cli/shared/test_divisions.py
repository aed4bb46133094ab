"""This machine's cores divided in the way that runs quicker, or as the user says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import pytest

from tests.cli.invoke import tvm_hetero
from tests.frontends.onnx.models import two_branches
from tvm_hetero.cli.shared.divisions import TargetMachine, ways_to_divide

TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
HERE = TargetMachine(None, "profiled", None, None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(two_branches(), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


@TWO_CORES
def test_for_latency_cores_side_by_side_and_together_are_tried():
    assert ways_to_divide(HERE, "latency", measure=True) == [None, 1]


@pytest.mark.parametrize(
    ("machine", "objective", "measure", "expected"),
    [
        (HERE, "throughput", True, None),
        (HERE, "latency", False, None),
        (TargetMachine(None, "analytical", None, None), "latency", True, None),
        (TargetMachine(None, "quick", None, None), "latency", True, None),
        (TargetMachine(Path("p.yaml"), "profiled", None, None), "latency", True, None),
        (TargetMachine(None, "profiled", "auto", None), "latency", True, None),
        (TargetMachine(None, "profiled", None, 2), "latency", True, 2),
    ],
)
def test_one_way_where_the_user_says_or_nothing_can_be_compared(
    machine: TargetMachine, objective: str, measure: bool, expected: int | None
):
    assert ways_to_divide(machine, objective, measure=measure) == [expected]


@TWO_CORES
def test_the_quicker_division_is_what_is_written(model: Path, tmp_path: Path):
    outcome = tvm_hetero("partition", model, "-o", tmp_path / "net.hetero", "--json")
    assert outcome.status == 0, outcome.err
    measured = json.loads(outcome.out)["decision"]["divisions"]
    assert len(measured) == 2
    best = min(measured, key=measured.get)
    problem = json.loads((tmp_path / "net.hetero" / "problem.json").read_text())
    assert len(problem["platform"]["devices"]) == len(best.split(", "))
    shown = tvm_hetero("show", tmp_path / "net.hetero").out
    assert all(name in shown for name in measured)


def test_the_user_may_say_how_cores_are_divided(model: Path, tmp_path: Path):
    outcome = tvm_hetero("partition", model, "-o", tmp_path / "net.hetero", "--json", "--split", 1)
    assert outcome.status == 0, outcome.err
    assert "divisions" not in json.loads(outcome.out)["decision"]
    problem = json.loads((tmp_path / "net.hetero" / "problem.json").read_text())
    (device,) = problem["platform"]["devices"]
    assert device["cores"] == sorted(os.sched_getaffinity(0))


def test_split_is_refused_beside_a_platform(model: Path, tmp_path: Path):
    outcome = tvm_hetero(
        "partition", model, "-o", tmp_path / "net.hetero", "--split", 2, "--platform", "p.yaml"
    )
    assert outcome.status == 2
    assert "--split divides this machine's cores, and --platform names others" in outcome.err
