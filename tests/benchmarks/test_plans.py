"""The small mode of benchmarks/plans.py runs, and its page quotes the committed results."""

from __future__ import annotations

from pathlib import Path

from benchmarks import plans


def test_plans_small():
    rows = plans.main(["--small"])
    made = [row for row in rows if row["part"] == "plans"]
    assert [row["goal"] for row in made] == ["latency", "throughput"]
    assert made[0]["gap"] <= 0.01
    assert made[0]["nodes"] == 6 and made[0]["devices"] == 18
    for row in made:
        assert 0 < row["tokens_per_second"] <= 1.01 * row["at_best"]
        assert row["log10_classes"] < row["log10_placements"]
    (served,) = (row for row in rows if row["part"] == "services")
    assert served["tokens_per_second"] > 0
    assert 0 < served["busy"] <= 1


def test_the_page_quotes_the_committed_results(tmp_path: Path):
    plans.write_page(plans.RESULTS.parent, tmp_path)
    written = (tmp_path / "planning.md").read_text(encoding="utf-8")
    assert written == (plans.ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
