"""The benchmarks' small modes run and give what their tables are made of."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import kernels, layouts, models, performance, readme, schedule
from benchmarks.kernel_cases import FAMILIES
from benchmarks.scheduling import page

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_quotes_the_committed_results():
    text = README.read_text(encoding="utf-8")
    tables = (readme.latency_table(), readme.steady_table(), readme.decoding_table())
    assert readme.with_tables(text, tables) == text, "python -m benchmarks.readme --write"


def test_a_table_takes_the_place_of_the_one_with_its_head():
    text = "# Title\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nAfter.\n"
    new = "| a | b |\n| --- | --- |\n| 3 | 4 |\n| 5 | 6 |"
    assert readme.with_tables(text, [new]) == f"# Title\n\n{new}\n\nAfter.\n"
    with pytest.raises(ValueError, match="expected one table"):
        readme.with_tables(text, ["| c |\n| --- |"])


def test_kernels_small():
    rows = kernels.main(["--small"])
    assert {row.family for row in rows} == set(FAMILIES)
    for row in rows:
        assert row.error < kernels.TOLERANCE
        assert row.rule
        assert min(row.ours, row.default, row.ort, row.peak) > 0
        assert math.isfinite(row.ratio)


def test_models_small():
    rows = models.main(["--small", "--kernels", "2"])
    assert [(row.model, row.cores) for row in rows] == [
        (model, cores) for cores in (1, 2) for model in models.SMALL
    ]
    for row in rows:
        assert row.error < 1e-3
        assert math.isfinite(row.ratio)
        assert row.build_s > 0
        assert len(row.slowest) == 2


def test_layouts_small():
    rows = layouts.main(["--small", "--models", "squeezenet"])
    assert len(rows) == 2
    assert all(row.error < 1e-3 for row in rows)


def test_the_page_of_the_kernels_quotes_the_committed_results(tmp_path):
    performance.write_page(models.RESULTS.parent, tmp_path)
    written = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert written == (schedule.ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def test_schedule_small():
    suites = schedule.main(["--small", "--time-limit", "0.5"])
    assert set(suites) == set(schedule.SUITES)
    for rows in suites.values():
        assert rows
        for row in rows:
            assert "error" not in row, row
            assert "warnings" not in row, row
    best = {row["solver"]: row["value"] for row in suites["latency"]}
    assert best["auto"] <= min(best.values()) * (1 + 1e-9)
    for row in suites["bounds"]:
        assert row["bound"] <= row["best"] * (1 + 1e-9)
    for solver in ("heft", "auto"):
        grown = [row for row in suites["scaling"] if row["solver"] == solver]
        assert [row["tasks"] for row in grown] == [202, 402]
        assert all(row["peak_bytes"] > 0 for row in grown)


def test_the_page_of_the_scheduler_quotes_the_committed_results(tmp_path):
    (tmp_path / "pictures").mkdir()
    page.write_page(schedule.RESULTS, tmp_path)
    docs = schedule.ROOT / "docs"
    written = (tmp_path / "scheduling.md").read_text(encoding="utf-8")
    assert written == (docs / "scheduling.md").read_text(encoding="utf-8")
    for picture in sorted((tmp_path / "pictures").iterdir()):
        committed = docs / "pictures" / picture.name
        assert picture.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")
