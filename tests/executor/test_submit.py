"""Requests from many threads: none lost, none out of order; room, deadlines, failures."""

from __future__ import annotations

import concurrent.futures
import math
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest

from tests.executor.gated import WAIT, Gated, result, vector
from tests.executor.threads import in_threads
from tests.models import branchy_inputs
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import DeadlineError, FullError, RunError, UsageError
from tvm_hetero.executor.executor import Executor

# -------------------------------------------------------------------------------- results


def test_a_request_is_a_future_of_its_outputs(free: Executor) -> None:
    pending = [free.submit(x=vector(i)) for i in range(20)]
    assert [result(each.result(WAIT)) for each in pending] == [2 * i + 1 for i in range(20)]
    assert all(each.done() and not each.running() and not each.cancelled() for each in pending)


def test_requests_begin_in_the_order_of_their_submission(held: Gated) -> None:
    executor, gate = held
    gate.open.set()
    concurrent.futures.wait([executor.submit(x=vector(i)) for i in range(30)])
    assert gate.seen == list(range(30))


def test_outputs_that_are_held_survive_all_later_requests(free: Executor) -> None:
    outputs = [free.submit(x=vector(i)).result(WAIT) for i in range(30)]
    np.testing.assert_array_equal([result(each) for each in outputs], 2 * np.arange(30) + 1)


def test_eight_threads_with_random_cancels_lose_nothing(executable: Executable) -> None:
    rounds = 60
    inputs = [dict(zip(("in/x", "y"), branchy_inputs(i), strict=True)) for i in range(8)]
    with Executor(executable) as executor:
        expected = [[out.numpy().tobytes() for out in executor.run(each)] for each in inputs]
        ends: list[str] = []

        def use(number: int) -> None:
            rng = random.Random(number)
            mine = []
            for i in range(rounds):
                which = (number + i) % len(inputs)
                mine.append((which, executor.submit(inputs[which])))
                if rng.random() < 0.3:
                    rng.choice(mine)[1].cancel()
            for which, pending in mine:
                try:
                    outputs = pending.result(WAIT)
                except CancelledError:
                    assert pending.cancelled()
                    ends.append("cancelled")
                else:
                    assert [out.numpy().tobytes() for out in outputs] == expected[which]
                    ends.append("done")

        in_threads(8, use)
        assert len(ends) == 8 * rounds
        assert "cancelled" in ends
        assert "done" in ends
        assert len(executor.run(inputs[0])) == 2


def test_threads_that_run_and_map_share_an_executor(executable: Executable) -> None:
    inputs = [dict(zip(("in/x", "y"), branchy_inputs(i), strict=True)) for i in range(12)]
    with Executor(executable) as executor:
        expected = [[out.numpy().tobytes() for out in executor.run(each)] for each in inputs]

        def use(number: int) -> None:
            if number % 2:
                outputs = list(executor.map(inputs))
            else:
                outputs = [executor.run(each) for each in inputs]
            assert [[out.numpy().tobytes() for out in each] for each in outputs] == expected

        in_threads(6, use)


def test_only_outputs_that_wait_to_be_taken_are_allocated(executable: Executable) -> None:
    inputs = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))
    with Executor(executable) as executor:
        for _ in range(10):
            executor.run(inputs)
        assert executor.allocations == 0
        for _ in executor.map([inputs] * 40 * executor.depth):
            pass
        assert executor.allocations <= len(executor.outputs) * (executor.depth + 1)


# -------------------------------------------------------------------------------- room


def test_a_full_pipeline_holds_up_who_submits(held: Gated) -> None:
    executor, gate = held
    pending = [executor.submit(x=vector(i), timeout=0) for i in range(executor.depth)]
    with pytest.raises(FullError, match=rf"full \({executor.depth} requests in flight"):
        executor.submit(x=vector(7), timeout=0)
    with pytest.raises(FullError):
        executor.submit(x=vector(7), timeout=0.01)
    late: list[float] = []
    waiting = threading.Thread(target=lambda: late.append(result(executor.run(x=vector(50)))))
    waiting.start()
    waiting.join(0.05)
    assert late == []
    gate.open.set()
    waiting.join(WAIT)
    assert late == [101.0]
    assert [result(each.result(WAIT)) for each in pending] == [
        2 * i + 1 for i in range(executor.depth)
    ]
    assert 7 not in gate.seen


def test_a_cancelled_request_makes_room_for_another(held: Gated) -> None:
    executor, gate = held
    pending = [executor.submit(x=vector(i)) for i in range(executor.depth)]
    assert pending[-1].cancel()
    gate.open.set()
    assert result(executor.run(x=vector(9))) == 19


# -------------------------------------------------------------------------------- giving up


