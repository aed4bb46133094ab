"""The benchmark of interpolated costs runs, and compares what it says it compares."""

from __future__ import annotations

from benchmarks import open_sizes


def test_a_size_between_two_measured_ones_is_compared() -> None:
    (row,) = open_sizes.main(["--small"])
    assert (row.size, row.kernels) == ("48", 2)
    assert row.measured_s > 0 and row.interpolated_s > 0
    assert 1 <= row.median_factor <= row.p90_factor
    assert "size 48: 2 kernels" in open_sizes.line(row)
