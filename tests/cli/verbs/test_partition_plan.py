"""``partition --plan``: a saved plan, edited or not, is judged and built as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.invoke import Outcome, tvm_hetero
from tests.cli.verbs.test_partition import CORES
from tests.frontends.onnx.models import two_branches
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Schedule


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A model, a platform and net.hetero, whose costs are computed."""
    folder = tmp_path_factory.mktemp("plans")
    onnx.save(two_branches(), folder / "small.onnx")
    target = {"kind": "llvm", "mcpu": "x86-64"}
    sides = [
        Device(name, target=target, cores=(core,), peak_flops=1e9, bandwidth=1e9, launch=1e-6)
        for name, core in (("left", CORES[0]), ("right", CORES[-1]))
    ]
    links = (Link("left", "right"), Link("right", "left"))
    Platform(tuple(sides), links, shared_cores=len(CORES) == 1).save(folder / "p.yaml")
    np.savez(folder / "x.npz", x=np.random.default_rng(1).random((1, 8, 12, 12), np.float32))
    made = partition(
        folder, "net", "--platform", folder / "p.yaml", "--cost-model", "analytical", "--no-measure"
    )
    assert made.status == 0, made.err
    return folder


def partition(folder: Path, name: str, *more: object) -> Outcome:
    output = folder / f"{name}.hetero"
    return tvm_hetero("partition", folder / "small.onnx", *more, "-o", output)


def output(folder: Path, name: str) -> np.ndarray:
    ran = tvm_hetero(
        *("run", folder / f"{name}.hetero", "--input", folder / "x.npz"),
        *("--output", folder / "y.npz"),
    )
    assert ran.status == 0, ran.err
    return np.asarray(np.load(folder / "y.npz")["net/out:0"])


def edited(folder: Path, path: Path) -> Schedule:
    """The plan with all on one device but a convolution of the left branch; only names changed."""
    document = json.loads((folder / "net.hetero" / "schedule.json").read_text())
    rows = document["executions"]
    for row in rows:
        row["device"] = "left" if row is rows[0] else "right"
    path.write_text(json.dumps(document))
    return Schedule.load(path)


def test_a_plan_that_was_not_edited_makes_the_artifact_again(folder: Path) -> None:
    made = partition(folder, "again", "--plan", folder / "net.hetero" / "schedule.json", "--json")
    assert made.status == 0, made.err
    for name in ("problem.json", "schedule.json", "partition/plan.json", "kernels.json"):
        first, again = (folder / f"{net}.hetero" / name for net in ("net", "again"))
        assert first.read_text() == again.read_text(), name
    assert "nothing was compared: the plan was given" in made.err
    np.testing.assert_array_equal(output(folder, "again"), output(folder, "net"))


def test_an_edited_placement_is_retimed_built_and_computes_the_same(
    folder: Path, tmp_path: Path
) -> None:
    wanted = edited(folder, tmp_path / "edited.json").placement
    problem = folder / "net.hetero" / "problem.json"
    args = ("--plan", tmp_path / "edited.json", "--problem", problem)
    refused = partition(folder, "moved", *args)
    assert refused.status == 2 and "check --retime" in refused.err and "rule " in refused.err
    retimed = tmp_path / "retimed.json"
    mended = tvm_hetero("check", problem, tmp_path / "edited.json", "--retime", retimed)
    assert mended.status == 0, mended.out
    made = partition(folder, "moved", "--plan", retimed, "--problem", problem)
    assert made.status == 0, made.err
    built = Schedule.load(folder / "moved.hetero" / "schedule.json")
    assert built.placement == wanted == Schedule.load(retimed).placement
    assert built.placement != Schedule.load(folder / "net.hetero" / "schedule.json").placement
    plan = json.loads((folder / "moved.hetero" / "partition" / "plan.json").read_text())
    assert len(plan["steps"]) >= 2
    np.testing.assert_array_equal(output(folder, "moved"), output(folder, "net"))


def test_what_does_not_fit_is_refused_and_says_why(folder: Path, tmp_path: Path) -> None:
    plan = folder / "net.hetero" / "schedule.json"
    problem = Problem.load(folder / "net.hetero" / "problem.json")
    alone = tmp_path / "alone.json"
    alone.write_text(plan.read_text())
    first, second = problem.platform.devices
    devices = (first, replace(second, launch=1.0))
    replace(problem.platform, devices=devices).save(folder / "other.yaml")
    other = onnx.load(folder / "small.onnx")
    shape = other.graph.input[0].type.tensor_type.shape
    shape.dim[3].dim_value = 10
    other.graph.output[0].type.tensor_type.shape.dim[3].dim_value = 10
    onnx.save(other, tmp_path / "small.onnx")
    Problem(problem.graph, problem.costs, problem.platform, name="x").save(tmp_path / "q.json")
    cases = [
        (folder, (alone,), "not beside it"),
        (folder, (alone, "--problem", tmp_path / "q.json"), "answers another problem"),
        (folder, (plan, "--solver", "heft"), "--solver says how a plan is made"),
        (folder, (plan, "--platform", folder / "other.yaml"), "is not the platform"),
        (folder, (plan, "--shape", "x=1x8x12x8..16"), "--plan is of one size"),
        (tmp_path, (plan,), "is not of this model"),
    ]
    for where, more, text in cases:
        refused = partition(where, "no", "--plan", *more)
        assert refused.status == 2 and text in refused.err, (text, refused.err)
        assert not (where / "no.hetero").exists()
    lone = partition(folder, "no", "--problem", folder / "net.hetero" / "problem.json")
    assert lone.status == 2 and "add --plan" in lone.err
