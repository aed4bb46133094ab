"""Steps that fail: what is told, what is freed, and that the next run works."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from tests.executor.native_plans import (
    PlanBuilder,
    chain,
    diamond,
    evaluate,
    run_python,
    tensor,
)
from tvm_hetero.errors import RunError


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [diamond, lambda n: chain(5, n)], ids=["diamond", "chain"])
def test_each_step_may_fail_and_the_next_run_works(
    make: Callable[[int], PlanBuilder], workers: int
) -> None:
    builder = make(workers)
    failing = -1
    ran: list[int] = []

    def fragile(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*ins: Any) -> Any:
            ran.append(number)
            if number == failing:
                raise ZeroDivisionError(f"nothing left at {number}")
            return function(*ins)

        return run

    count = len(builder.plan["steps"])
    builder.functions = [fragile(i, f) for i, f in enumerate(builder.functions) if f]
    executor = builder.create()
    executor.set_input("x", tensor(1, 2))
    expected = evaluate(builder, x=tensor(1, 2))["y"]
    for failing in range(count):
        ran.clear()
        row = builder.plan["steps"][failing]
        words = f"step '{row['name']}' on worker 'w{row['worker']}' failed: .*nothing left at"
        with pytest.raises(RunError, match=words):
            executor.run()
        assert executor.filled_slots() == []
        with pytest.raises(RunError, match="output 'y' is not there"):
            executor.get_output("y")
        # Nothing that needs the failed step ran, and the trace says so.
        skipped = [i for i in range(count) if math.isnan(executor.trace()[i][1])]
        assert failing in skipped
        assert count - 1 in skipped
        assert set(ran) == (set(range(count)) - set(skipped)) | {failing}

        saved, failing = failing, -1
        executor.run()
        np.testing.assert_array_equal(executor.get_output("y").numpy(), expected)
        failing = saved


def test_the_error_of_the_earlier_step_is_told() -> None:
    builder = PlanBuilder(workers=2)
    meeting = threading.Barrier(2)

    def fail(x: Any) -> Any:
        meeting.wait(30)
        raise ValueError("both fail at once")

    x = builder.input()
    [a] = builder.call([x], worker=1, function=fail, name="first")
    [b] = builder.call([x], worker=0, function=fail, name="second")
    executor = builder.output(a, "a").output(b, "b").create()
    executor.set_input("x", tensor(1, 2))
    for _ in range(5):
        with pytest.raises(RunError, match="step 'first' on worker 'w1' failed: ValueError: both"):
            executor.run()


def test_a_failure_frees_what_was_made() -> None:
    builder = PlanBuilder(workers=2)
    alive: list[weakref.ref[Any]] = []

    def make(x: Any) -> Any:
        array = np.ones(2)
        alive.append(weakref.ref(array))
        return tvm_ffi.from_dlpack(array)

    def fail(*ins: Any) -> Any:
        raise ValueError("no")

    [a] = builder.call([builder.input()], function=make)
    [b] = builder.call([a], worker=1, function=make)
    [c] = builder.call([a, b], function=fail)
    executor = builder.output(b, "b").output(c, "c").create()
    executor.set_input("x", tensor(1, 2))
    with pytest.raises(RunError, match="'s2'"):
        executor.run()
    gc.collect()
    assert len(alive) == 2
    assert [ref() for ref in alive] == [None, None]


def test_an_interrupt_ends_the_run() -> None:
    code = """
        import os, signal, threading, time
        x = builder.input()
        inside = threading.Event()
        def slow(x):
            inside.set(); time.sleep(0.3); return x
        for _ in range(200):
            [x] = builder.call([x], function=slow)
        executor = builder.output(x).create()
        executor.set_input("x", tensor(1, 2))
        def interrupt():
            inside.wait()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            executor.run()
        except KeyboardInterrupt:
            print("interrupted", executor.filled_slots())
        """
    assert run_python(code) == "interrupted []\n"
