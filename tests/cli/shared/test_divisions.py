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
from tests.small_decoders import tiny
from tvm_hetero.cli.shared.divisions import TargetMachine, divisions_of
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.platform import Platform
from tvm_hetero.platform.division import Division, usual_divisions
from tvm_hetero.problem import Objective

TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
HERE = TargetMachine(None, "profiled", None, None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(two_branches(), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def ways(machine: TargetMachine, objective: str, measure: bool) -> list[Division]:
    return divisions_of(machine, PartitionOptions(objective=Objective(objective)), measure=measure)


@TWO_CORES
def test_for_latency_teams_and_cores_by_themselves_are_tried():
    usual = usual_divisions(Platform.detect())
    assert ways(HERE, "latency", measure=True) == usual
    assert ways(HERE, "latency", measure=False) == usual[:1]
    assert usual[0].teams != "none" and usual[1] == Division()


@pytest.mark.parametrize(
    ("machine", "objective", "measure", "expected"),
    [
        (HERE, "throughput", True, Division()),
        (HERE, "throughput", False, Division()),
        (TargetMachine(None, "analytical", None, None), "latency", True, Division()),
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
    assert ways(machine, objective, measure) == [expected]


@TWO_CORES
def test_a_decoder_for_latency_is_planned_on_teams(tmp_path: Path):
    tiny("gpt2", tmp_path / "gpt2")
    net = tmp_path / "net.hetero"
    outcome = tvm_hetero(
        "partition", tmp_path / "gpt2", "-o", net, "--quick", "--no-measure", "--json",
        "--length", 24, "--chunk", 1,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    problem = json.loads((net / "step" / "problem.json").read_text())
    names = [device["name"] for device in problem["platform"]["devices"]]
    assert names == list(usual_divisions(Platform.detect())[0].detect().names)
    assert tvm_hetero("generate", net, "--prompt-ids", "1 2", "--max-new-tokens", 3).status == 0


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
