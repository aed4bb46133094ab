"""The benchmark of precision: what its small mode says of a network."""

from __future__ import annotations

import pytest

from benchmarks import precision
from tests.kernels.helpers import ZEN4, runs_here
from tvm_hetero.problem.precision_promise import AUTO, BFLOAT16, FLOAT32


@pytest.mark.skipif(not runs_here(ZEN4), reason="the processor has no such instruction")
def test_a_small_run_says_time_and_error(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = precision.main(["--small"])
    assert row.tasks >= row.narrow[BFLOAT16] >= row.narrow[AUTO] > 0 == row.narrow[FLOAT32]
    assert all(row.seconds[key] > 0 for key in (FLOAT32, BFLOAT16, AUTO))
    assert 0 < row.errors[AUTO] <= 1e-2
    assert "squeezenet" in capsys.readouterr().out