def test_cancelling_in_flight(held: Gated) -> None:
    executor, gate = held
    pending = executor.submit(x=vector(1))
    gate.wait_inside()
    assert pending.running()
    assert pending.cancel()
    assert pending.cancel()  # as of any future: it is cancelled
    assert pending.cancelled()
    with pytest.raises(CancelledError):
        pending.result(0)
    done, _ = concurrent.futures.wait([pending], 0)
    assert done == {pending}
    gate.open.set()
    assert result(executor.run(x=vector(2))) == 5


def test_what_is_done_cannot_be_cancelled(free: Executor) -> None:
    pending = free.submit(x=vector(1))
    assert result(pending.result(WAIT)) == 3
    assert not pending.cancel()
    assert not pending.cancelled()
    assert result(pending.result(0)) == 3


def test_a_deadline_ends_a_request_while_its_step_still_runs(held: Gated) -> None:
    executor, gate = held
    late = executor.submit(x=vector(1), deadline=0.02)
    with pytest.raises(DeadlineError):
        late.result(WAIT)
    with pytest.raises(DeadlineError):
        executor.run(x=vector(2), deadline=0.02)
    assert not gate.open.is_set()
    gate.open.set()
    assert result(executor.run(x=vector(3), deadline=WAIT)) == 7
    assert result(executor.run(x=vector(3), deadline=math.inf)) == 7


def test_the_deadline_counts_while_there_is_no_room(held: Gated) -> None:
    executor, _ = held
    for i in range(executor.depth):
        executor.submit(x=vector(i))
    with pytest.raises(DeadlineError):
        executor.submit(x=vector(9), deadline=0.02)


def test_ctrl_c_ends_a_run_and_no_other_request(held: Gated) -> None:
    executor, gate = held
    others: list[Any] = []

    def press() -> None:
        gate.wait_inside()  # by now the main thread is in `run`
        others.append(executor.submit(x=vector(2)))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pressing = threading.Thread(target=press)
    with pytest.raises(KeyboardInterrupt):
        pressing.start()
        executor.run(x=vector(1))
    pressing.join()
    gate.open.set()
    assert result(others[0].result(WAIT)) == 5
    assert result(executor.run(x=vector(3))) == 7


def test_deadlines_that_are_none(free: Executor) -> None:
    for past in (0.0, -1.0):
        with pytest.raises(DeadlineError, match="was past"):
            free.run(x=vector(1), deadline=past)
    for odd in (math.nan, "1", 10**400, [1]):
        with pytest.raises(UsageError, match="expected a deadline in seconds"):
            free.submit(x=vector(1), deadline=odd)
        with pytest.raises(UsageError, match="expected a timeout in seconds"):
            free.submit(x=vector(1), timeout=odd)


# -------------------------------------------------------------------------------- failures


def test_a_request_that_fails_fails_alone(held: Gated) -> None:
    executor, gate = held
    gate.poison = 5.0
    gate.open.set()
    pending = [executor.submit(x=vector(i)) for i in range(10)]
    with pytest.raises(RunError, match="poisoned"):
        pending[5].result(WAIT)
    right = [each.result(WAIT) for i, each in enumerate(pending) if i != 5]
    assert [result(outputs) for outputs in right] == [2 * i + 1 for i in range(10) if i != 5]


def test_a_stream_hands_out_what_stands_before_a_failure(held: Gated) -> None:
    executor, gate = held
    gate.poison = 3.0
    gate.open.set()
    outputs = executor.map([{"x": vector(i)} for i in range(10)])
    assert [result(next(outputs)) for _ in range(3)] == [1, 3, 5]
    with pytest.raises(RunError, match="poisoned"):
        next(outputs)
    assert result(executor.run(x=vector(4))) == 9


def test_a_stream_that_is_left_gives_back_its_places(held: Gated) -> None:
    executor, gate = held
    gate.open.set()
    outputs = executor.map({"x": vector(i)} for i in range(100))
    assert result(next(outputs)) == 1
    outputs.close()
    pending = [executor.submit(x=vector(i)) for i in range(3 * executor.depth)]
    assert [result(each.result(WAIT)) for each in pending] == [
        2 * i + 1 for i in range(3 * executor.depth)
    ]


def test_the_failure_of_what_makes_the_inputs_comes_last(free: Executor) -> None:
    def inputs() -> Iterator[dict[str, Any]]:
        yield {"x": vector(1)}
        yield {"x": vector(2)}
        raise KeyError("no more")

    outputs = free.map(inputs())
    assert [result(next(outputs)), result(next(outputs))] == [3, 5]
    with pytest.raises(KeyError):
        next(outputs)


def test_arrays_may_be_used_again_in_a_stream(free: Executor) -> None:
    array = vector(0)

    def inputs() -> Iterator[dict[str, Any]]:
        for i in range(20):
            array[0] = i
            yield {"x": array}

    assert [result(outputs) for outputs in free.map(inputs())] == [2 * i + 1 for i in range(20)]
