"""``tvm-hetero adapt``: policies compared on a recording and live."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.online.comparison.test_recorded import recording
from tests.online.live.models import adaptable
from tests.online.record.test_record import command_lines
from tests.report.schedule.test_html import Reader
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.online.comparison import live_best


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A recording of four blocks of time on big and little cores, alone and beside ``busy``."""
    recording().save(tmp_path / "table.json")
    return tmp_path / "table.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two unlike places that was built to be adapted."""
    path = tmp_path_factory.mktemp("adapt") / "net.hetero"
    adaptable().save(path)
    return path


def test_a_recording_is_replayed_for_each_policy(table: Path) -> None:
    outcome = tvm_hetero("adapt", table)
    assert outcome.status == 0, outcome.err
    rows = {line.split()[0]: line for line in outcome.out.splitlines() if " ms " in line}
    assert set(rows) >= {"resolve", "odin", "lls", "static"}
    assert "The best: 250 /s in quiet, 166.7 /s disturbed (the exact best" in outcome.out
    assert "net, 4 places, busy on big.0" in outcome.out
    assert "▒" in outcome.out and "█" in outcome.out


def test_json_has_the_figures_and_every_change_with_its_reason(table: Path) -> None:
    outcome = tvm_hetero(
        "adapt", table, "--json", "--policies", "static, resolve", "--requests", 1200,
        "--begin", 400, "--end", 900, "--places", 4,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["requests"] == 1200 and found["disturbed"] == [[400, 900]]
    static, resolve = found["policies"]
    assert (static["policy"], resolve["policy"]) == ("static", "resolve")
    assert static["changes"] == [] and static["recovery"] is None
    assert resolve["disturbed"] > 1.5 * static["disturbed"]
    assert 0 < resolve["recovery"] < resolve["seconds"]
    assert resolve["switches"] == sum(change["switched"] for change in resolve["changes"])
    assert all(change["why"] for change in resolve["changes"])
    assert found["best"]["disturbed"] == pytest.approx(1 / 6e-3)
    assert outcome.err.count("Replay") == 2


def test_disturbances_come_again(table: Path) -> None:
    outcome = tvm_hetero(
        "adapt", table, "--json", "--policies", "static", "--requests", 100,
        "--period", 40, "--duration", 15,
    )  # fmt: skip
    assert json.loads(outcome.out)["disturbed"] == [[40, 55], [80, 95]]


def test_the_page_is_whole_and_runs_nothing(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    outcome = tvm_hetero("adapt", table, "--policies", "resolve,static", "-o", page)
    assert outcome.status == 0, outcome.err
    assert f"wrote {page}" in outcome.out
    text = page.read_text(encoding="utf-8")
    read = Reader(text)
    assert read.open == [] and read.tags.count("svg") == 1
    assert "script" not in read.tags and "https:" not in text and "http:" not in text
    for piece in ("Throughput over time", "Switches of resolve", "The best: 250 /s in quiet"):
        assert any(piece in each for each in read.text)
    classes = [value for name, value in read.attributes if name == "class"]
    assert classes.count("rate") == 3  # two rows and the legend
    assert classes.count("band") == 3
    assert any("takes longer than it did" in each for each in read.text)


def test_people_may_say_memory_and_cache(table: Path, tmp_path: Path) -> None:
    text = table.read_text(encoding="utf-8").replace('"busy"', '"stream@own"')
    (tmp_path / "memory.json").write_text(text, encoding="utf-8")
    outcome = tvm_hetero("adapt", tmp_path / "memory.json", "--disturb", "memory")
    assert outcome.status == 0 and "stream@own on big.0" in outcome.out
    outcome = tvm_hetero("adapt", tmp_path / "memory.json", "--disturb", "cache")
    assert outcome.status == 2 and "nothing like it was recorded" in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policies", "resolv"], "no policy 'resolv'; did you mean 'resolve'"),
        (["--policies", "odin,odin"], "one is given twice"),
        (["--policies", "odin,"], "no policy ''"),
        (["--policies", "none"], "no policy 'none'"),
        (["--disturb", "bussy"], "did you mean 'busy'"),
        (["--disturb", "alone"], "nothing like it was recorded"),
        (["--place", "4"], "there are 4 places, 0 to 3"),
        (["--places", "0"], "--places"),
        (["--begin", "7", "--period", "9", "--duration", "2"], "--period and --duration for many"),
        (["--period", "9"], "give both"),
        (["--period", "9", "--duration", "9"], "duration < period"),
        (["--begin", "9", "--end", "9"], "1 <= begin < end <= 3000"),
        (["--requests", "2"], "--requests"),
        (["--alpha", "0"], "--alpha"),
        (["--input", "x.npz"], "--input is for an artifact"),
        (["--best-of", "3"], "--best-of is for an artifact"),
        (["-o", "/nowhere/r.html"], "there is no folder"),
    ],
)
def test_what_makes_no_sense_is_refused(table: Path, options: list[str], message: str) -> None:
    outcome = tvm_hetero("adapt", table, *options)
    assert outcome.status == 2
    assert message in " ".join(outcome.err.split())


