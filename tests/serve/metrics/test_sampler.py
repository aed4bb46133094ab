"""The clock's looks."""

from __future__ import annotations

import asyncio

from tvm_hetero.serve.metrics.sampler import Sampler


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
        sampler.looks.append(lambda _: looks.append(1))
        task = asyncio.ensure_future(sampler.run())
        while not looks:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return looks

    assert asyncio.run(run()) == [1]
