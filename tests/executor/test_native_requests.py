"""Requests: failed, cancelled, late or cut off, each alone; and the end in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.executor.native_plans import PlanBuilder, chain, diamond, evaluate, run_python, tensor
from tests.executor.test_native import random_plans
from tests.waiting import eventually, is_asleep
from tvm_hetero.errors import DeadlineError, RunError
from tvm_hetero.executor import native


class Gate:
    """A step that waits until it is opened."""

    def __init__(self) -> None:
        self.inside, self.open = threading.Event(), threading.Event()

    def __call__(self, x: Any) -> Any:
        self.inside.set()
        assert self.open.wait(30)
        return x


def gated(workers: int = 2) -> tuple[native.NativeExecutor, Gate]:
    """Two steps on the first worker and one on the second; the first of all waits at a gate."""
    gate = Gate()
    builder = PlanBuilder(workers)
    [a] = builder.call([builder.input()], function=gate)
    [b] = builder.call([a], function=lambda x: x)
    [c] = builder.call([b], worker=workers - 1, function=lambda x: x)
    return builder.output(c).create(), gate


def finished(executor: native.NativeExecutor, request: int) -> list[float]:
    assert executor.wait(request, 30)
    return list(executor.take(request)[0].numpy())


# -------------------------------------------------------------------------------- one alone fails


def bytes_of(ins: Any) -> bytes:
    return b"".join(array.numpy().tobytes() for array in ins)


@settings(max_examples=draws(36), deadline=None)
@given(
    random_plans(),
    st.lists(
        st.tuples(st.sampled_from(["run", "fail", "cancel"]), st.integers(0, 99)), max_size=12
    ),
)
def test_every_request_ends_as_if_it_were_alone(
    builder: PlanBuilder, wishes: list[tuple[str, int]]
) -> None:
    """Random failures and cancels among requests, against the steps one after the other."""
    poison: set[tuple[int, bytes]] = set()
    plain = list(builder.functions)

    def fragile(number: int, function: Callable[..., Any], record: bool = False) -> Any:
        def run(*ins: Any) -> Any:
            if (number, bytes_of(ins)) in poison:
                raise ValueError(f"nothing left at {number}")
            if record:
                seen.append((number, bytes_of(ins)))
            return function(*ins)

        return run

    constant = {row["name"]: tensor(8, 5) for row in builder.plan["constants"]}
    batches = [tensor(i, 2 * i + 1) for i in range(len(wishes))]
    for (wish, which), batch in zip(wishes, batches, strict=True):
        seen: list[tuple[int, bytes]] = []
        builder.functions = [f and fragile(i, f, record=True) for i, f in enumerate(plain)]
        if wish == "fail":
            try:
                evaluate(builder, x=batch, **constant)
            except ValueError:
                continue  # a step that reads constants alone, and that all have
            poison.update([seen[which % len(seen)]] if seen else [])

    builder.functions = [f and fragile(i, f) for i, f in enumerate(plain)]
    executor = builder.create()
    for name, value in constant.items():
        executor.set_constant(name, value)
    requests: list[tuple[int, Any, bool]] = []
    for (wish, _), batch in zip(wishes, batches, strict=True):
        request = executor.submit([batch])
        requests.append((request, batch, wish == "cancel" and executor.cancel(request)))
    for request, batch, is_cancelled in requests:
        assert executor.wait(request, 30)
        try:
            expected = list(evaluate(builder, x=batch, **constant).values())
        except ValueError:
            expected = []
        if is_cancelled:
            with pytest.raises(CancelledError):
                executor.take(request)
        elif not expected:
            with pytest.raises(RunError, match="failed: ValueError: nothing left at"):
                executor.take(request)
        else:
            for mine, right in zip(executor.take(request), expected, strict=True):
                np.testing.assert_array_equal(mine.numpy(), right)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [diamond, lambda n: chain(5, n)], ids=["diamond", "chain"])
def test_each_step_may_fail_and_the_others_in_flight_go_on(
    make: Callable[[int], PlanBuilder], workers: int
) -> None:
    builder = make(workers)
    right = [evaluate(builder, x=tensor(i, i))["y"] for i in range(8)]
    plain = list(builder.functions)
    failing, calls = -1, [0] * len(plain)

    def fragile(number: int) -> Callable[..., Any]:
        def run(*ins: Any) -> Any:
            calls[number] += 1
            if number == failing and calls[number] == 4:
                raise ValueError(f"nothing left at {number}")
            return plain[number](*ins)  # type: ignore[misc]

        return run

    builder.functions = [fragile(i) for i in range(len(plain))]
    executor = builder.create()
    for failing in range(len(plain)):
        calls[:] = [0] * len(plain)
        requests = [executor.submit([tensor(i, i)]) for i in range(8)]
        row = builder.plan["steps"][failing]
        words = (
            f"^step '{row['name']}' on worker 'w{row['worker']}' failed: "
            f"ValueError: nothing left at {failing}"
        )
        failed = 0
        for i, request in enumerate(requests):
            assert executor.wait(request, 30)
            try:
                np.testing.assert_array_equal(executor.take(request)[0].numpy(), right[i])
            except RunError as error:
                failed += 1
                with pytest.raises(RunError, match=words):
                    raise error
        assert failed == 1
        assert executor.filled_slots() == []


def test_wrong_inputs_and_numbers_are_refused() -> None:
    executor, gate = gated()
    gate.open.set()
    with pytest.raises(RunError, match=r"'x' was given as float64\[3\]"):
        executor.submit([tensor(1, 2, 3)])
    with pytest.raises(RunError, match="0 inputs were given, expected 1"):
        executor.submit([])
    for attempt in (executor.wait, executor.take, executor.cancel, executor.forget):
        with pytest.raises(RunError, match="there is no request 7"):
            attempt(7)
    request = executor.submit([tensor(1, 2)])
    assert finished(executor, request) == [1, 2]
    with pytest.raises(RunError, match=f"there is no request {request}: it was taken"):
        executor.take(request)


def test_while_requests_are_in_flight_what_is_set_once_stays() -> None:
    executor, gate = gated()
    request = executor.submit([tensor(1, 2)])
    with pytest.raises(RunError, match="1 requests are in flight"):
        executor.set_functions([lambda x: x] * 3)
    with pytest.raises(RunError, match="is not done: wait for it"):
        executor.take(request)
    gate.open.set()
    assert finished(executor, request) == [1, 2]
    executor.set_functions([lambda x: x] * 3)


# -------------------------------------------------------------------------------- cut off


def test_serving_is_submitting_waiting_and_taking() -> None:
    executor, gate = gated()
    gate.open.set()
    for i in range(20):
        served = executor.serve([tensor(i, 1)])
        assert served is not None and list(served[0].numpy()) == [i, 1]
    with pytest.raises(RunError, match="2 inputs were given, expected 1"):
        executor.serve([tensor(1, 1), tensor(1, 1)])
    gate.open.clear()
    with pytest.raises(DeadlineError, match="before the request was done"):
        executor.serve([tensor(1, 1)], deadline_s=0.05)
    others = [executor.submit([tensor(2, 2)]) for _ in range(executor.frames - 1)]
    assert executor.serve([tensor(3, 3)], wait_s=0.01) is None
    gate.open.set()
    assert [finished(executor, request) for request in others] == [[2, 2]] * len(others)
    executor.close()
    with pytest.raises(RunError, match="closed"):
        executor.serve([tensor(1, 1)])


def test_several_outputs_are_served_in_order() -> None:
    builder = PlanBuilder(2)
    x = builder.input()
    for number in range(3):
        [y] = builder.call([x], worker=number % 2)
        builder.output(y, f"y{number}")
    right = list(evaluate(builder, x=tensor(1, 2)).values())
    served = builder.create().serve([tensor(1, 2)])
    assert served is not None and len(served) == 3
    for mine, expected in zip(served, right, strict=True):
        np.testing.assert_array_equal(mine.numpy(), expected)


@pytest.mark.parametrize("settle", [0.0, 30.0])
def test_who_is_interrupted_may_wait_for_the_step_that_still_runs(settle: float) -> None:
    code = f"""
        import os, signal, time
        inside, go_on, left = threading.Event(), threading.Event(), threading.Event()
        def slow(x):
            inside.set(); go_on.wait(30); left.set()
            return x
        [y] = builder.call([builder.input()], function=slow)
        executor = builder.output(y).create()
        def press():
            inside.wait()
            os.kill(os.getpid(), signal.SIGINT)
            if {settle}:
                time.sleep(0.5)
                go_on.set()
        threading.Thread(target=press).start()
        try:
            executor.serve([tensor(1, 2)], settle_s={settle})
        except KeyboardInterrupt:
            print("interrupted", left.is_set())
        go_on.set()
        """
    assert run_python(code) == f"interrupted {bool(settle)}\n"


def test_a_cancelled_request_is_done_at_once_and_the_next_is_right() -> None:
    executor, gate = gated()
    first, second = executor.submit([tensor(1, 1)]), executor.submit([tensor(2, 2)])
    assert gate.inside.wait(30)
    assert executor.cancel(first)
    assert executor.wait(first, 0)  # though its step is still running
    assert not executor.cancel(first)
    with pytest.raises(CancelledError, match=r"^cancelled"):
        executor.take(first)
    gate.open.set()
    assert finished(executor, second) == [2, 2]
    assert executor.filled_slots() == []


def test_a_late_request_is_done_at_its_deadline_and_the_next_is_right() -> None:
    executor, gate = gated()
    begun = time.monotonic()
    late = executor.submit([tensor(1, 1)], deadline_s=0.05)
    patient = executor.submit([tensor(2, 2)], deadline_s=60)
    assert not executor.wait(late, 0) or time.monotonic() - begun >= 0.05
    assert executor.wait(late)
    with pytest.raises(DeadlineError, match=r"^deadline"):
        executor.take(late)
    gate.open.set()
    assert finished(executor, patient) == [2, 2]


def test_a_deadline_is_seen_by_workers_too() -> None:
    executor, gate = gated()
    late = executor.submit([tensor(1, 1)], deadline_s=0.02)
    after = executor.submit([tensor(2, 2)])
    time.sleep(0.03)
    gate.open.set()
    assert finished(executor, after) == [2, 2]
    with pytest.raises(DeadlineError):  # nobody waited for it
        executor.take(late)


def test_a_deadline_may_pass_before_there_is_room() -> None:
    executor, gate = gated()
    requests = [executor.submit([tensor(i, i)]) for i in range(executor.frames)]
    with pytest.raises(DeadlineError, match="before there was room"):
        executor.submit([tensor(9, 9)], deadline_s=0.02)
    gate.open.set()
    assert [finished(executor, request)[0] for request in requests] == [0, 1, 2]


def test_a_request_that_is_forgotten_is_cancelled() -> None:
    executor, gate = gated()
    forgotten = executor.submit([tensor(1, 1)], notify=True)
    kept = executor.submit([tensor(2, 2)], notify=True)
    executor.forget(forgotten)
    gate.open.set()
    assert executor.next_done(30) == kept
    assert finished(executor, kept) == [2, 2]
    assert executor.next_done(0) == 0


def test_the_end_of_each_request_is_told_once() -> None:
    executor, gate = gated()
    good = executor.submit([tensor(1, 1)], notify=True)
    cancelled = executor.submit([tensor(2, 2)], notify=True)
    late = executor.submit([tensor(3, 3)], notify=True, deadline_s=0.02)
    assert executor.next_done(0) == 0
    executor.cancel(cancelled)
    assert executor.next_done() == cancelled
    assert executor.next_done() == late
    gate.open.set()
    assert executor.next_done() == good
    assert finished(executor, executor.submit([tensor(4, 4)])) == [4, 4]  # not to be told of
    assert executor.next_done(0) == 0
    for request in (cancelled, late):
        with pytest.raises((CancelledError, DeadlineError)):
            executor.take(request)


def test_a_deadline_that_comes_while_next_done_waits_is_kept() -> None:
    executor, gate = gated()
    told: list[int] = []
    waiter = threading.Thread(target=lambda: told.append(executor.next_done(30)))
    waiter.start()
    late = executor.submit([tensor(3, 3)], notify=True, deadline_s=0.02)
    waiter.join(30)
    assert told == [late]
    gate.open.set()


# -------------------------------------------------------------------------------- many threads


def test_many_threads_submit_and_cancel_and_nothing_is_lost() -> None:
    builder = diamond(3)
    executor = builder.create()
    right = {i: evaluate(builder, x=tensor(i, i))["y"] for i in range(8)}
    outcomes: list[str] = []

    def work(number: int) -> None:
        for i in range(40):
            request = executor.submit([tensor(number, number)])
            if (i + number) % 3 == 0:
                executor.cancel(request)
            assert executor.wait(request, 30)
            try:
                np.testing.assert_array_equal(executor.take(request)[0].numpy(), right[number])
                outcomes.append("right")
            except CancelledError:
                outcomes.append("cancelled")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 320
    assert outcomes.count("right") >= 200
    assert executor.filled_slots() == []


def test_who_waits_for_room_gets_it_in_turn() -> None:
    executor, gate = gated()
    for i in range(executor.frames):
        executor.submit([tensor(i, i)])
    numbers: dict[str, int] = {}
    threads = []
    for name in "abcd":
        target = lambda name=name: numbers.update({name: executor.submit([tensor(1, 1)])})  # noqa: E731
        threads.append(threading.Thread(target=target))
        threads[-1].start()
        # Asleep for a while: a thread that starts sleeps for moments too.
        assert eventually(
            lambda: all(is_asleep(threads[-1]) for _ in range(3) if time.sleep(0.005) is None)
        )
    assert numbers == {}
    gate.open.set()
    for thread in threads:
        thread.join()
    assert numbers == {"a": 4, "b": 5, "c": 6, "d": 7}


# -------------------------------------------------------------------------------- a worker's end


def thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_worker_that_dies_is_told_of_and_replaced() -> None:
    builder = chain(4, workers=2)
    executor = builder.create()
    inject = tvm_ffi.get_global_func("tvm_hetero.inject_fault")
    executor.set_input("x", tensor(1, 2))
    executor.run()
    threads = thread_count()
    for nth in range(1, 5):
        inject("worker", nth)
        with pytest.raises(RunError, match=r"^worker 'w[01]' died: .*injected fault"):
            executor.run()
        executor.run()
        np.testing.assert_array_equal(
            executor.get_output("y").numpy(), evaluate(builder, x=tensor(1, 2))["y"]
        )
        assert thread_count() <= threads  # others' may have ended
    inject("worker", 0)


def test_a_worker_that_dies_takes_along_what_is_in_flight_only() -> None:
    executor, gate = gated()
    inject = tvm_ffi.get_global_func("tvm_hetero.inject_fault")
    requests = [executor.submit([tensor(i, i)]) for i in range(3)]
    assert gate.inside.wait(30)
    inject("worker", 1)
    gate.open.set()
    for request in requests:
        assert executor.wait(request, 30)
        with pytest.raises(RunError, match=r"^worker 'w0' died"):
            executor.take(request)
    assert finished(executor, executor.submit([tensor(7, 7)])) == [7, 7]
    assert executor.filled_slots() == []


# -------------------------------------------------------------------------------- the end


def test_close_ends_what_is_in_flight_and_who_waits_for_room() -> None:
    executor, gate = gated()
    requests = [executor.submit([tensor(i, i)], notify=True) for i in range(executor.frames)]
    told: list[str] = []

    def submit() -> None:
        try:
            executor.submit([tensor(9, 9)])
        except RunError as error:
            told.append(str(error))

    waiter = threading.Thread(target=submit)
    waiter.start()
    assert eventually(lambda: is_asleep(waiter))
    executor.close()
    waiter.join(30)
    assert told == ["the executor is closed: make a new one"]
    assert {executor.next_done() for _ in requests} == set(requests)
    assert executor.next_done() == 0
    for request in requests:
        assert executor.wait(request, 0)
        with pytest.raises(RunError, match=r"^closed: the executor was closed during the run"):
            executor.take(request)
    with pytest.raises(RunError, match="is closed: make a new one"):
        executor.submit([tensor(9, 9)])
    gate.open.set()


def test_the_interpreter_ends_with_requests_in_flight() -> None:
    code = """
        import gc
        x = builder.input()
        def slow(x):
            time.sleep(0.05); return x
        for _ in range(3):
            [x] = builder.call([x], function=slow)
        builder.output(x)
        for keep in (False, True):
            executor = builder.create()
            for _ in range(2):
                executor.submit([tensor(1, 2)])
            if not keep:
                del executor
                gc.collect()
        sys.modules["tvm_ffi"].kept = executor
        threading.Thread(target=executor.next_done, daemon=True).start()
        threading.Thread(target=executor.wait, args=(1,), daemon=True).start()
        print("end")
        """
    assert run_python(code) == "end\n"


def test_an_executor_that_outlives_its_module_goes_quietly() -> None:
    code = """
        [y] = builder.call([builder.input()], function=lambda x: x)
        import ctypes, json
        json.kept = builder.output(y).create()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(json))  # is cleared last, not collected
        print("end")
        """
    assert run_python(code, quietly=True) == "end\n"


def test_an_executor_may_go_inside_one_of_its_own_steps() -> None:
    code = """
        import gc
        kept, gone = [], threading.Event()
        def drop(x):
            time.sleep(0.05)
            kept.clear(); gc.collect(); gone.set()
            return x
        x = builder.input()
        builder.output(builder.call([x], function=drop)[0])
        kept.append(builder.create())
        kept[0].submit([tensor(1, 2)])
        gone.wait()
        time.sleep(0.05)
        print("end")
        """
    assert run_python(code) == "end\n"


@pytest.mark.parametrize(
    "call", ["run_stream(100000)", "wait(request)", "next_done()", "submit(x)", "serve(x)"]
)
def test_an_interrupt_is_seen_wherever_a_thread_waits(call: str) -> None:
    code = f"""
        import os, signal
        x = builder.input()
        interrupted = threading.Event()
        def slow(x):
            interrupted.wait(0.01); return x
        [y] = builder.call([x], function=slow)
        def wait(x):
            interrupted.wait() if x.numpy()[0] == 7 else None
            return x
        [y] = builder.call([y], function=wait)
        executor = builder.output(y).create()
        executor.set_input("x", tensor(1, 2))
        x = [tensor(7, 7)]
        if "run" not in {call!r}:
            request = [executor.submit(x) for _ in range(executor.frames)][0]
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            executor.{call}
        except KeyboardInterrupt:
            print("interrupted", executor.filled_slots())
        interrupted.set()
        executor.run()
        """
    assert run_python(code) == "interrupted []\n"
