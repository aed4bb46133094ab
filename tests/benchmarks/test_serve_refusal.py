"""Refusals in small."""

from __future__ import annotations

from benchmarks.serve_refusal import main


def test_every_size_is_refused_alone_and_beside_others():
    rows = main(["--small"])
    assert [row["clients"] for row in rows] == [0, 0, 0, 4, 4, 4]
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in rows)
