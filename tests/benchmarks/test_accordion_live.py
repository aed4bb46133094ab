"""Serving's policies on real cores, in small."""

from __future__ import annotations

from benchmarks.accordion_live import main


def test_every_query_of_the_live_table_has_an_end():
    rows = main(["--small"])
    assert [row["policy"] for row in rows] == ["accordion", "whole-machine"]
    for row in rows:
        assert row["queries"] >= 8
        assert row["refused"] <= row["violations"] <= 1
        assert 0 < row["mean"] <= row["p99"] * 1.0001
        assert 0 < row["occupancy"] <= 1
