"""Random models in bytes compute what ONNX Runtime says; more by ``make fuzz``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.quantized_models import attempt, main

# Of these some showed what was wrong once: axes wrapped around, values that a branch reads dropped.
_SEEDS = (1, 7, 12, 23, 33, 39)


def test_rewriting_keeps_what_codes_compute() -> None:
    counts: Counter[str] = Counter()
    for seed in _SEEDS:
        status, why = attempt(seed, build=False)
        counts[status] += 1
        assert status in ("same", "invalid"), f"seed {seed}: {status}, {why}"
    assert counts["same"] >= len(_SEEDS) / 2


def test_the_command_counts_what_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.1", "--first", "3"]) == 0
    assert "same" in capsys.readouterr().out
