"""What requests that were watched tell of stages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.online.live.watched import CONFIGURATION, PLACES, plan, watched
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.live.stage_times import observe, steps_by_stage


def test_a_stage_has_the_steps_that_run_on_its_place_and_copies_are_nobodys() -> None:
    assert steps_by_stage(plan(), CONFIGURATION, PLACES) == [[0, 1], [3, 4]]
    turned = Configuration((3, 5), (1, 0))
    assert steps_by_stage(plan(), turned, PLACES) == [[3, 4], [0, 1]]


def test_a_stage_takes_from_its_first_begin_to_its_last_end() -> None:
    rows = watched((4e-3, 6e-3), cpu=(3e-3, 5e-3), queued=(1e-3, 0.5e-3))
    rows.starts[:, 1] += 0.5e-3  # a pause between two steps of a stage is the stage's
    rows.ends[:, 1] += 0.5e-3
    found = observe(rows, CONFIGURATION, PLACES)
    assert found is not None and found.configuration == CONFIGURATION
    assert found.times == pytest.approx((4.5e-3, 6e-3))
    assert [stage.cpu_seconds for stage in found.stages] == pytest.approx([3e-3, 5e-3])
    assert [stage.delay_seconds for stage in found.stages] == pytest.approx([1e-3, 0.5e-3])
    assert [stage.spread for stage in found.stages] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_a_stage_that_few_requests_find_slow_is_slower_in_the_mean() -> None:
    rows = watched((4e-3, 6e-3))
    rows.ends[:2, 1] += 10e-3  # a shared core is taken away for some milliseconds at a time
    found = observe(rows, CONFIGURATION, PLACES)
    assert found is not None and found.times[0] == pytest.approx(5e-3)


def test_a_full_pipeline_tells_its_throughput_and_one_that_waits_for_work_does_not() -> None:
    full = observe(watched((4e-3, 6e-3)), CONFIGURATION, PLACES)
    assert full is not None and full.throughput == pytest.approx(1 / 6e-3)
    assert (full.requests, full.seconds) == (20, pytest.approx(19 * 6e-3))
    idle = observe(watched((4e-3, 6e-3), pace=10e-3), CONFIGURATION, PLACES)
    assert idle is not None and idle.throughput is None
    assert idle.rate == pytest.approx(1 / 6e-3)


def test_requests_of_which_a_step_was_skipped_do_not_count() -> None:
    rows = watched((4e-3, 6e-3))
    rows.starts[3:5, 4] = rows.ends[3:5, 4] = np.nan
    found = observe(rows, CONFIGURATION, PLACES)
    assert found is not None and found.requests == 18
    rows.ends[2:, 0] = np.nan
    assert observe(rows, CONFIGURATION, PLACES) is None  # too few to tell anything


def test_what_nobody_measured_is_not_known() -> None:
    rows = watched((4e-3, 6e-3))
    rows.in_queue[5, 3] = np.nan
    found = observe(rows, CONFIGURATION, PLACES)
    assert found is not None
    assert [stage.delay_seconds for stage in found.stages] == [0.0, None]


def test_a_stage_without_steps_says_that_the_plan_is_another_ones() -> None:
    rows = watched((4e-3, 6e-3))
    steps = [replace(step, worker=0) if step.worker == 1 else step for step in rows.plan.steps]
    other = replace(rows, plan=replace(rows.plan, steps=tuple(steps)))
    assert observe(other, CONFIGURATION, PLACES) is None
