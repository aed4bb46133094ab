"""Random loops give what ONNX Runtime gives; a few here, more by ``make fuzz``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.onnx_loops import attempt, main, model_of
from tvm_hetero.frontends.onnx.expansion import control_flow, no_steps
from tvm_hetero.frontends.onnx.expansion.loop_steps import count_nodes


def test_expanded_loops_give_what_the_model_does() -> None:
    counts: Counter[str] = Counter()
    for seed in range(30):
        status, why = attempt(seed)
        counts[status] += 1
        assert status not in ("wrong", "refused: else"), f"seed {seed}: {why}"
    # Refusing them would be too easy.
    assert counts["same"] > 20


def test_steps_that_there_are_not_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that is too high refuses what could be unrolled."""
    monkeypatch.setattr(control_flow, "count_nodes", lambda *asked: 9 * count_nodes(*asked))
    status, why = attempt(38)
    assert status == "wrong"
    assert "only if its steps are counted" in why


def test_another_order_of_what_is_stacked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = control_flow._stack
    monkeypatch.setattr(control_flow, "_stack", lambda r, p, *rest: stack(r, p[::-1], *rest))
    assert "wrong" in {attempt(seed)[0] for seed in (1, 5)}


def test_another_shape_of_what_no_step_gives_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    stacked = no_steps._stacked
    monkeypatch.setattr(no_steps, "_stacked", lambda piece, axis: stacked(piece, axis + 1))
    assert attempt(15) == ("wrong", "output 6: float32(2, 0, 2), not float32(0, 2, 2)")


def test_a_seed_is_a_model() -> None:
    models = [model_of(seed).SerializeToString() for seed in range(20)]
    assert models == [model_of(seed).SerializeToString() for seed in range(20)]
    assert len(set(models)) == len(models)


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "3", "--first", "2"]) == 0
    assert '"harness": "onnx_loops", "first": 2, "count": 3' in capsys.readouterr().out
