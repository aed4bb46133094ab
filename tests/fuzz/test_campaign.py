"""A campaign counts what harnesses say, and what they no longer could say."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.result_rows import read_rows
from tests.fuzz import campaign
from tests.fuzz.tally import conclude, harness_parser, seeds

_ROW = {"count": 3, "wanted": 30, "first": 1, "faults": 0, "seconds": 2.0,
        "outcomes": {"read": 3}}  # fmt: skip


def test_a_harness_that_dies_is_a_fault() -> None:
    assert campaign.read_tally("a seed\n", -11) == {
        "count": 0, "faults": 1, "outcomes": {"ended with status -11": 1},
    }  # fmt: skip
    good = json.dumps({"harness": "x", "first": 0, "count": 2, "faults": 0, "outcomes": {"a": 2}})
    assert campaign.read_tally(f"words\n{good}\n", 0)["faults"] == 0
    assert campaign.read_tally(f"{good}\nSegmentation fault\n", -11)["faults"] == 1


def test_a_campaign_that_is_ended_writes_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its harness was ended with it, and stood in the results as a fault."""
    monkeypatch.setattr(campaign, "LOGS", tmp_path)
    run = subprocess.run
    for number in (signal.SIGTERM, signal.SIGINT):
        child = f"import os; os.kill(os.getpid(), {int(number)})"
        if number == signal.SIGINT:
            child = f"import signal; signal.signal(2, signal.SIG_DFL); {child}"
        command = (sys.executable, "-c", child)
        monkeypatch.setattr(subprocess, "run", lambda _, command=command, **to: run(command, **to))
        with pytest.raises(KeyboardInterrupt):
            campaign.run_harness(campaign.HARNESSES[0], 0, 1)


def test_what_a_harness_ends_with_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude("/somewhere/documents.py", 7, {"read": 2, "fault": 1}, 1) == 1
    said = campaign.read_tally(capsys.readouterr().out, 1)
    assert (said["harness"], said["first"], said["count"], said["faults"]) == ("documents", 7, 3, 1)


def test_a_harness_tries_as_many_as_it_is_told() -> None:
    asked = harness_parser(None).parse_args(["--count", "3", "--first", "5"])
    assert list(seeds(asked)) == [5, 6, 7]
    assert list(seeds(harness_parser(None).parse_args(["--seconds", "0"]))) == []


def test_rows_take_the_place_of_those_before(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.json"
    for name, faults in (("signals", 0), ("documents", 1), ("signals", 2)):
        campaign.write_row({**_ROW, "harness": name, "faults": faults}, path)
    rows = read_rows(path)
    assert [(row["harness"], row["faults"]) for row in rows] == [("documents", 1), ("signals", 2)]
    assert all(row["commit"] and row["date"] for row in rows)


def test_a_row_is_gone_on_with_on_its_own_commit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, harness = tmp_path / "fuzz.json", campaign.HARNESSES[0]
    for commit, kept in (("abc1234", True), ("abc1234+", False), ("other56", False)):
        monkeypatch.setattr(campaign, "commit_name", lambda commit=commit: commit)
        monkeypatch.setattr("benchmarks.documents.commit_name", lambda commit=commit: commit)
        if commit != "other56":
            campaign.write_row({**_ROW, "harness": harness.name}, path)
        assert (campaign.row_so_far(harness, path) is not None) == kept
    more = {**_ROW, "first": 4, "faults": 1, "outcomes": {"fault": 1, "read": 2}}
    both = campaign.joined({**_ROW, "harness": "x"}, more)
    assert (both["count"], both["first"], both["faults"], both["seconds"]) == (6, 1, 1, 4.0)
    assert both["outcomes"] == {"fault": 1, "read": 5}


def test_a_small_campaign_runs_harnesses_and_writes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = read_rows(campaign.RESULTS)
    assert campaign.main(["relay_programs", "--count", "2", "--first", "3"]) == 0
    assert read_rows(campaign.RESULTS) == before
    assert capsys.readouterr().out.split()[:5] == ["relay_programs", "2", "of", "2000", "0"]


def test_all_harnesses_of_make_fuzz_are_in_it() -> None:
    text = (campaign.ROOT / "Makefile").read_text(encoding="utf-8")
    modules = {harness.module for harness in campaign.HARNESSES}
    assert {word for word in text.split() if word.startswith("tests.fuzz.")} == modules
