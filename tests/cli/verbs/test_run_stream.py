"""``tvm-hetero run --stream``: as fast as inputs go through, and adapted where it is asked for."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.cli.invoke import tvm_hetero
from tests.online.live.models import INPUTS, adaptable
from tvm_hetero.artifact.executable import Executable


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two unlike places that was built to be adapted."""
    path = tmp_path_factory.mktemp("stream") / "net.hetero"
    adaptable().save(path)
    return path


def test_a_stream_without_a_policy_tells_how_many_requests_went_through(folder: Path) -> None:
    outcome = tvm_hetero("run", folder, "--random", "--stream", "--seconds", 0.3)
    assert outcome.status == 0, outcome.err
    assert "requests in" in outcome.out and "a second" in outcome.out
    assert "switches" not in outcome.out and "adapted" not in outcome.out


@pytest.mark.parametrize("adapt", [[], ["--adapt", "none"]])
def test_json_has_the_requests_of_each_second(folder: Path, adapt: list[str]) -> None:
    outcome = tvm_hetero("run", folder, "--random", "--stream", "--seconds", 0.3, "--json", *adapt)
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["policy"] is None and found["switches"] == []
    assert sum(found["requests_by_second"]) == found["requests"] > 0
    assert len(found["requests_by_second"]) == int(found["seconds"]) + 1
    assert (found["idle"], found["failure"]) == ("", "")


def test_a_policy_tells_each_switch_and_why(folder: Path) -> None:
    outcome = tvm_hetero(
        "run", folder, "--random", "--stream", "--seconds", 3, "--adapt", "hill-climbing",
        "--alpha", 1,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert "adapted by hill-climbing" in outcome.out
    first_stage = r"0(-\d+)?@(big|little)"  # of one block or several
    assert re.search(rf"switches; at the end: {first_stage}", outcome.out)
    lines = [line for line in outcome.out.splitlines() if re.search(rf" s  {first_stage}", line)]
    assert lines and all("@big" in line or "@little" in line for line in lines)
    assert all(": " in line for line in lines)
    assert "tvm_hetero adapter" not in {thread.name for thread in threading.enumerate()}


def test_json_has_each_switch_with_what_was_seen_and_why(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **INPUTS)
    outcome = tvm_hetero(
        "run", folder, "--input", tmp_path / "x.npz", "--stream", "--seconds", 3,
        "--adapt", "hill-climbing", "--alpha", 1, "--json",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["policy"] == "hill-climbing" and found["failure"] == ""
    for switch in found["switches"]:
        assert switch["at"] >= 0 and switch["why"] and switch["phase"] in {"try", "settled"}
        assert switch["rate"] > 0 and min(switch["stages"]) > 0


def test_equal_places_are_left_alone_and_it_is_said(tmp_path: Path) -> None:
    adaptable(equal=True).save(tmp_path / "equal.hetero")
    outcome = tvm_hetero(
        "run", tmp_path / "equal.hetero", "--random", "--stream", "--seconds", 0.2,
        "--adapt", "resolve", "--json",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert "nothing is adapted: all places are equal" in outcome.err
    assert "equal" in json.loads(outcome.out)["idle"]


def test_a_stream_of_no_time_says_that_nothing_ended(folder: Path) -> None:
    outcome = tvm_hetero("run", folder, "--random", "--stream", "--seconds", 0)
    assert outcome.status == 0 and "no request ended" in outcome.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--random", "--adapt", "resolve"], "add --stream"),
        (["--stream"], "either --random or --input"),
        (["--random", "--stream", "--output", "y.npz"], "leave out --output"),
        (["--random", "--stream", "--trace", "t.json", "--deadline", "1"], "--trace, --deadline"),
        (["--random", "--stream", "--check-numerics"], "leave out --check-numerics"),
        (["--random", "--stream", "--adapt", "resolv"], "did you mean 'resolve'"),
        (["--random", "--stream", "--adapt", "odin", "--variant", "single"], "leave out the"),
        (["--random", "--stream", "--adapt", "odin", "--alpha", "0"], "--alpha"),
        (["--random", "--stream", "--seconds", "-1"], "--seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(folder: Path, options: list[str], message: str) -> None:
    outcome = tvm_hetero("run", folder, *options)
    assert outcome.status == 2
    assert message in outcome.err


def test_a_model_that_was_not_built_for_it_is_refused(
    executable: Executable, tmp_path: Path
) -> None:
    executable.save(tmp_path / "fixed.hetero")
    command = ["run", tmp_path / "fixed.hetero", "--random", "--stream", "--seconds", 0.2]
    assert tvm_hetero(*command).status == 0
    outcome = tvm_hetero(*command, "--adapt", "resolve")
    assert outcome.status == 2 and "for throughput" in outcome.err
