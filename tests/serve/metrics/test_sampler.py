"""Who had which core: no moment is told twice, and none is lost."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.serve.core.shares import CoreShare, ShareSnapshot
from tvm_hetero.serve.metrics.sampler import CoreHistory, Sampler


def snapshot(model: str | None, since: float) -> ShareSnapshot:
    return ShareSnapshot((CoreShare(3, model, since),))


@given(st.lists(st.tuples(st.floats(0.01, 30.0), st.sampled_from(["a", "b", None])), min_size=1))
def test_spans_follow_each_other_and_fill_the_minute(steps):
    history, now, since, model = CoreHistory(), 1000.0, 1000.0, steps[0][1]
    for passed, owner in steps:
        now += passed
        if owner != model:
            model, since = owner, now
        history.see(snapshot(model, since), now)
    spans = history.spans()
    assert all(a.end == b.begin for a, b in pairwise(spans))
    told = math.fsum(span.end - span.begin for span in spans)
    assert told == pytest.approx(min(60.0, now - 1000.0))


def test_shares_are_counted_by_model():
    cores = [CoreShare(0, "a", 0.0), CoreShare(1, None, 0.0), CoreShare(2, "a", 0.0)]
    assert ShareSnapshot(tuple(cores)).count() == {"a": 2}


def test_cpu_time_is_that_of_the_last_looks():
    sampler = Sampler()
    assert sampler.cpu.process == 0.0
    for _ in range(3):
        sampler.look()
    assert sampler.cpu.loop >= 0.0
    assert sampler.cpu.process >= 0.0


def test_looking_ends_when_it_is_cancelled():
    async def run() -> list[int]:
        sampler, looks = Sampler(), []
        sampler.looks.append(lambda: looks.append(1))
        task = asyncio.ensure_future(sampler.run())
        while not looks:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return looks

    assert asyncio.run(run()) == [1]
