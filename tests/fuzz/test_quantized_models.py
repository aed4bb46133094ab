"""Random models in bytes compute what ONNX Runtime says; more by ``make fuzz``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.quantized_models import attempt, main


def test_rewriting_keeps_what_codes_compute() -> None:
    counts: Counter[str] = Counter()
    for seed in range(2030, 2042):
        status, why = attempt(seed, build=False)
        counts[status] += 1
        assert status in ("same", "invalid"), f"seed {seed}: {status}, {why}"
    assert counts["same"] > 8


def test_the_command_counts_what_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.1", "--first", "3"]) == 0
    assert "same" in capsys.readouterr().out
