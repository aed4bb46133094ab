"""The small mode of benchmarks/diviml.py runs and gives what docs/diviml.md quotes."""

from __future__ import annotations

from benchmarks import diviml
from benchmarks.quoted import diviml as quoted


def test_diviml_small():
    rows = diviml.main(["--small"])
    assert {row["part"] for row in rows} == set(diviml.PARTS)
    assert not any("error" in row for row in rows)
    for row in rows:
        assert row["bound"] <= row["value"] * (1 + 1e-9)
    compared = [row for row in rows if "ordering" in row]
    assert {row["ordering"] for row in compared} == {"time", "tasks", "batches", "none"}
    counted = {row["kind"]: row["value"] for row in rows if row["solver"] == "count-dp"}
    assert all(row["value"] >= counted[row["kind"]] * (1 - 1e-9) for row in compared)


def test_a_run_that_found_nothing_is_said_to():
    row = {"kind": "latency", "started": False, "ordering": "time", "solver": "cpsat"}
    failed = row | {"part": "orderings", "error": "nothing found", "seconds": 20.0}
    assert "| time used | no plan | none found |  |  | 20 |" in quoted.orderings_table([failed])
