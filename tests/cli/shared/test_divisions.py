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
from tests.models import as_schedule, branchy, lowered, teams_of_cpus, unit_problem
from tvm_hetero.cli.shared.divisions import TargetMachine, may_gain, ways_to_divide
from tvm_hetero.cli.shared.platforms import Division
from tvm_hetero.problem.schedule import Schedule

TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
HERE = TargetMachine(None, "profiled", None, None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(two_branches(), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


@TWO_CORES
def test_for_latency_teams_and_cores_by_themselves_are_tried():
    cores = len(os.sched_getaffinity(0))
    teams = "all" if cores <= 8 else f"1,{cores}"
    assert ways_to_divide(HERE, "latency", measure=True) == [Division(teams=teams), Division()]


@pytest.mark.parametrize(
    ("machine", "objective", "measure", "expected"),
    [
        (HERE, "throughput", True, Division()),
        (HERE, "latency", False, Division()),
        (TargetMachine(None, "analytical", None, None), "latency", True, Division()),
        (TargetMachine(None, "quick", None, None), "latency", True, Division()),
        (TargetMachine(Path("p.yaml"), "profiled", None, None), "latency", True, Division()),
        (TargetMachine(None, "profiled", "auto", None), "latency", True, Division()),
        (TargetMachine(None, "profiled", None, 2), "latency", True, Division(2)),
        (replace(HERE, teams="1,2"), "throughput", True, Division(teams="1,2")),
        (replace(HERE, teams="none"), "latency", True, Division()),
    ],
)
def test_one_way_where_the_user_says_or_nothing_can_be_compared(
    machine: TargetMachine, objective: str, measure: bool, expected: Division
):
    assert ways_to_divide(machine, objective, measure=measure) == [expected]


def planned(device: str, seconds: float) -> Schedule:
    """A plan of a network that takes so long, on one device of a platform of teams."""
    module = lowered(branchy(), teams_of_cpus())
    problem = unit_problem(module, teams_of_cpus())
    steps = [(task, device, (0,)) for task in problem.graph.topological_order]
    return replace(as_schedule(problem, steps), value=seconds)


@pytest.mark.parametrize(
    ("device", "seconds", "expected"),
    [("both", 1e-3, True), ("big", 1e-3, False), ("both", 2e-5, False)],
)
def test_cores_by_themselves_are_tried_beside_a_plan_that_uses_teams(
    device: str, seconds: float, expected: bool
):
    assert may_gain(planned(device, seconds), teams_of_cpus()) == expected


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
    assert [d["name"] for d in problem["platform"]["devices"]] == [
        name.split(" ")[0] for name in best.split(", ")
    ]
    shown = tvm_hetero("show", tmp_path / "net.hetero").out
    assert all(name in shown for name in measured)


def test_the_user_may_say_how_cores_are_divided(model: Path, tmp_path: Path):
    outcome = tvm_hetero("partition", model, "-o", tmp_path / "net.hetero", "--json", "--split", 1)
    assert outcome.status == 0, outcome.err
    assert "divisions" not in json.loads(outcome.out)["decision"]
    problem = json.loads((tmp_path / "net.hetero" / "problem.json").read_text())
    (device,) = problem["platform"]["devices"]
    assert device["cores"] == sorted(os.sched_getaffinity(0))


@TWO_CORES
def test_a_plan_on_teams_is_written_and_runs(model: Path, tmp_path: Path):
    net = tmp_path / "net.hetero"
    outcome = tvm_hetero("partition", model, "-o", net, "--json", "--teams", "1,2")
    assert outcome.status == 0, outcome.err
    problem = json.loads((net / "problem.json").read_text())
    cores = sorted(os.sched_getaffinity(0))
    assert sorted(len(d["cores"]) for d in problem["platform"]["devices"])[-1] == 2
    assert {c for d in problem["platform"]["devices"] for c in d["cores"]} <= set(cores)
    assert tvm_hetero("run", net, "--random").status == 0


def test_split_and_teams_exclude_each_other(model: Path, tmp_path: Path):
    outcome = tvm_hetero(
        "partition", model, "-o", tmp_path / "net.hetero", "--split", 2, "--teams", "all"
    )
    assert outcome.status == 2
    assert "--split divides cores, --teams lets them overlap" in outcome.err


def test_split_is_refused_beside_a_platform(model: Path, tmp_path: Path):
    outcome = tvm_hetero(
        "partition", model, "-o", tmp_path / "net.hetero", "--split", 2, "--platform", "p.yaml"
    )
    assert outcome.status == 2
    assert "--split divides this machine's cores, and --platform names others" in outcome.err
