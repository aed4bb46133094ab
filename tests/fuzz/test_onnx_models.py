"""Random ONNX models compute what ONNX Runtime says; a few hundred here, more by ``make fuzz``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.onnx_models import attempt, main


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_expansion_keeps_what_a_model_computes(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 60):
        status, why = attempt(seed, nodes=12, build=False)
        counts[status] += 1
        assert status != "wrong", f"seed {seed}: {why}"
    # ONNX Runtime has no kernel for a few; refusing the rest would be too easy.
    assert counts["same"] > 40
    assert not counts["refused"]


@pytest.mark.parametrize("seed", range(1000, 1008))
def test_what_is_placed_and_compiled_computes_it_too(seed: int) -> None:
    status, why = attempt(seed, nodes=16, build=True)
    assert status != "wrong", why


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.2", "--nodes", "4"]) == 0
    assert "same" in capsys.readouterr().out
