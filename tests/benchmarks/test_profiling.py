"""The benchmark of profiling runs, and what it prints is what it measured."""

from __future__ import annotations

import json

from benchmarks import profiling
from tvm_hetero.problem.implementation_choice import FALL_BACKS


def test_small(capsys):
    (row,) = profiling.main(["--small"])
    assert row.model == "squeezenet" and row.cores == 1
    assert sum(row.implementations.values()) == sum(row.rules.values()) == row.kernels > 20
    assert row.rules["packed"] > sum(row.rules.get(rule, 0) for rule in FALL_BACKS)
    steps = row.schedule_s + row.compile_s + row.measure_s + row.compare_s
    assert 0 < steps <= row.profile_s
    assert 0 <= row.spread_median <= row.spread_largest
    assert row.tasks_s > 0
    assert "| squeezenet |" in capsys.readouterr().out


def test_the_stored_results_can_be_shown(capsys):
    profiling.main(["--show"])
    document = json.loads(profiling.RESULTS.read_text(encoding="utf-8"))
    assert document["goal_s"] == profiling.GOAL
    assert capsys.readouterr().out.count("\n| ") == len(document["rows"]) + 2
