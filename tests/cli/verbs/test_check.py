from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.cli.invoke import tvm_hetero
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Schedule


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


def test_what_was_moved_by_hand_gets_its_times_and_is_written(files: Path) -> None:
    answer = Schedule.load(files / "schedule.json")
    last = answer.executions[-1]
    others = set(Problem.load(files / "problem.json").devices_for(last.task)) - {last.device}
    moved = replace(last, device=min(others))
    replace(answer, executions=(*answer.executions[:-1], moved)).save(files / "moved.json")
    assert tvm_hetero("check", files / "problem.json", files / "moved.json").status == 1
    out = files / "new" / "out.json"
    args = ("check", files / "problem.json", files / "moved.json", "--retime")
    assert tvm_hetero(*args, out).status == 2 and not out.exists()
    mended = tvm_hetero(*args, files / "out.json")
    assert mended.status == 0 and "valid: every rule" in mended.out
    assert Schedule.load(files / "out.json").placement[last.task] == (moved.device,)
    assert tvm_hetero("check", files / "problem.json", files / "out.json").status == 0
