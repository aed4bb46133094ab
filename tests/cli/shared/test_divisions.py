"""This machine's cores divided in the way that runs quicker, or as the user says."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.invoke import tvm_hetero
from tests.frontends.onnx.models import make, two_branches
from tests.models import branchy, lowered, two_cpus, unit_problem
from tvm_hetero.cli.shared.divisions import TargetMachine, may_gain, ways_to_divide
from tvm_hetero.solvers import solve

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


@pytest.mark.parametrize(("value", "expected"), [(1.0, True), (0.6, True), (0.51, False)])
def test_a_plan_that_all_cores_cannot_beat_is_kept_unseen(value: float, expected: bool):
    problem = unit_problem(lowered(branchy(), two_cpus()), two_cpus())
    single = solve(problem, "single")
    assert single.best_single_device is not None
    plan = replace(single, value=value * single.best_single_device.value)
    assert may_gain(plan, 2) == expected
    assert may_gain(replace(plan, best_single_device=None), 2)


def test_of_a_network_of_microseconds_no_loop_is_divided():
    problem = unit_problem(lowered(branchy(), two_cpus()), two_cpus())
    plan = solve(problem, "single")
    short = replace(plan.best_single_device, value=2e-5)
    assert not may_gain(replace(plan, value=2e-5, best_single_device=short), 2)


@TWO_CORES
def test_the_quicker_division_is_what_is_written(tmp_path: Path):
    model = tmp_path / "wide.onnx"
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    weight = np.ones((64, 64, 3, 3), np.float32)
    onnx.save(make([node], {"x": [1, 64, 66, 66]}, ["y"], {"w": weight}), model)
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
