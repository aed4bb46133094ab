"""The small mode of benchmarks/chiplets.py runs, and its committed results hold."""

from __future__ import annotations

import pytest

from benchmarks import chiplets
from benchmarks.pipelines.packages import package_chain, package_setting
from benchmarks.quoted.chiplets import tables
from benchmarks.result_rows import read_rows
from tvm_hetero.online.chain import schedule_of
from tvm_hetero.online.optimum import find_optimum


def test_chiplets_small():
    plan, search, *streams = chiplets.main(["--small"])
    assert plan["gap"] <= 0.01 and plan["value"] < plan["single"]
    assert all(0.5 < search[name] <= 1 + 1e-9 for name in chiplets.SEARCHES)
    assert {row["measure"] for row in streams} == {"chiplets-4-grid", "chiplets-4-lasting"}
    assert all(row["throughput"] > 0 for row in streams if "policy" in row)
    lasting = [row for row in streams if "policy" not in row]
    assert all(row["resolve"] >= 0.9 for row in lasting)


def test_a_policys_best_is_a_plan_of_the_preset():
    """The tables that policies see and the problems that solvers see are the same seconds."""
    chain, places = package_chain("layers-synthnet", "chiplets-4")
    setting = package_setting("layers-synthnet", "chiplets-4")
    for told, own in zip(setting.seconds or (), chain.seconds_on(places), strict=True):
        assert told == pytest.approx(own)
    assert setting.seconds is not None
    best = find_optimum(setting.seconds, places)
    schedule = schedule_of(chain, best.configuration, places)
    assert schedule.value == pytest.approx(best.bottleneck, rel=0.02)


def test_the_committed_results_hold():
    rows = read_rows(chiplets.RESULTS)
    assert len(tables(rows)) == 3
    plans = [row for row in rows if row["measure"] == "plan"]
    assert len(plans) == 12 and all(row["value"] <= row["single"] * (1 + 1e-9) for row in plans)
