"""The benchmark of calls runs: a tiny model is right, and is timed beside ONNX Runtime."""

from __future__ import annotations

import onnx
import pytest

from benchmarks import calls


def test_a_small_run_times_one_model_on_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    before = calls.RESULTS.read_bytes() if calls.RESULTS.exists() else None
    [row] = calls.main(["--small"])
    assert row.outcome == "right", row.reason
    assert row.ours_s and row.runtime_s and row.ours_median_s and row.runtime_median_s
    assert row.ours_s <= row.ours_median_s and row.runtime_s <= row.runtime_median_s
    assert capsys.readouterr().out.splitlines()[-1] == calls.line_of(row)
    assert before == (calls.RESULTS.read_bytes() if calls.RESULTS.exists() else None)


@pytest.mark.parametrize("name", calls.MODELS)
def test_each_model_is_one_that_onnx_accepts(name: str) -> None:
    onnx.checker.check_model(calls.MODELS[name](), full_check=True)
