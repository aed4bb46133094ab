"""The small mode of benchmarks/choose.py runs, its loads have their shape, and docs quote it."""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks import choose
from benchmarks.choosing.traces import draw_load
from benchmarks.result_rows import read_rows

PAGE = Path(choose.__file__).resolve().parent.parent / "docs" / "choosing.md"


def test_choose_small():
    rows = choose.main(["--small"])
    assert [row["load"] for row in rows] == ["poisson", "maf-like"]
    for row in rows:
        assert row["bound"] <= row["price"] and row["gap"] <= 0.02
        assert row["strain"] <= 1
        assert all(price >= row["bound"] for price in row["rules"].values() if price is not None)


def test_a_maf_like_load_has_its_rate_and_is_less_even_than_poisson():
    peaks = {}
    for kind in ("poisson", "maf-like"):
        requests = draw_load(kind, 400.0, 20.0, 3)
        assert 0.8 * 8000 < len(requests) < 1.2 * 8000
        arrivals = [each.arrival for each in requests]
        assert arrivals == sorted(arrivals) and arrivals[0] >= 0 and arrivals[-1] < 20.0
        counts = [sum(int(t * 5) == i for t in arrivals) for i in range(100)]
        peaks[kind] = statistics.pstdev(counts) / statistics.fmean(counts)
    assert peaks["maf-like"] > 1.5 * peaks["poisson"]


def test_the_page_quotes_the_committed_results():
    rows = read_rows(choose.RESULTS)
    assert choose.rule_table(rows) in PAGE.read_text(encoding="utf-8")
    assert all(row["gap"] <= 0.02 for row in rows if "price" in row)
