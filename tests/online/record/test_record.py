"""``tvm-hetero record`` from a model to a table, and what an interruption leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from benchmarks.execution.cases import TINY, make_model
from tests.cli.invoke import tvm_hetero
from tvm_hetero.online.configuration import Place
from tvm_hetero.online.table import Recording
from tvm_hetero.platform.host import available_cores

QUICK = ("--seconds", "0.02", "--noise", "60", "--cost-model", "quick")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small network, and a cache that is no user's."""
    folder = tmp_path_factory.mktemp("record")
    onnx.save(make_model(TINY), folder / "tiny.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVM_HETERO_CACHE", str(folder / "cache"))
        yield folder / "tiny.onnx"


def test_a_recording_has_every_block_on_every_place_in_every_scenario(
    model: Path, tmp_path: Path
) -> None:
    output = tmp_path / "table.json"
    outcome = tvm_hetero(
        "record", model, "-o", output, "--places", "native:1", "--places", "x86-64-v2:1",
        "--disturb", "busy", "--disturb", "thrash", *QUICK,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert "x86-64-v2:1" in outcome.out and "wrote" in outcome.out
    recording = Recording.load(output)
    assert recording.scenarios == ("alone", "busy", "thrash")
    assert recording.kinds == {"native": (1,), "x86-64-v2": (1,)}
    assert recording.name == "tiny" and "measured on" in recording.source
    assert len(recording.noise) == 60 and min(recording.noise) > 0
    # The convolution with the most work, and what bounds the layer that reads the most weights.
    weights = dict(zip((block.name for block in recording.blocks), recording.weights, strict=True))
    assert max(weights, key=weights.__getitem__).endswith("dense_add5")
    assert recording.bounds[-1] == "memory"
    rows = recording.seconds_on([Place("a", "native", (0,)), Place("b", "x86-64-v2", (1,))])
    assert len(rows) == len(recording.blocks) and all(min(row) > 0 for row in rows)


def test_wide_places_and_json(model: Path, tmp_path: Path) -> None:
    if len(available_cores()) < 2:
        pytest.skip("one core makes no team")
    output = tmp_path / "table.json"
    outcome = tvm_hetero(
        "record", model, "-o", output, "--places", "native:1,2", "--disturb", "stream",
        "--json", *QUICK,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    totals = json.loads(outcome.out)
    assert {scenario: set(places) for scenario, places in totals.items()} == {
        "alone": {"native:1", "native:2"}, "stream": {"native:1", "native:2"}
    }  # fmt: skip
    recording = Recording.load(output)
    assert totals["alone"]["native:2"] == pytest.approx(
        sum(recording.seconds["alone"]["native"][2])
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--places", "native:9999"], "this process may use"),
        (["--places", "native:0"], "expected KIND:WIDTHS"),
        (["--disturb", "buzy"], "did you mean 'busy'"),
        (["-o", "/nowhere/table.json"], "there is no folder"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_measured(
    model: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    outcome = tvm_hetero("record", model, "-o", tmp_path / "t.json", *options)
    assert outcome.status == 2 and message in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_no_file_and_no_disturber(model: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tvm_hetero", "record", model, "-o", tmp_path / "table.json",
        "--disturb", "busy", "--seconds", "2", "--cost-model", "quick",
    ]  # fmt: skip
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            if "native-1: busy" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "interrupted" in process.stderr.read()
    assert list(tmp_path.iterdir()) == []
    assert not [line for line in command_lines() if line.endswith(f" {process.pid}")]


def command_lines() -> list[str]:
    """Of all disturbers that are at work on this machine; the last word is their parent."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode())
        except OSError:  # it has just ended
            continue
    return [line for line in found if "disturbance.py" in line]
