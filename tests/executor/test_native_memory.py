"""Tensors: handed on without a copy, freed in time, kept as long as promised."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from tests.executor.kernel_plans import SIZE, KernelPlan, aligned, call, one_call, view
from tests.executor.native_plans import (
    PlanBuilder,
    diamond,
    evaluate,
    tensor,
)


def test_tensors_are_handed_on_without_a_copy() -> None:
    builder = PlanBuilder(workers=2)
    seen: list[int] = []

    def look(x: Any) -> Any:
        seen.append(x.data_ptr())
        return x

    slot = builder.input()
    for i in range(4):
        [slot] = builder.call([slot], worker=i % 2, function=look)
    executor = builder.output(slot).create()
    given = tensor(1, 2)
    executor.set_input("x", given)
    executor.run()
    assert seen == [given.data_ptr()] * 4
    assert executor.get_output("y").data_ptr() == given.data_ptr()


def test_a_copy_step_copies_and_uses_its_buffer_again() -> None:
    builder = PlanBuilder(workers=2)
    builder.plan["workers"][1]["role"] = "copy"
    x = builder.input()
    builder.output(builder.copy(x, worker=1))
    executor = builder.create()
    given = tensor(1, 2)
    executor.set_input("x", given)
    executor.run()
    first = executor.get_output("y")
    assert first.data_ptr() != given.data_ptr()
    np.testing.assert_array_equal(first.numpy(), [1, 2])

    executor.set_input("x", tensor(3, 4))
    executor.run()  # `first` is held, so its buffer is not free
    second = executor.get_output("y")
    assert second.data_ptr() != first.data_ptr()
    np.testing.assert_array_equal(first.numpy(), [1, 2])
    np.testing.assert_array_equal(second.numpy(), [3, 4])

    address = first.data_ptr()
    del first
    executor.run()
    assert executor.get_output("y").data_ptr() == address


def test_an_intermediate_is_freed_after_its_last_reader() -> None:
    builder = PlanBuilder()
    alive: list[weakref.ref[Any]] = []
    still_there: list[int] = []

    def make(x: Any) -> Any:
        del x
        still_there.append(sum(ref() is not None for ref in alive))
        array = np.ones(2)
        alive.append(weakref.ref(array))
        return tvm_ffi.from_dlpack(array)

    slot = builder.input()
    for _ in range(6):
        [slot] = builder.call([slot], function=make)
    executor = builder.output(slot).create()
    executor.set_input("x", tensor(1, 2))
    executor.run()
    # Step i sees the tensor that it reads, none older: those before have been freed.
    assert still_there == [0, 1, 1, 1, 1, 1]


def test_an_output_lives_until_the_next_run_starts_or_as_long_as_it_is_held() -> None:
    builder = PlanBuilder()
    alive: list[weakref.ref[Any]] = []
    at_start: list[list[bool]] = []

    def make(x: Any) -> Any:
        at_start.append([ref() is not None for ref in alive])
        array = x.numpy() * 2
        alive.append(weakref.ref(array))
        return tvm_ffi.from_dlpack(array)

    executor = builder.output(builder.call([builder.input()], function=make)[0]).create()
    executor.set_input("x", tensor(1, 2))
    executor.run()
    held = executor.get_output("y")
    executor.set_input("x", tensor(10, 20))
    executor.run()
    np.testing.assert_array_equal(np.from_dlpack(held), [2, 4])
    executor.run()
    # The first output is held by us; the second was let go before the third run's first step.
    assert at_start == [[], [True], [True, False]]
    np.testing.assert_array_equal(executor.get_output("y").numpy(), [20, 40])


def test_many_runs_leave_nothing_behind() -> None:
    builder = diamond(2)
    copied = builder.copy(builder.plan["outputs"][0]["slot"], worker=1)
    builder.output(copied, "copied")
    identity = tvm_ffi.get_global_func("tvm_hetero.identity")
    builder.functions[1:3] = [identity, identity]
    executor = builder.create()
    executor.set_input("x", tensor(1, 2))
    expected = evaluate(builder, x=tensor(1, 2))

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    executor.run_repeated(500)
    before = resident()
    seconds = executor.run_repeated(2000)
    assert resident() - before < 4 << 20  # a leak of one tensor object a step would show
    assert len(seconds) == 2000
    assert min(seconds) > 0
    for name, value in expected.items():
        np.testing.assert_array_equal(executor.get_output(name).numpy(), value)


def test_a_kernels_buffer_is_used_again_but_never_under_a_holders_hands() -> None:
    executor = one_call().create()
    ones = np.ones(SIZE, dtype="float32")
    executor.set_input("x", aligned(ones))
    executor.set_input("y", aligned(ones))
    held: list[Any] = []
    while executor.allocations() == 0:  # some buffers are there beforehand
        executor.set_input("x", aligned(len(held) * ones))
        executor.run()
        held.append(executor.get_output("y"))
        assert len(held) < 10
    for _ in range(2):
        executor.set_input("x", aligned(len(held) * ones))
        executor.run()
        held.append(executor.get_output("y"))
    assert executor.allocations() == 3
    for number, output in enumerate(held):
        np.testing.assert_array_equal(output.numpy(), (2 * number + 1) * ones)
    addresses = {output.data_ptr() for output in held}
    assert len(addresses) == len(held)
    held.clear()
    for _ in range(5):
        executor.run()
        assert executor.get_output("y").data_ptr() in addresses
    assert executor.allocations() == 3


def test_outputs_that_are_held_without_end_are_not_kept_when_they_are_let_go() -> None:
    plan = KernelPlan()
    x = plan.vector()
    [out] = plan.kernels([x], [call("twice", view("in", 0), view("out", 0))])
    executor = plan.output(out).create()
    allocated = [0]
    for _ in range(2):
        held = []
        for number in range(100):
            request = executor.submit([aligned(np.full(SIZE, number))], 0.0, -1.0, False)
            assert executor.wait(request, -1.0)
            held += executor.take(request)
        assert [int(output.numpy()[0]) for output in held] == [2 * n for n in range(100)]
        assert len({output.data_ptr() for output in held}) == 100
        allocated.append(executor.allocations())
        del held
    first, second = np.diff(allocated)
    assert first > 90  # all but those that were there beforehand
    assert 60 < second < first  # it kept some of them, though not nearly all


def test_a_view_of_an_output_holds_its_memory() -> None:
    plan = one_call()
    plan.plan["outputs"][0]["shape"] = [4, 8]
    executor = plan.create()
    executor.set_input("x", aligned(np.arange(SIZE)))
    executor.set_input("y", aligned(np.zeros(SIZE)))
    executor.run()
    held = np.from_dlpack(executor.get_output("y"))
    executor.set_input("x", aligned(np.zeros(SIZE)))
    executor.run()
    np.testing.assert_array_equal(held, 2 * np.arange(SIZE).reshape(4, 8))


def test_nothing_is_allocated_in_steady_state() -> None:
    plan = KernelPlan(workers=2)
    slot = plan.vector()
    for step in range(6):
        twice = call("twice", view("in", 0), view("out", 0))
        [slot] = plan.kernels([slot], [twice], worker=step % 2)
    executor = plan.output(slot).create()
    executor.set_input("x", aligned(np.ones(SIZE)))
    executor.run_repeated(5)
    assert executor.allocations() == 0
    executor.run_stream(4 * executor.frames)
    assert executor.allocations() == 0
    executor.run()
    np.testing.assert_array_equal(executor.get_output("y").numpy(), np.full(SIZE, 64))
    assert executor.allocations() == 0
