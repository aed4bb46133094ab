"""The benchmark of recurrent nodes, small."""

from __future__ import annotations

import pytest

from benchmarks import recurrent


def test_every_cell_is_right_and_measured() -> None:
    rows = recurrent.main(["--small"])
    assert [row.cell for row in rows] == list(recurrent.CELLS)
    for row in rows:
        assert row.error < 1e-5
        assert row.ours_s > 0
        assert row.ratio == pytest.approx(row.ours_s / row.ort_s)
