"""Hostile models are refused or imported; some here, thousands by ``make fuzz``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.hostile_models import attempt, hostile_model, main


def test_hostile_models_end_well(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(24):
        status, why = attempt(hostile_model(seed), tmp_path / "m.onnx")
        counts[status] += 1
        assert status != "fault", f"seed {seed}: {why}"
    assert counts["refused"] > 10


def test_a_seed_is_a_file() -> None:
    files = [hostile_model(seed) for seed in range(30)]
    assert files == [hostile_model(seed) for seed in range(30)]
    assert len(set(files)) == len(files)


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "2", "--first", "7"]) == 0
    assert "MiB at most" in capsys.readouterr().out
