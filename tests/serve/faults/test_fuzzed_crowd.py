"""Forty-eight clients of fixed seeds; `tests.fuzz.serve_crowd` draws more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.serve_crowd import CROWD, fuzz
from tvm_hetero.serve.oip.infer import Infer


def test_a_crowd_is_answered_or_told_why_not(served_models: Path) -> None:
    outcomes, count, faults = fuzz(served_models, iter(range(2 * CROWD)))
    assert (count, faults) == (2 * CROWD, 0)
    assert outcomes["200"] > 20 and outcomes["400"] > 5


def test_a_fault_of_the_server_is_found_out(
    served_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Infer, "read_head", lambda self: 1 // 0)
    assert fuzz(served_models, iter(range(CROWD)))[2] == 1
