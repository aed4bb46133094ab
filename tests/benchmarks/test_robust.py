"""The small mode of benchmarks/robust.py runs and keeps what it promises."""

from __future__ import annotations

from benchmarks import robust


def test_robust_small() -> None:
    (row,) = robust.main(["--small"])
    for plan in ("plain", "mean", "worst"):
        assert 0.7 <= row[plan]["mean"] <= row[plan]["worst"] <= 1.3 * row[plan]["value"] * 1.001
    assert 0 <= row["regret"] <= row["regret_at_most"]
