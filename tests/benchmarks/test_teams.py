"""The small mode of benchmarks/teams.py runs, and its plans are no worse than the rules beside."""

from __future__ import annotations

from benchmarks import teams
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
