"""Kernels steps: compiled kernels on memory that is planned ahead."""

from __future__ import annotations

import itertools
import math
import time
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from tests.executor.kernel_plans import (
    ALIGNED,
    BYTES,
    SIZE,
    KernelPlan,
    aligned,
    call,
    library,
    one_call,
    view,
)
from tests.executor.native_plans import create
from tests.waiting import eventually
from tvm_hetero.errors import NumericsError, RunError
from tvm_hetero.executor import native

VALUES = np.arange(SIZE, dtype="float32")


def run(plan: KernelPlan, **inputs: Any) -> dict[str, Any]:
    """One run; its outputs."""
    executor = plan.create()
    for name, value in inputs.items():
        executor.set_input(name, value)
    executor.run()
    names = [row["name"] for row in plan.plan["outputs"]]
    return {name: executor.get_output(name).numpy() for name in names}


def test_kernels_run_one_after_the_other() -> None:
    outputs = run(one_call(), x=aligned(VALUES), y=aligned(VALUES + 5))
    np.testing.assert_array_equal(outputs["y"], 2 * VALUES + VALUES + 5)


def test_a_view_has_a_shape_of_its_own() -> None:
    plan = KernelPlan()
    x = plan.vector()
    calls = [
        call("transpose", view("in", 0, (4, 8)), view("scratch", 0, (8, 4))),
        call("negate", view("scratch", 0), view("out", 0)),
    ]
    [out] = plan.kernels([x], calls, scratch=BYTES)
    outputs = run(plan.output(out), x=aligned(VALUES))
    np.testing.assert_array_equal(outputs["y"], -VALUES.reshape(4, 8).T.ravel())


def test_a_kernel_may_have_several_results() -> None:
    plan = KernelPlan()
    x = plan.vector()
    calls = [
        call("neighbours", view("in", 0), view("out", 1), view("scratch", 0), written=2),
        call("twice", view("scratch", 0), view("out", 0)),
    ]
    twice_below, above = plan.kernels([x], calls, scratch=BYTES, outs=2)
    plan.output(twice_below, "twice_below").output(above, "above")
    outputs = run(plan, x=aligned(VALUES))
    np.testing.assert_array_equal(outputs["twice_below"], 2 * (VALUES - 1))
    np.testing.assert_array_equal(outputs["above"], VALUES + 1)


def test_an_out_may_be_read_again_in_its_step() -> None:
    plan = KernelPlan()
    x = plan.vector()
    calls = [
        call("twice", view("in", 0), view("out", 0)),
        call("add", view("out", 0), view("in", 0), view("out", 1)),
    ]
    two, three = plan.kernels([x], calls, outs=2)
    outputs = run(plan.output(two, "two").output(three, "three"), x=aligned(VALUES))
    np.testing.assert_array_equal(outputs["two"], 2 * VALUES)
    np.testing.assert_array_equal(outputs["three"], 3 * VALUES)


# ------------------------------------------------------------------- what goes wrong


def test_a_kernel_that_the_library_lacks_is_named() -> None:
    plan = one_call()
    plan.plan["steps"][0]["calls"][1]["kernel"] = "divide"
    with pytest.raises(RunError, match=r"'s0'.*no kernel 'divide'.*task 'the add'"):
        plan.create()


def test_kernels_without_a_library_do_not_run() -> None:
    plan = one_call()
    executor = create(plan.plan)
    executor.set_input("x", aligned(VALUES))
    executor.set_input("y", aligned(VALUES))
    with pytest.raises(RunError, match="set_library"):
        executor.run()
    executor.set_library(0, library())
    executor.run()
    np.testing.assert_array_equal(executor.get_output("y").numpy(), 3 * VALUES)


def test_a_kernel_that_fails_is_named_and_the_next_run_works() -> None:
    plan = one_call()
    plan.plan["steps"][0]["calls"][1]["args"][0]["shape"] = [4, 8]  # as many bytes, another rank
    executor = plan.create()
    executor.set_input("x", aligned(VALUES))
    executor.set_input("y", aligned(VALUES))
    for _ in range(2):
        with pytest.raises(RunError, match=r"step 's0' .*task 'the add' \(kernel add\): .*ndim"):
            executor.run()
    assert executor.filled_slots() == []


