"""What `steady_seconds` runs, and how many requests a stream has in hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.executor.native_plans import PlanBuilder, chain, tensor
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.inputs import RequestTensors
from tvm_hetero.executor.plan_switch import ActivePlan, PlanSwitch
from tvm_hetero.executor.streaming import steady_seconds, stream
from tvm_hetero.problem.schedule import Schedule

SCHEDULE = Schedule("", "none", "latency", (), (), 0.0, 0.0)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_batches_that_count_have_full_pipelines_before_and_behind_them(workers: int) -> None:
    runs: list[Any] = []
    builder = PlanBuilder(workers)
    slot = builder.input()
    for worker in range(workers):
        [slot] = builder.call([slot], worker=worker, function=lambda x: runs.append(x) or x)
    executor = builder.output(slot).create()
    executor.set_input("x", tensor(1, 2))
    assert steady_seconds(executor, 5) > 0
    assert len(runs) == workers * (2 * executor.frames + 5)
    with pytest.raises(UsageError, match="0 batches"):
        steady_seconds(executor, 0)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_stream_has_no_more_in_hand_than_frames(workers: int) -> None:
    executor = chain(6, workers).create()
    pulled = taken = 0

    def requests() -> Iterator[RequestTensors]:
        nonlocal pulled
        for i in range(40):
            assert pulled - taken <= executor.frames
            pulled += 1
            yield RequestTensors([tensor(i, i)], merged=True)

    for request, [output] in stream(PlanSwitch(ActivePlan(executor, "chain", SCHEDULE)), requests()):
        taken += 1
        alone = executor.submit(request.tensors)
        executor.wait(alone)
        assert (output.numpy() == executor.take(alone)[0].numpy()).all()
    assert pulled == taken == 40
