"""The history of benchmarks: rows, losses that are believed, the page; and a run of it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from benchmarks import history
from benchmarks.commit_history.base_tree import BaseTree
from benchmarks.commit_history.losses import AcceptedLoss, losses, read_accepted
from benchmarks.commit_history.page import history_page
from benchmarks.commit_history.rows import HistoryRow, append_row, read_history
from benchmarks.commit_history.subjects import subjects
from benchmarks.commit_history.turns import Figure, quality_of, summarize_turns

HERE = "a processor, 2 cores"


def figure(ratio: float, noise: float = 0.0) -> Figure:
    return Figure(ratio, ratio - noise, ratio + noise, ratio / 1e3, 1e-3)


def rows(*ratios: float, machine: str = HERE) -> list[HistoryRow]:
    return [
        HistoryRow(f"c{number}", "2026-01-01T00:00Z", machine, 0.1, {"conv": figure(ratio)})
        for number, ratio in enumerate(ratios)
    ]


def test_turns_that_someone_disturbed_do_not_change_the_figure():
    calm = summarize_turns([(0.9, 1.0)] * 9)
    disturbed = summarize_turns([(0.9, 1.0)] * 6 + [(1.8, 1.0)] * 2 + [(0.9, 2.0)])
    assert calm.ratio == disturbed.ratio == pytest.approx(0.9)
    assert calm.low == calm.high and disturbed.high == pytest.approx(0.9)
    assert (calm.ours_s, calm.peer_s) == (0.9, 1.0)


@pytest.mark.parametrize(
    ("before", "now", "is_lost"),
    [
        ([0.80], figure(0.89), True),
        ([0.80], figure(0.87), False),  # less than a tenth
        ([0.80], figure(0.89, noise=0.05), True),  # noise is no excuse: it is measured again
        ([0.80, 0.80, 0.95, 0.80], figure(0.89), True),  # one bad row is no excuse
        ([0.80, 0.80, 0.60, 0.80], figure(0.87), False),  # and one lucky row no yardstick
        ([], figure(9.0), False),
        ([0.80 + 0.01 * number for number in range(30)], figure(1.10), True),  # in small steps
        ([1.0] * 10 + [0.5] * 10, figure(0.56), True),
    ],
)
def test_a_loss_is_more_than_a_tenth_of_what_has_been_held(before, now, is_lost):
    assert [each.name for each in losses({"conv": now}, rows(*before), HERE)] == ["conv"] * is_lost
    assert losses({"conv": now}, rows(*before, machine="another one"), HERE) == []
    assert losses({"pool": now}, rows(*before), HERE) == []


def test_a_loss_that_is_meant_counts_from_its_moment_on():
    before = [replace(row, date=f"2026-01-{day:02}T00:00Z")
              for day, row in enumerate(rows(0.5, 0.5, 0.8), start=1)]  # fmt: skip
    meant = [AcceptedLoss("conv", "2026-01-02T12:00Z", "it computes more")]
    now = {"conv": figure(0.85)}
    assert losses(now, before, HERE) != []
    assert losses(now, before, HERE, accepted=meant) == []
    assert losses({"conv": figure(0.89)}, before, HERE, accepted=meant) != []
    other = [replace(meant[0], figure="pool")]
    assert losses(now, before, HERE, accepted=other) != []


def test_losses_that_are_meant_are_of_figures_that_there_are_and_say_why():
    names = {each.name for each in subjects()}
    for each in read_accepted():
        assert each.figure in names | {quality_of(name) for name in names} and len(each.why) > 20
        datetime.strptime(each.date, "%Y-%m-%dT%H:%MZ")


@pytest.mark.parametrize(("again", "believed"), [([0.9, 0.9], True), ([0.9, 0.8], False),
                                                 ([0.8], False)])  # fmt: skip
def test_a_loss_is_believed_when_it_is_there_each_time(again, believed):
    left = [{"conv": figure(ratio)} for ratio in again]

    def anew(only):
        assert only == ["conv"]
        return losses(left.pop(0), rows(0.8), HERE, "c0")

    found = history.lost_for_sure(losses({"conv": figure(0.9)}, rows(0.8), HERE), anew)
    assert bool(found) == believed and left == []
    assert not found or "0.900 (0.900 to 0.900), was 0.800 (c0): +12 %" in found[0].text


def test_what_was_well_at_first_is_not_lost_by_being_measured_again():
    """A subject has more than one figure, all of which are measured anew."""
    before = [replace(rows(0.8)[0], figures={"conv": figure(0.8), "pool": figure(0.8)})]
    first = losses({"conv": figure(0.9), "pool": figure(0.8)}, before, HERE)
    worse = losses(dict.fromkeys(("conv", "pool"), figure(0.9)), before, HERE)
    assert len(worse) == 2
    found = history.lost_for_sure(first, lambda _: worse)
    assert [each.name for each in found] == ["conv"]


def test_rows_are_read_as_they_were_written_and_drawn(tmp_path: Path):
    assert read_history(tmp_path / "none") == []
    mixed = [*rows(0.8, 0.9), *rows(0.7, machine="<b>other</b>")]
    for row in mixed:
        append_row(tmp_path / "made" / "rows.jsonl", row)
    assert read_history(tmp_path / "made" / "rows.jsonl") == mixed
    page = history_page(mixed)
    assert page.count("<circle") == 3 and page.count("<path") == 2
    assert "<b>other" not in page and "http://" not in page
    assert "0.900 (0.900 to 0.900)" in page


@pytest.mark.parametrize("text", ["no json\n", "[]\n", '{"commit": "c"}\n', b"\xff\n"])
def test_rows_that_are_none_are_told_and_left_alone(tmp_path: Path, capsys, text):
    path = tmp_path / "rows.jsonl"
    append_row(path, rows(0.8)[0])
    path.write_bytes(path.read_bytes() + (text if isinstance(text, bytes) else text.encode()))
    before = path.read_bytes()
    page = tmp_path / "page.html"
    assert history.main(["--page", "--rows", str(path), "--output", str(page)]) == 2
    assert str(path) in capsys.readouterr().err
    assert path.read_bytes() == before and not page.exists()


def test_small(tmp_path: Path, capsys):
    places = ["--rows", str(tmp_path / "rows.jsonl"), "--output", str(tmp_path / "page.html")]
    assert history.main(["--small", "--turns", "1", "--check", "--add", "--page", *places]) == 0
    told = capsys.readouterr().out
    assert "no row of this machine" in told
    (row,) = read_history(tmp_path / "rows.jsonl")
    assert set(row.figures) == {"layer norm", "schedules", "schedules: value over bound"}
    assert all(0 < each.ratio < 100 for each in row.figures.values())
    assert row.figures["schedules: value over bound"].ratio >= 1
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<circle") == 3


ROOT = Path(history.__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository whose commits to measure")
def test_the_commit_before_is_measured_on_this_machine_and_compared(tmp_path: Path, capsys):
    """Ours cannot be ten times as slow as the commit that it comes from, and is if that is said."""
    with BaseTree("HEAD") as base:
        there = base.measured(1, small=True)
    said = subprocess.run(["git", "show", "-s", "--format=%h"], cwd=ROOT, capture_output=True)
    assert there.commit == said.stdout.decode().strip() and not base.folder.exists()
    assert set(there.figures) == {"layer norm", "schedules", "schedules: value over bound"}
    slower = {name: replace(each, ratio=10 * each.ratio) for name, each in there.figures.items()}
    found = losses(slower, [there], there.machine, there.commit)
    assert {each.name for each in found} == set(slower)
    assert all(f"({there.commit}): +900 %" in each.text for each in found)


@pytest.mark.parametrize(
    "arguments", [("--against", "HEAD", "--page"), ("--check", "--against", "no-such-commit")]
)
def test_a_commit_to_compare_with_is_one_and_asked_for(tmp_path: Path, capsys, arguments):
    places = ["--rows", str(tmp_path / "rows.jsonl"), "--output", str(tmp_path / "page.html")]
    try:
        status = history.main([*arguments, *places])
    except SystemExit as left:
        status = int(str(left.code))
    told = capsys.readouterr().err
    assert status == 2 and ("add --check" in told or "no-such-commit" in told)
