"""How many batches are in flight: as many as keep workers busy, and fit into the memories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.executor.kernel_plans import BYTES, SIZE, KernelPlan, aligned, call, view
from tests.executor.native_plans import PlanBuilder, chain, refused, stream, tensor
from tvm_hetero.executor.streaming import steady_seconds

STEPS = 6


@pytest.mark.parametrize("memory", [None, 1 << 50])  # a machine's memory is not all ours
@pytest.mark.parametrize(("mebibytes", "frames"), [(1, 8), (85, 3), (5000, 2)])
def test_batches_in_flight_are_fewer_where_their_tensors_are_large(
    mebibytes: int, frames: int, memory: int | None
) -> None:
    """A chain of 7 steps in 7 stages asks for 8 frames, of 2 GiB at most, but for 2 at least."""
    builder = PlanBuilder(workers=2)
    slot = builder.input()
    for i in range(7):
        [slot] = builder.call([slot], worker=i % 2, function=lambda x: x)
        builder.plan["slots"][slot] |= {"shape": [mebibytes << 20], "dtype": "uint8"}
    if memory is not None:
        builder.plan["devices"][0]["memory"] = memory
    assert builder.output(slot).create().frames == frames


def kernels(memory: int | None) -> KernelPlan:
    """Six steps that double a vector, on two workers in turn; three vectors are scratch."""
    plan = KernelPlan(workers=2)
    slot = plan.vector()
    for i in range(STEPS):
        calls = [call("twice", view("in", 0), view("out", 0))]
        [slot] = plan.kernels([slot], calls, worker=i % 2, scratch=i // 4 * 3 * BYTES)
    if memory is not None:
        plan.plan["devices"][0]["memory"] = memory
    return plan.output(slot)


# Both workers' scratch, and two outputs that callers hold; an input and six results of each batch.
ALWAYS = 2 * 3 * BYTES + 2 * BYTES
BATCH = (1 + STEPS) * BYTES


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_as_many_as_fit_into_the_memory(frames: int) -> None:
    assert kernels(None).create().frames == STEPS + 1
    for spare in (0, BATCH - 1):
        executor = kernels(ALWAYS + frames * BATCH + spare).create()
        assert executor.frames == frames
    executor.set_input("x", aligned(np.ones(SIZE)))
    executor.run_stream(3)
    assert executor.allocations() == 0


def test_weights_count_once() -> None:
    plan = kernels(ALWAYS + 3 * BATCH)
    slot = plan.constant()
    plan.plan["slots"][slot] |= {"shape": [BATCH // 4], "dtype": "float32"}
    assert plan.create().frames == 2


def test_each_memory_has_its_own_size() -> None:
    plan = kernels(1 << 20)
    plan.plan["devices"].append({"name": "far", "dl_type": 1, "dl_id": 1, "memory": 4 * BYTES})
    far = plan.typed_slot(1)
    step = {"kind": "copy", "name": "c", "worker": 0, "ins": [0], "outs": [far], "to_device": 1}
    plan.plan["steps"].append(step)
    plan.functions.append(None)
    assert plan.create().frames == 4


def test_a_plan_that_does_not_fit_is_run_a_batch_at_a_time() -> None:
    executor = kernels(0).create()
    assert executor.frames == 1
    executor.set_input("x", aligned(np.ones(SIZE)))
    executor.run()
    np.testing.assert_array_equal(executor.get_output("y").numpy(), np.full(SIZE, 2.0**STEPS))
    assert steady_seconds(executor, 10) > 0


@pytest.mark.parametrize("workers", [1, 3])
def test_one_frame_makes_a_stream(workers: int) -> None:
    builder = chain(6, workers)
    builder.plan["devices"][0]["memory"] = 0
    for row in builder.plan["slots"]:
        row |= {"shape": [2], "dtype": "float64"}
    executor = builder.create()
    assert executor.frames == 1

    def alone(i: int) -> Any:
        executor.set_input("x", tensor(i, i))
        executor.run()
        return executor.get_output("y").numpy()

    results = [out.numpy() for [out] in stream(executor, (tensor(i, i) for i in range(20)))]
    np.testing.assert_array_equal(results, [alone(i) for i in range(20)])


def test_a_size_that_is_none_is_refused() -> None:
    plan = kernels(-1).plan
    assert "devices[0].memory is -1, expected bytes from 0 on" in refused(plan)
    plan["devices"][0]["memory"] = "8GiB"
    assert 'devices[0].memory is "8GiB"' in refused(plan)
