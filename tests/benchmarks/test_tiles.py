"""The benchmark of Winograd's tiles, small."""

from __future__ import annotations

import math

from benchmarks import tiles
from benchmarks.tiles import Row


def test_both_ways_are_right_and_timed():
    rows = tiles.main(["--small"])
    assert {row.case for row in rows} == set(tiles._SMALL)
    for row in rows:
        assert set(row.us) == {"plain", "tiles", "ort"}
        assert all(0 < us < math.inf for us in row.us.values())
        assert set(row.compiled) == {"plain", "tiles", "all passes"}
        assert row.errors["plain"] < 1e-4 and row.errors["tiles"] < 1e-3


def test_the_summary_says_where_the_estimate_was_wrong():
    def row(case: str, estimate: float, plain: float, by_tiles: float) -> Row:
        errors, compiled = {"plain": 1e-6, "tiles": 1e-5}, {"plain": 0.25, "tiles": 0.75}
        return Row(case, "", estimate, {"plain": plain, "tiles": by_tiles}, errors, compiled)

    rows = [row("a", 0.5, 4.0, 1.0), row("b", 0.8, 1.0, 1.25), row("c", 1.5, 1.0, 1.5)]
    assert tiles.summary(rows) == [
        "the rule takes tiles for 2 of 3",
        "plain / tiles there: 1.79 in the mean, 0.80 at least, 4.00 at most",
        "measured / estimated share: 0.92 in the mean, 0.50 to 1.56; on the wrong side of 1: b",
        "median error: plain 1.0e-06, tiles 1.0e-05",
        "median s to compile: plain 0.25, tiles 0.75",
    ]
