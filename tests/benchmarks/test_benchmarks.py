"""The benchmarks' small modes run and give what their tables are made of."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from benchmarks import (
    kernels,
    layouts,
    models,
    performance,
    plan_picture,
    quotes,
    results_page,
    schedule,
)
from benchmarks.execution.cases import TINY
from benchmarks.kernel_cases import FAMILIES
from benchmarks.scheduling import page
from tvm_hetero.check import check_schedule
from tvm_hetero.problem.schedule import Schedule

DOCS = Path(__file__).parents[2] / "docs"
QUOTING = sorted(quotes.quotes(), key=str)
# What a reader takes in: rows of a quoted table, lines of a page.
MOST_ROWS, MOST_LINES = 15, 200


@pytest.mark.parametrize("path", QUOTING, ids=lambda path: path.name)
def test_a_page_quotes_the_committed_results(path):
    text = path.read_text(encoding="utf-8")
    assert quotes.with_tables(text, quotes.quotes()[path]) == text, "benchmarks.quotes --write"


@pytest.mark.parametrize("path", QUOTING, ids=lambda path: path.name)
def test_a_page_that_quotes_results_can_be_read(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert all(len(table.splitlines()) - 2 <= MOST_ROWS for table in quotes.quotes()[path])


def test_the_pictures_show_the_committed_results(tmp_path):
    page.write_pictures(page.read_results(schedule.RESULTS), tmp_path)
    drawn = sorted(tmp_path.iterdir())
    assert len(drawn) == 3
    for picture in drawn:
        assert picture.read_bytes() == (DOCS / "pictures" / picture.name).read_bytes()


def test_the_readmes_picture_is_a_valid_plan_drawn():
    problem = plan_picture.pictured_problem()
    schedule = Schedule.load(DOCS / "pictures" / "schedule.json")
    assert check_schedule(problem, schedule) == []
    assert (schedule.problem, schedule.status) == (problem.digest, "optimal")
    drawn = (DOCS / "pictures" / "plan.svg").read_text(encoding="utf-8")
    assert drawn == plan_picture.picture(problem, schedule)


def test_the_pages_of_results_have_every_row(tmp_path):
    kernels_page, scheduling = results_page.write_pages(tmp_path)
    text = kernels_page.read_text(encoding="utf-8")
    assert (kernels_page.name, scheduling.name) == ("performance.md", "scheduling.md")
    for row in performance.read_results(schedule.RESULTS)["kernels"]["rows"]:
        assert f"| {row['case']} | {row['where']} |" in text
    lines = scheduling.read_text(encoding="utf-8").splitlines()
    for row in page.read_results(schedule.RESULTS)["latency"]["rows"]:
        assert any(line.startswith(f"| {row['case']} |") for line in lines)


def test_the_readme_lists_every_benchmark():
    folder = Path(kernels.__file__).parent
    text = (folder / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"benchmarks\.(\w+)", text)) | set(re.findall(r"`(\w+)\.py`", text))
    assert listed == {path.stem for path in folder.glob("*.py")}
    folders = {path.parent.name for path in folder.glob("*/*.py")}
    assert set(re.findall(r"`(\w+)/`", text)) == folders


def test_a_table_takes_the_place_of_the_one_with_its_head():
    text = "# Title\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nAfter.\n"
    new = "| a | b |\n| --- | --- |\n| 3 | 4 |\n| 5 | 6 |"
    assert quotes.with_tables(text, [new]) == f"# Title\n\n{new}\n\nAfter.\n"
    assert quotes.with_tables(f"Before.\n\n{new}\n", [new]) == f"Before.\n\n{new}\n"
    with pytest.raises(ValueError, match="expected one table"):
        quotes.with_tables(text, ["| c |\n| --- |"])


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
    assert [(row.model, row.cores) for row in rows] == [(TINY, cores) for cores in (1, 2)]
    for row in rows:
        assert row.error < 1e-3
        assert math.isfinite(row.ratio)
        assert row.build_s > 0
        assert len(row.slowest) == 2


def test_layouts_small():
    rows = layouts.main(["--small", "--models", "squeezenet"])
    assert len(rows) == 2
    assert all(row.error < 1e-3 for row in rows)


def test_schedule_small():
    suites = schedule.main(["--small", "--time-limit", "0.25"])
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
    grown = suites["scaling"]
    assert [(row["solver"], row["tasks"]) for row in grown] == [
        ("heft", 202), ("heft", 402), ("auto", 202),
    ]  # fmt: skip
    assert all(row["peak_bytes"] > 0 for row in grown)
