"""Hostile models are refused or imported; some here, thousands by ``make fuzz``."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz.hostile_models import attempt, hostile_model

# Seeds that were faults: axes beyond the rank, of slices too, and an input of negative size.
MENDED = (9_006_612, 9_013_071, 9_014_893, 9_015_212)


def test_hostile_models_end_well(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in (*MENDED, *range(20)):
        status, why = attempt(hostile_model(seed), tmp_path / "m.onnx")
        counts[status] += 1
        assert status != "fault", f"seed {seed}: {why}"
    assert counts["refused"] > 10


def test_a_seed_is_a_file() -> None:
    files = [hostile_model(seed) for seed in range(30)]
    assert files == [hostile_model(seed) for seed in range(30)]
    assert len(set(files)) == len(files)


def test_the_command_counts() -> None:
    # Behind a shell: Linux counts as a program's memory what the process had that became it.
    without_torch = f"{sys.executable} -m tvm_hetero.processes.child_main"
    command = f"{without_torch} tests.fuzz.hostile_models --count 2 --first 7; exit $?"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MiB at most" in done.stdout
