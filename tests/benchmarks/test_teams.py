"""The small mode of benchmarks/teams.py runs, and its plans are no worse than the rules beside."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from benchmarks import teams
from benchmarks.result_rows import read_rows
from tvm_hetero.platform.teams import nested


def test_teams_small() -> None:
    (row,) = teams.main(["--small"])
    assert row["cores"] == 4 and row["bound"] <= row["value"]
    assert row["ahead"] >= 0 and row["one"] > row["value"]


def test_teams_are_buddies_and_wide_ones_are_quicker_but_less_efficient() -> None:
    platform = teams.team_platform(8)
    assert len(platform.devices) == 15 and len(platform.cliques) == 8
    assert nested(platform.devices, platform.cliques)
    by_width = {len(d.cores): d.peak_flops or 0.0 for d in platform.devices}
    assert by_width[8] > by_width[4] > by_width[1] > by_width[8] / 8


def test_no_plan_of_the_results_is_further_ahead_than_its_bound_allows() -> None:
    rows = read_rows(teams.RESULTS)
    assert {row["model"] for row in rows} == {name for name, _ in teams.MODELS}
    assert all(row["ahead"] <= row["most"] + 1e-9 for row in rows)
    wide = [row for row in rows if row["model"] not in ("bert-base", "gpt-24-decode")]
    assert teams.summary(wide) == (
        "ahead of the best baseline by 11.4% on average, by 13.7% at most (proven)"
    )


def test_the_picture_is_that_of_the_results_and_its_names_do_not_overlap() -> None:
    drawn = teams.picture(read_rows(teams.RESULTS))
    assert drawn == teams.PICTURE.read_text(encoding="utf-8")
    names = re.findall(r'<text x="598" y="([\d.]+)">', drawn)
    heights = sorted(map(float, names))
    assert len(heights) == 6
    assert all(b - a > 14 for a, b in itertools.pairwise(heights))


def test_rows_that_are_not_run_again_stay(tmp_path: Path) -> None:
    output, row = tmp_path / "teams.json", {"value": 1.0}
    teams._write(output, [{"model": "bert-base", "cores": cores, **row} for cores in (8, 4)])
    teams._write(output, [{"model": "bert-base", "cores": 8, "value": 2.0}])
    assert [(row["cores"], row["value"]) for row in read_rows(output)] == [(4, 1.0), (8, 2.0)]


def test_unknown_models_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        teams.main(["--models", "bert"])
    assert "--models: bert: expected some of inception-v1" in capsys.readouterr().err
