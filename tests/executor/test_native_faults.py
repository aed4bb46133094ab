"""The n-th thing that may go wrong goes wrong, for every n: an error, no leak, and it goes on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from tests.executor.kernel_plans import BYTES, SIZE, KernelPlan, aligned, call, view
from tvm_hetero.errors import PlatformError, RunError
from tvm_hetero.executor import native

KINDS = ("kernel", "copy", "allocation", "worker")
VALUES = np.arange(SIZE, dtype="float32")
NUMBERS = itertools.count()
MANY = 60  # more than a run has points of any kind


def inject(kind: str, nth: int) -> None:
    native.load_library()
    tvm_ffi.get_global_func("tvm_hetero.inject_fault")(kind, nth)


def count(kind: str) -> int:
    return int(tvm_ffi.get_global_func("tvm_hetero.fault_count")(kind))


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    for kind in KINDS:
        inject(kind, 0)


def threads(executor: native.NativeExecutor) -> int:
    """The workers that live; each executor of these tests names its own otherwise."""
    names = {row.name for row in executor.plan.workers}
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it may have ended just now
            found += (task / "comm").read_text().strip() in names
    return found


def two_places() -> KernelPlan:
    """Kernels on two devices, one of which has a memory of its own, a call, and two outputs; the
    first and the last worker are alike.
    """
    plan = KernelPlan(workers=4)
    plan.alike(0, 3)
    number = next(NUMBERS)
    for worker, row in enumerate(plan.plan["workers"]):
        row["name"] = f"fault{number}.{worker}"
    plan.plan["devices"].append({"name": "far", "dl_type": 1, "dl_id": 1})
    plan.plan["workers"][1]["device"] = 1
    plan.plan["workers"][2].update(device=1, role="copy")
    x = plan.vector()
    there = _copy(plan, x, 1)
    far_calls = [
        call("twice", view("in", 0), view("scratch", 0)),
        call("negate", view("scratch", 0), view("out", 0)),
    ]
    [far] = plan.kernels([there], far_calls, worker=1, scratch=BYTES)
    [near] = plan.kernels([x], [call("twice", view("in", 0), view("out", 0))], worker=3)
    back = _copy(plan, far, 0)
    add = call("add", view("in", 0), view("in", 1), view("out", 0))
    [zero] = plan.kernels([near, back], [add], worker=0)
    [same] = plan.call([near], worker=0, function=lambda x: aligned(x.numpy()))
    plan.output(zero, "zero").output(same, "double").output(back, "back")
    return plan


def _copy(plan: KernelPlan, source: int, device: int) -> int:
    target = plan.typed_slot(device)
    row = {"kind": "copy", "name": f"copy{target}", "worker": 2, "to_device": device}
    plan.plan["steps"].append({**row, "ins": [source], "outs": [target]})
    plan.functions.append(None)
    return target


def check(outputs: list[Any], values: Any) -> None:
    for output, expected in zip(outputs, (0 * values, 2 * values, -2 * values), strict=True):
        np.testing.assert_array_equal(output.numpy(), expected)


def create() -> native.NativeExecutor:
    native.load_library()
    return two_places().create()


@pytest.mark.parametrize("kind", KINDS)
def test_the_nth_fault_of_a_run_fails_it_and_the_next_one_is_right(kind: str) -> None:
    executor = create()
    executor.set_input("x", aligned(VALUES))
    executor.run()
    held: list[list[Any]] = []
    for nth in range(1, MANY):
        inject(kind, nth)
        failed = False
        try:
            executor.run()
        except RunError as error:
            failed = True
            assert f"injected fault: {kind} {nth}" in str(error), error
            assert executor.filled_slots() == []
        inject(kind, 0)
        assert failed == (count(kind) >= nth)
        executor.run()
        # What is held cannot be used again: so there are allocations, which can fail.
        held.append([executor.get_output(i) for i in range(3)])
        for outputs in held:
            check(outputs, VALUES)
        assert threads(executor) == 4
        if not failed and nth > 4:
            break
    assert nth < MANY - 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_nth_fault_with_several_requests_in_flight(kind: str) -> None:
    executor = create()
    held: list[Any] = []
    for nth in range(1, 2 * MANY):
        inject(kind, nth)
        ids = [executor.submit([aligned(VALUES + k)], 0.0, -1.0, False) for k in range(3)]
        failures = 0
        for k, request in enumerate(ids):
            assert executor.wait(request, 60.0)
            try:
                outputs = executor.take(request)
            except RunError as error:
                failures += 1
                assert "injected fault" in str(error) or "died" in str(error), error
            else:
                check(outputs, VALUES + k)
                held.append(outputs[0])
        inject(kind, 0)
        hit = count(kind) >= nth
        # A step's fault is one request's; with a worker all die that are in flight: none, if the
        # last one was done when the worker died.
        assert failures == hit if kind != "worker" else bool(failures) <= hit
        [request] = [executor.submit([aligned(VALUES)], 0.0, -1.0, False)]
        assert executor.wait(request, 60.0)
        check(executor.take(request), VALUES)
        assert threads(executor) == 4
        if not hit and nth > 1:
            break
        held = held if kind == "allocation" else []
    assert nth < 2 * MANY - 1
    executor.set_input("x", aligned(VALUES))
    held.clear()
    executor.run_stream(10)
    settled = executor.allocations()
    executor.run_stream(30)
    assert executor.allocations() == settled
    assert executor.filled_slots() == []


def test_the_nth_allocation_while_an_executor_is_made() -> None:
    for nth in range(1, MANY):
        inject("allocation", nth)
        try:
            executor = create()
        except (PlatformError, RunError) as error:
            assert f"injected fault: allocation {nth}" in str(error)
            continue
        inject("allocation", 0)
        executor.set_input("x", aligned(VALUES))
        executor.run()
        check([executor.get_output(i) for i in range(3)], VALUES)
        break
    assert 3 < nth < MANY - 1


def test_an_unknown_fault_is_refused() -> None:
    native.load_library()
    known = "kernel, copy, allocation, worker or workspace"
    with pytest.raises(ValueError, match=f"'kernal', expected {known}"):
        inject("kernal", 1)
    with pytest.raises(ValueError, match="-1"):
        inject("kernel", -1)


def test_nothing_is_counted_unless_armed() -> None:
    executor = create()
    executor.set_input("x", aligned(VALUES))
    inject("kernel", 1000)
    executor.run()
    assert count("kernel") == 5  # twice, negate, twice, add, and the call
    inject("kernel", 0)
    executor.run()
    assert count("kernel") == 5
    inject("copy", 1000)
    executor.run()
    assert (count("kernel"), count("copy")) == (5, 2)
