"""Benchmarks of plans measure while the host is calm."""

from __future__ import annotations

import pytest

from benchmarks.execution.unrest import CALM, in_a_calm_moment, unrest
from tvm_hetero.util.statistics import summarize

CALM_RUNS, UNEASY, WORSE = [1.0, 1.01, 1.02], [1.0, 1.2, 1.3], [1.0, 1.5, 1.6]


def measurements(*runs):
    """Each call measures the next of some runs of a plan."""
    left = iter(runs)
    return lambda: {"plan": summarize(next(left)), "other": summarize([1.0, 9.0, 9.0])}


def test_unrest_is_that_of_the_worst_side_asked_for():
    found = {"plan": summarize(CALM_RUNS), "single": summarize(UNEASY)}
    assert unrest(found, ["plan"]) == pytest.approx(0.01)
    assert unrest(found, ["plan", "single"]) == pytest.approx(0.2)


def test_the_first_calm_measurement_counts():
    measure = measurements(UNEASY, CALM_RUNS, WORSE)
    found, how = in_a_calm_moment(measure, ["plan"], pause=0)
    assert found["plan"] == summarize(CALM_RUNS)
    assert how <= CALM


def test_or_the_calmest_of_all_with_its_unrest():
    found, how = in_a_calm_moment(measurements(WORSE, UNEASY, WORSE), ["plan"], 3, pause=0)
    assert found["plan"] == summarize(UNEASY)
    assert how == pytest.approx(0.2)


def test_one_attempt_waits_for_nothing(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it waited"))
    _, how = in_a_calm_moment(measurements(WORSE), ["plan"], 1)
    assert how == pytest.approx(0.5)
