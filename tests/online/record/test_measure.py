"""What is made of measured runs: medians of kernels, and a factor where a core was shared."""

from __future__ import annotations

import pytest

from tvm_hetero.online.record.measure import ScenarioSamples, estimate, sums

QUIET = ScenarioSamples(
    runs=[0.5, 0.5, 0.6, 0.4], tasks={"a": [0.2, 0.2, 9.0], "b": [0.3, 0.29, 0.31]}
)


def test_a_task_takes_the_median_of_its_looks() -> None:
    assert estimate(QUIET, QUIET, shared=False) == {"a": 0.2, "b": 0.3}


def test_a_disturbance_beside_the_place_slows_each_task_in_its_own_way() -> None:
    found = ScenarioSamples(runs=[0.9], tasks={"a": [0.2, 0.4, 0.5], "b": [0.3, 0.3, 0.3]})
    assert estimate(found, QUIET, shared=False) == {"a": 0.4, "b": 0.3}


def test_who_shares_a_core_slows_all_tasks_by_the_mean_of_the_runs() -> None:
    # Three of four runs are as quick as ever, and so is the median of every kernel; one has waited.
    found = ScenarioSamples(runs=[0.5, 0.5, 0.5, 2.5], tasks={"a": [0.2], "b": [0.3, 2.3, 0.3]})
    assert estimate(found, QUIET, shared=True) == pytest.approx({"a": 0.4, "b": 0.6})


def test_blocks_are_sums_of_tasks_and_never_nothing() -> None:
    seconds = {"a": 0.123456, "b": 0.2}
    assert sums([["a", "b"], ["joined"]], seconds) == (0.3235, 1e-9)
