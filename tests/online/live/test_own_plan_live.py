"""The artifact's own plan runs first, is watched as others are, and comes back in quiet."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.online.live.models import (
    BIG,
    DIVIDED,
    INPUTS,
    LITTLE,
    WAIT,
    adaptable,
    as_bytes,
    outputs_of,
    streaming,
)
from tests.online.live.watched import OWN, PLACES, watched
from tvm_hetero.artifact.executable import SINGLE
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.live.adapter import AdaptationEvent, Adapter, make_setting
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.online.live.stage_times import observe
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.optimum import stage_seconds
from tvm_hetero.online.own_plan import OwnPlan
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policy import Policy, Setting, Turn

HALF = OwnPlan((0, 1), ((0.5,) * 5, (0.5,) * 5))


@pytest.fixture(scope="module")
def own_outputs() -> tuple[bytes, ...]:
    with Executor(adaptable()) as executor:
        return as_bytes(executor.run(INPUTS))


def test_its_stages_take_what_their_steps_do_whatever_lies_between_them() -> None:
    rows = watched((4e-3, 6e-3))
    apart = rows.starts.copy()
    apart[:, OWN[0][1] :] += 20e-3  # the second step of the first stage waits for something
    late = replace(rows, starts=apart, ends=rows.ends + (apart - rows.starts))
    own, span = observe(late, HALF, PLACES), observe(late, Configuration((3, 5), (0, 1)), PLACES)
    assert own is not None and span is not None
    assert own.times == pytest.approx((4e-3, 6e-3))
    assert span.times[0] == pytest.approx(24e-3)
    assert own.configuration == HALF


def test_an_adapted_executor_begins_with_it_and_is_told_of_each_place(
    own_outputs: tuple[bytes, ...],
) -> None:
    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable())
        assert isinstance(pipeline.own, OwnPlan)
        assert pipeline.switch(pipeline.own) and not pipeline.switch(pipeline.own)
        began = time.perf_counter()
        with streaming(executor):
            seen = pipeline.observe(5)
        took = time.perf_counter() - began
        assert seen is not None
        assert [pipeline.places[p].name for p in seen.configuration.places] == ["big", "little"]
        assert all(0 < stage.seconds < took for stage in seen.stages)
        assert as_bytes(executor.run(INPUTS)) == own_outputs
        assert pipeline.switch(DIVIDED) and pipeline.switch(pipeline.own)
        assert as_bytes(executor.run(INPUTS)) == own_outputs
        assert executor.schedule == adaptable().schedule


def test_a_model_whose_single_device_wins_begins_with_that_one() -> None:
    base = adaptable()
    for way in (BIG, LITTLE):
        with Executor(base) as executor:
            pipeline = LivePipeline(executor, base)
            pipeline.switch(way)
            plan = executor._native.plan
        variant = replace(base.variants["partition"], plan=plan)
        made = replace(base, variants={**base.variants, SINGLE: variant}, default=SINGLE)
        with Executor(made) as executor:
            pipeline = LivePipeline(executor, made)
            assert pipeline.own == way
            pipeline.switch(way)
            assert as_bytes(executor.run(INPUTS)) == outputs_of(way)
            assert make_setting(pipeline).first == way


def in_another_world(policy: Policy, slow: float, first: int, last: int) -> Policy:
    """The policy, but it is told of a world in which place 0 is slower in some windows."""

    def begin(setting: Setting) -> Turn:
        inside, proposal = policy.begin(replace(setting, patience=1, rest=0, window=3, trial=3))
        return (inside, setting, 0), proposal

    def step(state: tuple[Any, Setting, int], observation: Observation) -> Turn:
        inside, setting, window = state
        factors = (slow if first <= window < last else 1.0, 1.0)
        world = [[t * f for t, f in zip(row, factors, strict=True)] for row in setting.guessed]
        told = stage_seconds(world, observation.configuration)
        seen = replace(observation, stages=tuple(map(StageTime, told)), throughput=None)
        inside, proposal = policy.step(inside, seen)
        return (inside, setting, window + 1), proposal

    return Policy(policy.name, begin, step)


def test_resolve_leaves_it_for_contiguous_stages_while_a_place_is_slow_and_comes_back(
    own_outputs: tuple[bytes, ...],
) -> None:
    policy = in_another_world(make_policy("resolve"), 3.0, 2, 6)
    events: list[AdaptationEvent] = []
    done = threading.Event()

    def tell(event: AdaptationEvent) -> None:
        events.append(event)
        if len(events) == 10:
            done.set()

    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable())
        adapter = Adapter(pipeline, policy, make_setting(pipeline), tell)
        with streaming(executor):
            assert done.wait(WAIT), adapter.failure
        adapter.close()
        assert adapter.failure is None
        assert as_bytes(executor.run(INPUTS)) == own_outputs
    ways = [event.configuration for event in events]
    own = "the artifact's own plan on big, little"
    assert [event.observation.configuration for event in events[:2]] == [pipeline.own] * 2
    assert ways[1] == own and ways[-1] == own
    meanwhile = {way for way in ways[2:6] if way != own}
    # The slow place has a quarter of the blocks then, or as near to that as blocks allow.
    assert meanwhile and meanwhile <= {"0-1@big 2-9@little", "0-2@big 3-9@little"}
    assert sum(event.switched for event in events) == 2
