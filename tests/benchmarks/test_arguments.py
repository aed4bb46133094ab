"""What benchmarks refuse on the command line, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import msr
from benchmarks.execution.arguments import chosen
from benchmarks.execution.cases import RANDWIRE, TINY


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        chosen("Text.", arguments, "r.json", models=["own"], batches=[1], limit=1.0, rounds=2)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_what_is_wrong_is_said_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "there is no 'nope'; expected some of own" in refused(capsys, "--models", "own,nope")
    assert "there is no ''" in refused(capsys, "--models", "")
    for text in ("0", "-1", "nan", "inf", "x"):
        assert "seconds above 0" in refused(capsys, f"--time-limit={text}")
    for text in ("0", "-3", "x", "9" * 5000):
        assert "a number from 1 on" in refused(capsys, f"--rounds={text}")
        assert "a number from 1 on" in refused(capsys, f"--batches=1,{text}")
    for path in (tmp_path, tmp_path / "missing" / "x.json"):
        assert "a folder that is there" in refused(capsys, "--output", str(path))


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    given = ["--models", f"own,{RANDWIRE},{TINY}", "--batches", "1,4", "--output", str(path)]
    found = chosen("Text.", given, "r.json", models=["own"], batches=[1], limit=1.0)
    assert found is not None
    assert found.models == ("own", RANDWIRE, TINY) and found.batches == (1, 4)
    assert found.output == path and found.limit == 1.0


def test_a_pattern_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        msr.main(["--only", "("])
    assert "'(' is no regular expression: missing )" in capsys.readouterr().err
