"""What a thread of ours takes of the cores is not taken for somebody else's."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.online.live.models import DIVIDED, INPUTS, adaptable
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.live.own_threads import thread_seconds, without_own
from tvm_hetero.online.live.pipeline import LivePipeline, _taken_since
from tvm_hetero.online.observation import Observation, StageTime

TWO = Configuration((1, 2), (0, 1))


def seen(*delays: float) -> Observation:
    """Stages that are at work for 10 ms and wait for a core for so long."""
    stages = tuple(StageTime(0.01 + delay, 0.0, 0.01, delay) for delay in delays)
    return Observation(TWO, 10, 1.0, None, stages)


def test_delay_is_taken_off_in_proportion_and_no_more_than_there_is() -> None:
    found = without_own(seen(0.006, 0.002), 0.04)  # half of what all waited for
    assert found.times == pytest.approx((0.013, 0.011))
    assert [stage.delay_seconds for stage in found.stages] == pytest.approx([0.003, 0.001])
    assert without_own(seen(0.006, 0.002), 9.0).times == pytest.approx((0.01, 0.01))
    assert without_own(seen(0.0, 0.0), 9.0) == seen(0.0, 0.0)
    assert without_own(seen(0.006, 0.002), 0.0) == seen(0.006, 0.002)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2), st.floats(0, 10))
def test_a_stage_takes_no_longer_than_it_did_and_no_less_than_its_work(
    delays: list[float], own: float
) -> None:
    before = seen(*delays)
    for old, new in zip(before.stages, without_own(before, own).stages, strict=True):
        assert 0.01 - 1e-12 <= new.seconds <= old.seconds
        assert -1e-12 <= (new.delay_seconds or 0.0) <= (old.delay_seconds or 0.0)


def test_a_thread_s_seconds_are_those_that_it_had() -> None:
    number = threading.get_native_id()
    before, own = thread_seconds(number), time.thread_time()
    while time.thread_time() - own < 0.05:
        pass
    assert 0.04 < thread_seconds(number) - before < 0.5 or thread_seconds(number) == 0.0
    assert thread_seconds(2**30) == 0.0  # there is no such thread


def test_a_pipeline_asks_for_them_and_takes_them_off() -> None:
    asked: list[float] = []

    def own() -> float:
        asked.append(1000.0 * len(asked))  # all of any delay
        return asked[-1]

    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable(), own_seconds=own)
        pipeline.switch(DIVIDED)
        for _ in range(30):
            executor.run(INPUTS)
        found = pipeline.observe(5)
    assert found is not None and len(asked) > 1
    assert [stage.delay_seconds or 0.0 for stage in found.stages] == pytest.approx([0.0, 0.0])


def test_who_looks_at_an_idle_pipeline_keeps_no_more_than_it_may() -> None:
    had = iter(range(10**6))
    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable(), own_seconds=lambda: float(next(had)))
        pipeline.switch(DIVIDED)
        executor.run(INPUTS)
        for _ in range(pipeline._looks.maxlen or 0):
            pipeline._look()
        begun, before = pipeline._looks[0]
        pipeline._look()
        assert len(pipeline._looks) == pipeline._looks.maxlen
        # What began while nobody observed counts from the look before, which is still there.
        assert _taken_since(pipeline._looks, pipeline._looks[-2][0]) == 1.0
        assert _taken_since(pipeline._looks, begun - 1) == pipeline._looks[-1][1] - before - 1
