"""The benchmark of imports runs: the way without a child is really without one."""

from __future__ import annotations

from benchmarks import importing


def test_a_small_run_measures_both_ways_and_writes_nothing(capsys) -> None:
    before = importing.RESULTS.read_bytes()
    [row] = importing.main(["--small"])
    assert importing.RESULTS.read_bytes() == before
    assert row.model == "squeezenet" and row.nodes == 65
    assert row.child_s > 0 and row.inline_s > 0 and row.price_s == row.child_s - row.inline_s
    assert capsys.readouterr().out.splitlines()[-1] == importing.line_of(row)
