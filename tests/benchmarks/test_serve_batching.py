"""Batching in small."""

from __future__ import annotations

from benchmarks.serve_batching import main


def test_a_run_has_one_element_or_no_more_than_a_batch():
    rows = main(["--small"])
    assert [(row["clients"], row["server"]) for row in rows] == [
        (1, "batches of 4"), (6, "batches of 4"),
    ]  # fmt: skip
    for row in rows:
        assert row["requests_s"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"]
        assert 1 <= row["a_run"] <= (1 if row["clients"] == 1 else 4)
