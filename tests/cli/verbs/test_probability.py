"""``--probability``: a plan for what branches take on average."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.invoke import tvm_hetero
from tests.passes.test_conditional_branches import NEGATIVE, PRODUCTS, model
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem.model import Problem


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an If on data, and a platform of one core whose speed is said."""
    onnx.save(model(PRODUCTS, NEGATIVE), tmp_path / "m.onnx")
    device = Device("cpu", target={"kind": "llvm"}, cores=(0,), peak_flops=1e11, bandwidth=1e10)
    Platform((device,), ()).save(tmp_path / "p.yaml")
    return tmp_path


def options(place: Path, *more: object) -> tuple[object, ...]:
    """Of a verb that makes a plan by estimated costs."""
    return (
        place / "m.onnx", "--platform", place / "p.yaml", "--cost-model", "analytical", *more
    )  # fmt: skip


def test_plan_and_artifact_say_by_what_they_are_weighed(place: Path) -> None:
    made = [
        tvm_hetero(
            "partition",
            *options(place, "-o", place / f"{i}.hetero", "--json", "--no-measure"),
            *more,
        )
        for i, more in enumerate([(), ("--probability", "c=0.25")])
    ]
    assert [outcome.status for outcome in made] == [0, 0]
    always, weighed = (json.loads(outcome.out) for outcome in made)
    assert weighed["probabilities"] == {"c": 0.25}
    assert not always["probabilities"]
    assert weighed["objective"]["value"] < always["objective"]["value"]
    shown = tvm_hetero("show", place / "1.hetero")
    assert "tasks of branches count as often as they run (c 0.25)" in " ".join(shown.out.split())


def test_a_problem_has_expected_costs(place: Path) -> None:
    outcome = tvm_hetero("problem", *options(place, "-o", place / "p.json", "--probability", "r=0"))
    assert outcome.status == 0
    found = Problem.load(place / "p.json")
    skipped = [t.op for t in found.tasks if "_if" in t.op and not found.seconds(t.id, "cpu")]
    assert len(skipped) == 3  # of the branch that is never taken
    assert all(found.seconds(t.id, "cpu") > 0 for t in found.tasks if t.op == "choose")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--probability", "door=0.5"), "'door', which is no condition of the model"),
        (("--probability", "c=1.5"), "expected a number from 0"),
        (("--probability", "c=0.5", "--shape", "x=4..8x32"), "--probability is for one size"),
    ],
)
def test_what_makes_no_sense_is_refused(place: Path, given: tuple[str, ...], words: str) -> None:
    outcome = tvm_hetero("partition", *options(place, "-o", place / "n.hetero", *given))
    assert outcome.status == 2
    assert words in " ".join(outcome.err.split())
    assert not (place / "n.hetero").exists()
