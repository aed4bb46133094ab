from __future__ import annotations

import os
from pathlib import Path

from tests.cli.invoke import tvm_hetero
from tests.report import samples
from tests.solvers.examples import topcuoglu
from tvm_hetero.solvers import solve


def test_problem(files: Path) -> None:
    result = tvm_hetero("show", files / "problem.json")
    assert result.status == 0
    assert "critical path" in result.out and "little" in result.out


def test_schedule_with_its_problem_and_a_page(files: Path) -> None:
    page = files / "out.html"
    result = tvm_hetero(
        "show", files / "schedule.json", "--problem", files / "problem.json", "--html", page
    )
    assert result.status == 0
    assert "gap 20.0 %" in result.out and "[b─" in result.out
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "conv2d" in text


def test_schedule_alone(files: Path) -> None:
    result = tvm_hetero("show", files / "schedule.json")
    assert result.status == 0
    assert "big → little" in result.out


def test_schedule_of_another_problem(files: Path) -> None:
    samples.problem(name="other").save(files / "other.json")
    result = tvm_hetero("show", files / "schedule.json", "--problem", files / "other.json")
    assert result.status == 2
    assert "answers another problem" in result.err


def test_platform(files: Path) -> None:
    samples.problem().platform.save(files / "p.yaml")
    result = tvm_hetero("show", files / "p.yaml")
    assert result.status == 0
    assert "big → little  3.81 MiB/s" in result.out


def test_what_has_no_page(files: Path) -> None:
    result = tvm_hetero("show", files / "problem.json", "--html", files / "x.html")
    assert result.status == 2
    assert not (files / "x.html").exists()


def test_a_folder_that_is_no_artifact(files: Path) -> None:
    result = tvm_hetero("show", files)
    assert result.status == 2
    assert "expected an artifact" in result.err


def test_hostile_names_are_escaped(files: Path) -> None:
    problem = samples.problem(name=samples.EVIL, evil=True)
    problem.save(files / "evil.json")
    samples.schedule(problem).save(files / "evil-schedule.json")
    for args in (["evil.json"], ["evil-schedule.json", "--problem", files / "evil.json"]):
        result = tvm_hetero("show", files / args[0], *args[1:])
        assert result.status == 0
        assert "\x1b" not in result.out and "\u202e" not in result.out


def test_a_schedule_is_explained_by_the_problem_beside_it(tmp_path: Path) -> None:
    topcuoglu().save(tmp_path / "problem.json")
    solve(topcuoglu(), "heft").save(tmp_path / "plan.json")
    chart, page = tmp_path / "plan.svg", tmp_path / "plan.html"
    result = tvm_hetero("show", tmp_path / "plan.json", "--svg", chart, "--html", page)
    assert result.status == 0, result.err
    assert "Critical path" in result.out and "What would help most" in result.out
    assert chart.read_text(encoding="utf-8").startswith("<svg")
    assert "How the devices spend the time" in page.read_text(encoding="utf-8")


def test_without_its_problem_a_schedule_says_what_is_missing(tmp_path: Path) -> None:
    solve(topcuoglu(), "heft").save(tmp_path / "plan.json")
    result = tvm_hetero("show", tmp_path / "plan.json")
    assert result.status == 0 and "With --problem" in result.out


def test_a_pipe_beside_a_schedule_is_not_waited_for(files: Path) -> None:
    os.mkfifo(files / "a.json")
    result = tvm_hetero("show", files / "schedule.json")
    assert result.status == 0
    assert "What would help" in result.out