def test_what_is_no_recording_and_no_artifact_is_refused(tmp_path: Path) -> None:
    outcome = tvm_hetero("adapt", tmp_path / "nothing")
    assert outcome.status == 2 and "'tvm-hetero record'" in outcome.err
    (tmp_path / "other.json").write_text('{"format": "tvm-hetero/problem/1"}')
    outcome = tvm_hetero("adapt", tmp_path / "other.json")
    assert outcome.status != 0 and "tvm-hetero/recording/1" in outcome.err
    outcome = tvm_hetero("adapt", tmp_path)
    assert outcome.status != 0 and "expected an artifact" in outcome.err


def test_an_artifact_runs_once_for_each_policy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_best, "_SECONDS", 0.03)  # of two busy cores, for each that is tried
    page = tmp_path / "live.html"
    outcome = tvm_hetero(
        "adapt", folder, "--json", "--policies", "static,none", "--requests", 60,
        "--best-of", 2, "-o", page,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert "busy on big, live" in found["title"]
    assert [row["policy"] for row in found["policies"]] == ["static", "none"]
    for row in found["policies"]:
        assert row["seconds"] > 0 and row["disturbed"] > 0 and 0 < row["p50"] <= row["p99"]
    assert found["policies"][1]["note"] == "the artifact's own plan"
    assert found["best"]["disturbed"] > 0 and "2 likely configurations" in found["best"]["how"]
    assert Reader(page.read_text(encoding="utf-8")).open == []
    assert not [line for line in command_lines() if line.endswith(f" {os.getpid()}")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--places", "2"], "--places is for a recording"),
        (["--place", "2"], "there is no place 2 to be disturbed; there are 0 (big), 1 (little)"),
        (["--disturb", "noise"], "no disturbance 'noise'"),
        (["--policies", "nobody"], "no policy 'nobody'"),
        (["--input", "/nowhere/x.npz"], "cannot be read as .npz"),
        (["--begin", "50", "--end", "40", "--requests", "60"], "1 <= begin < end <= 60"),
    ],
)
def test_what_cannot_run_live_is_refused(folder: Path, options: list[str], message: str) -> None:
    outcome = tvm_hetero("adapt", folder, *options)
    assert outcome.status == 2
    assert message in " ".join(outcome.err.split())


def test_a_model_that_was_not_built_for_it_is_refused(
    executable: Executable, tmp_path: Path
) -> None:
    executable.save(tmp_path / "fixed.hetero")
    outcome = tvm_hetero("adapt", tmp_path / "fixed.hetero")
    assert outcome.status == 2 and "--objective throughput" in outcome.err


def test_an_interruption_leaves_no_page_and_no_disturber(folder: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tvm_hetero", "adapt", folder, "-o", tmp_path / "r.html",
        "--policies", "none", "--requests", "20000", "--begin", "5", "--end", "20000",
    ]  # fmt: skip
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            if "(requests:" in line:  # a hundredth has gone through, so the disturbance is there
                break
        mine = [line for line in command_lines() if line.endswith(f" {process.pid}")]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "interrupted" in process.stderr.read()
    assert len(mine) == 1 and "busy" in mine[0]
    assert list(tmp_path.iterdir()) == []
    assert not [line for line in command_lines() if line.endswith(f" {process.pid}")]
