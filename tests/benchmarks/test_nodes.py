"""The small mode of benchmarks/nodes.py runs and keeps what it promises."""

from __future__ import annotations

from benchmarks import nodes


def test_nodes_small():
    results = nodes.main(["--small"])
    assert [row["objective"] for row in results["clusters"]] == ["latency", "throughput"]
    for row in results["clusters"]:
        assert 0 < row["bound_s"] <= row["value_s"]
        assert row["gap"] <= 0.01
        assert row["devices"] == 18
    assert {row["ordering"] for row in results["orderings"]} == {
        "time", "tasks", "batches", "none",
    }  # fmt: skip
    assert all(row["closed"] == row["seeds"] for row in results["orderings"])
