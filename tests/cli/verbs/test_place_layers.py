from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.planning.helix.test_format import DOCUMENT


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


def test_a_layout_is_told_written_and_judged_alike(problem: Path, tmp_path: Path) -> None:
    layout = tmp_path / "layout.json"
    placed = tvm_hetero("place-layers", problem, "--time-limit", "20", "-o", layout)
    assert placed.status == 0
    assert "tokens/s; none passes more than" in placed.out
    assert "(optimal)" in placed.out
    judged = tvm_hetero("place-layers", problem, "--judge", layout)
    assert judged.status == 0
    assert judged.out.splitlines()[:4] == placed.out.splitlines()[1:5]


def test_json_for_machines(problem: Path) -> None:
    result = tvm_hetero("place-layers", problem, "--time-limit", "20", "--json")
    found = json.loads(result.out)
    assert found["proven"]
    # Both hold all three layers and share the tokens: better than two stages.
    assert found["tokens_per_second"] == pytest.approx(50.0)
    assert sum(link["tokens_per_second"] for link in found["links"]
               if link["from"] == "coordinator") == pytest.approx(50.0)  # fmt: skip


def test_what_does_not_fit_ends_with_an_error(problem: Path) -> None:
    problem.write_text(json.dumps({**DOCUMENT, "layers": 9}))
    result = tvm_hetero("place-layers", problem)
    assert result.status != 0
    assert "hold at most 8 layers together" in result.err
