"""Configurations of an executor that runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.online.live.models import (
    BIG,
    BLOCKS,
    DIVIDED,
    INPUTS,
    LITTLE,
    TURNED,
    WAIT,
    adaptable,
    as_bytes,
    endless,
    outputs_of,
    streaming,
)
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.live.pipeline import LivePipeline


@pytest.fixture
def executor() -> Iterator[Executor]:
    with Executor(adaptable()) as made:
        yield made


@pytest.fixture
def pipeline(executor: Executor) -> LivePipeline:
    return LivePipeline(executor, adaptable())


def test_each_configuration_gives_bit_for_bit_what_it_gives_alone(
    executor: Executor, pipeline: LivePipeline
) -> None:
    assert len(pipeline.chain) == BLOCKS
    for configuration in (BIG, DIVIDED, LITTLE, TURNED, BIG):
        assert pipeline.switch(configuration)
        assert as_bytes(executor.run(INPUTS)) == outputs_of(configuration)
    assert not pipeline.switch(BIG)  # it is there already
    # Otherwise equal outputs would tell nothing of the plan that computed them.
    assert outputs_of(BIG) != outputs_of(LITTLE)


def test_a_stream_goes_over_to_another_plan_at_once_and_for_good(
    executor: Executor, pipeline: LivePipeline
) -> None:
    pipeline.switch(BIG)
    ways = []
    for count, outputs in enumerate(executor.map(endless())):
        ways.append(as_bytes(outputs))
        if count == 20:
            pipeline.switch(LITTLE)
        if count == 60:
            break
    first = ways.index(outputs_of(LITTLE))
    assert first > 20
    assert set(ways[:first]) == {outputs_of(BIG)} and set(ways[first:]) == {outputs_of(LITTLE)}


def test_what_is_watched_is_the_configuration_that_runs(
    executor: Executor, pipeline: LivePipeline
) -> None:
    with streaming(executor):
        for configuration in (DIVIDED, TURNED, BIG):
            pipeline.switch(configuration)
            seen = pipeline.observe(5)
            assert seen is not None and seen.configuration == configuration
            assert seen.requests >= 5 and len(seen.stages) == len(configuration)
            assert all(stage.seconds > 0 for stage in seen.stages)
        again = pipeline.observe(5, 0.05)
        assert again is not None and again.seconds >= 0.05


def test_who_watches_a_stream_that_stands_still_can_be_stopped(pipeline: LivePipeline) -> None:
    pipeline.switch(BIG)
    seen: list[object] = []
    watcher = threading.Thread(target=lambda: seen.append(pipeline.observe(5)))
    watcher.start()
    pipeline.stop()
    watcher.join(WAIT)
    assert seen == [None]


def test_what_cannot_be_a_configuration_is_refused_and_the_plan_stays(
    executor: Executor, pipeline: LivePipeline
) -> None:
    with pytest.raises(UsageError, match="switch to one first"):
        pipeline.observe(5)
    pipeline.switch(LITTLE)
    for ends, places, message in (
        ((BLOCKS + 1,), (0,), f"covers {BLOCKS + 1} blocks"),
        ((BLOCKS,), (2,), "names place 2"),
    ):
        with pytest.raises(UsageError, match=message):
            pipeline.switch(Configuration(ends, places))
    assert as_bytes(executor.run(INPUTS)) == outputs_of(LITTLE)


def test_a_model_that_was_not_built_for_it_is_refused(executable: Executable) -> None:
    with Executor(executable) as executor, pytest.raises(UsageError, match="for throughput"):
        LivePipeline(executor, executable)


def test_a_configuration_beyond_a_memory_limit_is_refused() -> None:
    made = adaptable()
    problem = made.problem
    small = [replace(device, memory=1) for device in problem.platform.devices[1:]]
    platform = replace(problem.platform, devices=(problem.platform.devices[0], *small))
    limited = replace(made, problem=replace(problem, platform=platform))
    with Executor(made) as executor:
        pipeline = LivePipeline(executor, limited)
        pipeline.switch(BIG)
        with pytest.raises(InfeasibleError, match=r"0-9@little"):
            pipeline.switch(LITTLE)
        assert as_bytes(executor.run(INPUTS)) == outputs_of(BIG)
