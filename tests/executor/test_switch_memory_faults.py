"""There is no memory for some piece of a new plan: the switch says so, the old plan runs on."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.executor.gated import WAIT
from tests.executor.kernel_plans import SIZE, KernelPlan, aligned, call, view
from tests.executor.test_native_faults import KINDS, count, inject
from tests.models import branchy_inputs, placed, two_cpus
from tests.waiting import eventually
from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import HeteroError, RunError
from tvm_hetero.executor import native
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.native import NativeExecutor
from tvm_hetero.plan.format import plan_from_dict

INPUTS = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))
OTHER = {PARTITION: SINGLE, SINGLE: PARTITION}


@pytest.fixture(scope="module")
def apart() -> Executable:
    """A plan on two devices, one with a memory of its own, and one on the other device alone."""
    platform = two_cpus()
    big, little = platform.devices
    made = build(placed(2, replace(platform, devices=(big, replace(little, private=True)))))
    assert set(made.variants) == set(OTHER)
    return made


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    for kind in (*KINDS, "workspace"):
        inject(kind, 0)


def as_bytes(outputs: list[Any]) -> list[bytes]:
    return [out.numpy().tobytes() for out in outputs]


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.fixture(scope="module")
def right(apart: Executable) -> dict[str, list[bytes]]:
    """What each plan gives."""
    found = {}
    for name in OTHER:
        with Executor(apart, name) as executor:
            found[name] = as_bytes(executor.run(INPUTS))
    return found


@pytest.mark.parametrize("first", OTHER)
def test_the_nth_allocation_of_a_switch_that_fails_leaves_the_old_plan(
    apart: Executable, right: dict[str, list[bytes]], first: str
) -> None:
    with Executor(apart, first) as executor:
        executor.run(INPUTS)
        before, refused = threads(), 0
        for nth in range(1, 200):
            inject("allocation", nth)
            try:
                executor.switch(OTHER[first])
                break
            except HeteroError as error:
                refused += 1
                assert f"injected fault: allocation {nth}" in str(error)
            finally:
                inject("allocation", 0)
            assert executor.variant == first
            assert as_bytes(executor.run(INPUTS)) == right[first]
            assert threads() == before
        assert 0 < refused == nth - 1 < 199
        assert executor.variant == OTHER[first]
        assert as_bytes(executor.run(INPUTS)) == right[OTHER[first]]


@pytest.mark.parametrize("kind", ["allocation", "workspace"])
def test_the_nth_fault_while_requests_go_over_fails_single_ones_and_no_plan(
    apart: Executable, right: dict[str, list[bytes]], kind: str
) -> None:
    for nth in range(1, 200):
        with Executor(apart) as executor:
            executor.run(INPUTS)
            inject(kind, nth)
            pending = [executor.submit(INPUTS) for _ in range(2)]
            switched = True
            try:
                executor.switch(SINGLE)
            except HeteroError as error:
                switched = False
                assert "injected fault" in str(error)
            pending += [executor.submit(INPUTS) for _ in range(2)]
            for each in pending:
                error = each.exception(WAIT)
                assert error is None or (
                    isinstance(error, RunError) and "injected fault" in str(error)
                )
                assert error or as_bytes(each.result()) in right.values()
            happened = count(kind) >= nth
            inject(kind, 0)
            executor.await_drained()
            assert executor.variant == (SINGLE if switched else PARTITION)
            assert as_bytes(executor.run(INPUTS)) == right[executor.variant]
            executor.switch(OTHER[executor.variant])
            assert as_bytes(executor.run(INPUTS)) == right[executor.variant]
        if not happened:
            break
    assert 1 < nth < 199


def live_executors() -> int:
    gc.collect()
    return sum(isinstance(each, NativeExecutor) for each in gc.get_objects())


def test_plans_that_could_not_be_loaded_are_freed(apart: Executable) -> None:
    with Executor(apart) as executor:
        before, refused = live_executors(), 0
        for nth in range(1, 200):
            inject("allocation", nth)
            try:
                executor.switch(SINGLE)
                break
            except HeteroError:
                refused += 1
            finally:
                inject("allocation", 0)
        assert before > 0 and refused > 0 and executor.variant == SINGLE
        executor.await_drained()
        assert eventually(lambda: live_executors() == before)


@dataclass
class HeldPlan:
    """Kernels behind a step that holds every request until the test lets go of it."""

    let_go: threading.Event = field(default_factory=threading.Event)

    def create(self, before: NativeExecutor | None = None) -> NativeExecutor:
        plan = KernelPlan(workers=2)
        [held] = plan.call([plan.vector()], worker=0, function=self._hold)
        [twice] = plan.kernels([held], [call("twice", view("in", 0), view("out", 0))], worker=1)
        [out] = plan.kernels([twice], [call("negate", view("in", 0), view("out", 0))], worker=1)
        plan.output(out)
        executor = native.create(plan_from_dict(plan.plan), before)
        plan.equip(executor)
        return executor

    def _hold(self, x: Any) -> Any:
        assert self.let_go.wait(WAIT)
        return aligned(x.numpy())

    def stream(self, executor: NativeExecutor, requests: int) -> int:
        """Allocations of so many requests that are in flight at once."""
        inject("allocation", 1_000_000)  # to count them
        self.let_go.clear()
        values = np.arange(SIZE, dtype="float32")
        ids = [executor.submit([aligned(values)], 0.0, -1.0, False) for _ in range(requests)]
        self.let_go.set()
        for each in ids:
            assert executor.wait(each, WAIT)
            [out] = executor.take(each)
            np.testing.assert_array_equal(out.numpy(), -2 * values)
        return count("allocation")


@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_new_plan_has_memory_for_a_stream_if_the_old_one_had_one(in_flight: int) -> None:
    plan = HeldPlan()
    first = plan.create()
    plan.stream(first, in_flight)
    second = plan.create(first)
    at_first, later = (plan.stream(second, 2) for _ in range(2))
    if in_flight == 1:
        assert at_first > later
    else:
        assert at_first == later
