from __future__ import annotations

from pathlib import Path

from tests.cli.invoke import tvm_hetero


def test_a_valid_schedule(files: Path) -> None:
    result = tvm_hetero("check", files / "problem.json", files / "schedule.json")
    assert result.status == 0
    assert "valid: every rule" in result.out


def test_violations_are_listed_and_the_status_is_1(files: Path) -> None:
    result = tvm_hetero("check", files / "problem.json", files / "wrong.json")
    assert result.status == 1
    assert "'c' on 'little'" in result.out
    assert result.out.splitlines()[-1] == "invalid: 2 violations"
    assert result.err == ""


def test_files_in_the_wrong_order(files: Path) -> None:
    result = tvm_hetero("check", files / "schedule.json", files / "problem.json")
    assert result.status == 2
    assert len(result.err.splitlines()) == 1
    assert "tvm-hetero/schedule/1" in result.err and "tvm-hetero/problem/1" in result.err
