from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.planning.power.test_plan import two_levels
from tvm_hetero.problem import Objective


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "p.json"
    two_levels(0.5).save(path)
    return path


def test_a_cap_and_a_rate_are_told_and_judged(problem: Path, tmp_path: Path) -> None:
    schedule = tmp_path / "s.json"
    capped = tvm_hetero("power", problem, "--watts", "4", "-o", schedule)
    assert capped.status == 0
    assert "core.half" in capped.out and "4 W in the mean" in capped.out
    assert tvm_hetero("check", problem, schedule).status == 0
    found = json.loads(tvm_hetero("power", problem, "--watts", "4", "--json").out)
    assert found["watts"] <= 4 and found["gap"] < 1e-3
    rate = f"{2 * found['period']}s"
    slow = json.loads(tvm_hetero("power", problem, "--period", rate, "--json").out)
    assert slow["joules"] < 2 * found["joules"] and slow["gap"] < 1e-3


def test_where_nothing_is_proven_that_is_said(tmp_path: Path) -> None:
    path, problem = tmp_path / "p.json", two_levels(0.5)
    replace(problem, objective=Objective("throughput", batch=2)).save(path)
    for words, other in ((("--watts", "4"), "is quicker"), (("--period", "90s"), "takes less")):
        said = tvm_hetero("power", path, *words).out
        assert "no bound is proven" in said and other not in said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "expected --watts or --period"),
        (["--watts", "4", "--period", "1s"], "expected --watts or --period"),
        (["--period", "soon"], "--period"),
        (["--watts", "0.1"], "keeps 0.1 W in the mean"),
    ],
)
def test_refusals(problem: Path, words: list[str], text: str) -> None:
    result = tvm_hetero("power", problem, *words)
    assert result.status != 0 and text in result.err
