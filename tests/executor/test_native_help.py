"""Workers that are alike: who has nothing to do takes a step of one who is at another."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tvm

from tests.executor.native_plans import PlanBuilder, tensor
from tvm_hetero.errors import RunError
from tvm_hetero.executor import native

WAIT = 30.0  # what a test waits for at most; it is there long before


@dataclass
class Steps:
    """Two steps that need nothing of each other; the first one waits while `slow` is shut.

    `ran` has the threads of each step's calls, by the value that came in.
    """

    slow: threading.Event = field(default_factory=threading.Event)
    inside: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ran: dict[str, dict[float, int]] = field(default_factory=lambda: defaultdict(dict))
    stopped: float = 1.0
    poison: float = -1.0

    def first(self, x: Any) -> Any:
        value = float(x.numpy()[0])
        self.ran["first"][value] = threading.get_native_id()
        if value == self.stopped:
            self.inside.release()
            assert self.slow.wait(WAIT)
        if value == self.poison:
            raise ValueError("poisoned")
        return tvm.runtime.tensor(2 * x.numpy())

    def second(self, x: Any) -> Any:
        self.ran["second"][float(x.numpy()[0])] = threading.get_native_id()
        return tvm.runtime.tensor(3 * x.numpy())

    def executor(self, *alike: int) -> native.NativeExecutor:
        """Each step on a worker of its own."""
        builder = PlanBuilder(workers=2)
        x = builder.input()
        [double] = builder.call([x], worker=0, function=self.first, name="first")
        [triple] = builder.call([x], worker=1, function=self.second, name="second")
        builder.output(double, "double").output(triple, "triple")
        return builder.alike(*alike).create()


def submit(executor: native.NativeExecutor, value: float) -> int:
    return int(executor.submit([tensor(value, 0)], 0.0, WAIT, False))


def taken(executor: native.NativeExecutor, request: int) -> list[float]:
    assert executor.wait(request, WAIT)
    return [float(out.numpy()[0]) for out in executor.take(request)]


def test_who_is_idle_takes_the_step_of_one_who_is_busy() -> None:
    steps = Steps()
    executor = steps.executor(0, 1)
    assert executor.frames == 2
    late = submit(executor, 1)
    assert steps.inside.acquire(timeout=WAIT)
    # While the first worker stands in batch 1, all others come and go: the second one does both.
    for value in range(2, 12):
        assert taken(executor, submit(executor, value)) == [2 * value, 3 * value]
        assert executor.run_by() == [1, 1]
        assert executor.filled_slots() == []
    steps.slow.set()
    assert taken(executor, late) == [2, 3]
    assert executor.run_by() == [0, 1]
    own = {steps.ran["first"][1.0]}
    assert own.isdisjoint(steps.ran["second"].values())
    assert {steps.ran["first"][value] for value in range(2, 12)} == {steps.ran["second"][1.0]}
    # And he who stood there goes on with what is his.
    assert taken(executor, submit(executor, 12)) == [24, 36]


def test_one_at_a_time_each_does_his_own() -> None:
    steps = Steps(stopped=-1)
    executor = steps.executor(0, 1)
    for value in range(50):
        assert taken(executor, submit(executor, value)) == [2 * value, 3 * value]
        assert executor.run_by() == [0, 1]


def test_workers_that_are_not_alike_wait() -> None:
    steps = Steps()
    executor = steps.executor()
    requests = [submit(executor, value) for value in (1, 2)]
    assert steps.inside.acquire(timeout=WAIT)
    assert not executor.wait(requests[1], 0.2)
    assert list(steps.ran["first"]) == [1.0]
    steps.slow.set()
    assert [taken(executor, request) for request in requests] == [[2, 3], [4, 6]]
    assert len(set(steps.ran["first"].values())) == 1


def test_a_step_that_fails_in_other_hands_fails_its_request_alone() -> None:
    steps = Steps(poison=2.0)
    executor = steps.executor(0, 1)
    late = submit(executor, 1)
    assert steps.inside.acquire(timeout=WAIT)
    with pytest.raises(RunError, match=r"step 'first' on worker 'w0' failed: .*poisoned"):
        taken(executor, submit(executor, 2))
    assert executor.run_by() == [-1, 1]
    assert taken(executor, submit(executor, 3)) == [6, 9]
    steps.slow.set()
    assert taken(executor, late) == [2, 3]


def test_cancelled_while_others_help_and_closed() -> None:
    steps = Steps()
    executor = steps.executor(0, 1)
    late = submit(executor, 1)
    assert steps.inside.acquire(timeout=WAIT)
    for value in range(2, 6):
        assert taken(executor, submit(executor, value)) == [2 * value, 3 * value]
    assert executor.cancel(late)
    assert taken(executor, submit(executor, 6)) == [12, 18]
    steps.slow.set()
    executor.close()
    with pytest.raises(RunError, match="closed"):
        submit(executor, 7)


def test_closed_while_the_last_step_of_a_part_is_in_other_hands() -> None:
    """Its owner sleeps until that step is done, and has to be told, or nobody ever ends it."""
    steps, later = Steps(), Steps()

    def first(x: Any) -> Any:
        return (later if x.numpy()[0] == 2 else steps).first(x)

    later.stopped = 2.0
    builder = PlanBuilder(workers=2)
    x = builder.input()
    [double] = builder.call([x], worker=0, function=first, name="first")
    [triple] = builder.call([x], worker=1, function=steps.second, name="second")
    executor = builder.output(double, "double").output(triple, "triple").alike(0, 1).create()
    own = submit(executor, 1)
    assert steps.inside.acquire(timeout=WAIT)
    submit(executor, 2)
    assert later.inside.acquire(timeout=WAIT)  # the other one has it
    steps.slow.set()
    assert taken(executor, own) == [2, 3]
    closing = threading.Thread(target=executor.join, daemon=True)
    closing.start()
    # Time for the owner to see that it is closing, and to sleep again.
    assert not later.slow.wait(0.3)
    assert closing.is_alive()
    later.slow.set()
    closing.join(WAIT / 3)
    assert not closing.is_alive()


def test_the_next_step_of_a_part_is_its_owners_again() -> None:
    """A part of two steps: whoever is there takes the next one, in order, once."""
    gate, entered = threading.Event(), threading.Semaphore(0)
    order: dict[float, list[str]] = defaultdict(list)

    def noted(name: str) -> Any:
        def call(x: Any) -> Any:
            value = float(x.numpy()[0]) - (name == "after")
            order[value].append(name)
            if value == 1 and name == "before":
                entered.release()
                assert gate.wait(WAIT)
            return tvm.runtime.tensor(x.numpy() + 1)

        return call

    builder = PlanBuilder(workers=2)
    x = builder.input()
    [middle] = builder.call([x], worker=0, function=noted("before"))
    [end] = builder.call([middle], worker=0, function=noted("after"))
    [other] = builder.call([x], worker=1, function=lambda x: tvm.runtime.tensor(-x.numpy()))
    executor = builder.output(end).output(other, "z").alike(0, 1).create()
    late = submit(executor, 1)
    assert entered.acquire(timeout=WAIT)
    for value in range(10, 20):
        assert taken(executor, submit(executor, value)) == [value + 2, -value]
    gate.set()
    assert taken(executor, late) == [3, -1]
    assert all(names == ["before", "after"] for names in order.values())


def test_many_threads_and_three_workers_alike() -> None:
    """Every request gets its own result, whoever works at it."""
    builder = PlanBuilder(workers=3)
    slots = [builder.input()]
    for number in range(9):
        [slot] = builder.call([slots[number // 2], slots[-1]], worker=number % 3)
        slots.append(slot)
    builder.output(slots[-1]).alike(0, 1, 2)
    executor = builder.create()
    errors: list[str] = []
    expected: dict[float, Any] = {}

    def caller(start: int) -> None:
        for value in range(start, start + 40):
            request = executor.submit([tensor(value, 2)], 0.0, WAIT, False)
            executor.wait(request, WAIT)
            found = executor.take(request)[0].numpy()
            if not np.array_equal(found, expected[value]):
                errors.append(f"{value}: {found}")

    for value in range(120):
        executor.set_input("x", tensor(value, 2))
        executor.run()
        expected[value] = executor.get_output("y").numpy()
    callers = [threading.Thread(target=caller, args=(start,)) for start in (0, 40, 80)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert errors == []