def test_a_constant_must_have_the_size_that_kernels_read() -> None:
    plan = KernelPlan()
    x, c = plan.vector(), plan.constant("weights")
    [out] = plan.kernels([x, c], [call("add", view("in", 0), view("in", 1), view("out", 0))])
    executor = plan.output(out).create()
    executor.set_input("x", aligned(VALUES))
    executor.set_constant("weights", aligned(VALUES[:-1]))
    with pytest.raises(RunError, match="124 bytes, expected the 128"):
        executor.run()
    executor.set_constant("weights", aligned(10 * VALUES))
    executor.run()
    np.testing.assert_array_equal(executor.get_output("y").numpy(), 11 * VALUES)


def test_memory_that_is_not_aligned_is_refused() -> None:
    memory = np.zeros(SIZE + ALIGNED, "float32")
    start = (-memory.ctypes.data % ALIGNED) // 4 + 1
    executor = one_call().create()
    executor.set_input("y", aligned(VALUES))
    with pytest.raises(RunError, match="aligned to 64"):
        executor.set_input("x", tvm_ffi.from_dlpack(memory[start : start + SIZE]))
        executor.run()


# ------------------------------------------------------------------- times


def test_each_kernel_is_timed_on_request() -> None:
    plan = one_call()
    executor = plan.create()
    executor.set_input("x", aligned(VALUES))
    executor.set_input("y", aligned(VALUES))
    executor.profile_kernels(True)
    began = time.perf_counter()
    executor.run()
    took = time.perf_counter() - began
    times = executor.kernel_times()
    assert len(times) == 2
    assert all(seconds > 0 for seconds in times) and sum(times) < took
    executor.check_numerics(True)
    executor.set_input("x", aligned(np.full(SIZE, math.nan)))
    with pytest.raises(NumericsError):
        executor.run()
    assert math.isnan(executor.kernel_times()[1])  # the second one was not reached


def is_idle(executor: native.NativeExecutor) -> bool:
    """Whether no worker is at any request: only then can kernels be set."""
    try:
        executor.set_library(0, library())
    except RunError as error:
        assert "in flight" in str(error)
        return False
    return True


def test_a_cancelled_request_ends_between_two_kernels() -> None:
    plan = KernelPlan()
    x = plan.vector()
    there = [("in", 0), *[("scratch", BYTES * (k % 2)) for k in range(9999)], ("out", 0)]
    calls = [call("negate", view(*a), view(*b)) for a, b in itertools.pairwise(there)]
    executor = plan.output(plan.kernels([x], calls, scratch=2 * BYTES)[0]).create()
    executor.profile_kernels(True)
    seen_in_the_middle = False
    for attempt in range(500):
        request = executor.submit([aligned(VALUES)], 0.0, -1.0, False)
        time.sleep(attempt % 20 * 5e-5)
        if executor.cancel(request):
            with pytest.raises(CancelledError):
                executor.take(request)
        else:
            executor.take(request)
        assert eventually(lambda: is_idle(executor))
        times = executor.kernel_times()
        seen_in_the_middle = not math.isnan(times[0]) and math.isnan(times[-1])
        if seen_in_the_middle:
            break
    assert seen_in_the_middle
    executor.set_input("x", aligned(VALUES))
    executor.run()
    np.testing.assert_array_equal(executor.get_output("y").numpy(), VALUES)


# ------------------------------------------------------------------- a memory of one's own


def test_kernels_of_a_private_device_work_on_copies() -> None:
    plan = KernelPlan(workers=2)
    plan.plan["devices"].append({"name": "far", "dl_type": 1, "dl_id": 1})
    plan.plan["workers"][1]["device"] = 1
    x = plan.vector()
    there = plan.typed_slot(1)
    plan.plan["steps"].append(
        {"kind": "copy", "name": "there", "worker": 1, "ins": [x], "outs": [there], "to_device": 1}
    )
    plan.functions.append(None)
    [far] = plan.kernels([there], [call("twice", view("in", 0), view("out", 0))], worker=1)
    back = plan.typed_slot(0)
    plan.plan["steps"].append(
        {"kind": "copy", "name": "back", "worker": 1, "ins": [far], "outs": [back], "to_device": 0}
    )
    plan.functions.append(None)
    [out] = plan.kernels([back], [call("negate", view("in", 0), view("out", 0))], worker=0)
    executor = plan.output(out).create()
    executor.set_input("x", aligned(VALUES))
    for _ in range(3):
        executor.run()
        np.testing.assert_array_equal(executor.get_output("y").numpy(), -2 * VALUES)
    executor.run_stream(9)
    assert executor.allocations() == 0
