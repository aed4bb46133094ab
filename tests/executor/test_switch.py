"""Another plan takes over: what is in flight ends by the old one, what comes goes by the new."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest

from tests.executor.gated import WAIT, Gate, result, vector
from tests.executor.native_plans import PlanBuilder
from tests.executor.switched import (
    CORES,
    TwoPlans,
    built,
    gated_plan,
    opened,
    switched,
    two_plans,
)
from tests.executor.threads import in_threads
from tests.models import branchy_inputs, equal_cpus, placed
from tests.waiting import eventually
from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import DeadlineError, FullError, RunError, UsageError
from tvm_hetero.executor.executor import OTHER, Executor


@pytest.fixture
def two(executable: Executable) -> Iterator[TwoPlans]:
    """Plans whose threads are on no cores of their own."""
    with two_plans(executable) as made:
        yield made


def started(body: Any) -> threading.Thread:
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


# -------------------------------------------------------------------------------- who runs what


def test_what_is_in_flight_ends_by_the_old_plan_while_others_run_by_the_new_one(
    two: TwoPlans,
) -> None:
    pending = [two.executor.submit(x=vector(i)) for i in range(two.executor.depth)]
    two.old.wait_inside()
    two.executor.switch("new")
    assert (two.executor.variant, len(two.executor.plan.workers)) == ("new", 1)
    assert [result(two.executor.run(x=vector(10 + i))) for i in range(5)] == [
        2 * (10 + i) + 1 for i in range(5)
    ]
    assert not any(each.done() for each in pending)
    two.old.open.set()
    assert [result(each.result(WAIT)) for each in pending] == [1, 3, 5, 7][: len(pending)]
    two.executor.await_drained()
    assert two.old.seen == list(range(len(pending)))
    assert two.new.seen == [10, 11, 12, 13, 14]


def test_a_core_goes_over_when_the_last_old_request_has_passed_it(executable: Executable) -> None:
    one, other = [CORES[0]], [CORES[-1]]
    with two_plans(executable, [one, other], [one]) as two:
        begun = two.executor.submit(x=vector(1))
        two.old.wait_inside()
        two.executor.switch("new")
        next_one = two.executor.submit(x=vector(2))
        time.sleep(0.05)
        assert two.new.seen == []
        two.old.open.set()
        assert result(next_one.result(WAIT)) == 5
        assert result(begun.result(WAIT)) == 3


def test_what_is_cancelled_before_its_core_is_free_leaves_room(executable: Executable) -> None:
    one = [CORES[0]]
    with two_plans(executable, [one, one], [one]) as two:
        two.executor.submit(x=vector(1))
        two.old.wait_inside()
        two.executor.switch("new")
        for value in range(3 * two.executor.depth):
            pending = two.executor.submit(x=vector(value), timeout=WAIT)
            assert pending.cancel()
        with pytest.raises(DeadlineError):
            two.executor.run(x=vector(5), deadline=0.01)
        two.old.open.set()
        assert result(two.executor.run(x=vector(6))) == 13
        assert two.new.seen == [6]


def test_each_request_is_computed_once_by_one_plan(two: TwoPlans) -> None:
    two.old.open.set()
    values = list(range(300))
    outputs = []
    for value in values:
        if value % 10 == 0:
            two.executor.switch("old" if value % 20 else "new")
        outputs.append(result(two.executor.run(x=vector(value))))
    assert outputs == [2 * value + 1 for value in values]
    assert two.seen == values
    assert len(two.new.seen) == len(two.old.seen)


def test_a_switch_waits_until_the_one_before_is_through(two: TwoPlans) -> None:
    pending = two.executor.submit(x=vector(1))
    two.old.wait_inside()
    two.executor.switch("new")
    again = started(lambda: two.executor.switch("old"))
    again.join(0.05)
    assert again.is_alive()
    assert two.executor.variant == "new"
    assert result(two.executor.run(x=vector(2))) == 5  # nobody else is held up
    two.old.open.set()
    again.join(WAIT)
    assert two.executor.variant == "old"
    assert result(pending.result(WAIT)) == 3


# -------------------------------------------------------------------------------- the queue


def test_who_waits_for_room_goes_over(two: TwoPlans) -> None:
    pending = [two.executor.submit(x=vector(i)) for i in range(two.executor.depth)]
    done: list[float] = []
    calls = (
        lambda: two.executor.run(x=vector(100)),
        lambda: two.executor.run(x=vector(101), deadline=WAIT),
        lambda: two.executor.submit(x=vector(102)).result(WAIT),
        lambda: two.executor.submit(x=vector(103), timeout=WAIT).result(WAIT),
        lambda: two.executor.submit(x=vector(104), timeout=WAIT, deadline=WAIT).result(WAIT),
    )
    waiting = [started(lambda call=call: done.append(result(call()))) for call in calls]
    time.sleep(0.05)
    assert done == []
    two.executor.switch("new")
    for thread in waiting:
        thread.join(WAIT)
    assert sorted(done) == [201, 203, 205, 207, 209]
    assert not any(each.done() for each in pending)
    assert sorted(two.new.seen) == [100, 101, 102, 103, 104]


@pytest.mark.parametrize("limit", ["timeout", "deadline"])
def test_what_was_waited_for_the_old_plan_is_not_waited_again_for_the_new_one(
    two: TwoPlans, limit: str
) -> None:
    two.new.open.clear()
    for value in range(two.executor.depth):
        two.executor.submit(x=vector(value))
    errors: list[type[Exception]] = []

    def wait() -> None:
        try:
            if limit == "timeout":
                two.executor.submit(x=vector(50), timeout=0.3).result(WAIT)
            else:
                two.executor.submit(x=vector(50), deadline=0.3).result(WAIT)
        except RunError as error:
            errors.append(type(error))

    waiting = [started(wait) for _ in range(12)]
    time.sleep(0.05)
    two.executor.switch("new")
    room = two.executor.depth
    assert eventually(lambda: len(errors) >= 12 - room)
    two.new.open.set()
    for thread in waiting:
        thread.join(WAIT)
    assert set(errors) == {FullError if limit == "timeout" else DeadlineError}
    assert len(two.new.seen) < 12  # a deadline may pass between room and first step


# -------------------------------------------------------------------------------- ways to run


class Switching:
    """Switches between variants every so often, in a thread of its own, until left."""

    def __init__(self, executor: Executor, *names: str, pause: float = 0.002) -> None:
        self._executor, self._names, self._pause = executor, names, pause
        self._over = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._switch)

    def _switch(self) -> None:
        while not self._over.wait(self._pause):
            self._executor.switch(self._names[self.count % len(self._names)])
            self.count += 1

    def __enter__(self) -> Switching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(WAIT)
        assert not self._thread.is_alive()

    def go_on(self, number: int) -> bool:
        """Whether it has not yet switched so often."""
        assert self._thread.is_alive()
        return self.count < number


def bytes_of(outputs: list[Any]) -> list[bytes]:
    return [out.numpy().tobytes() for out in outputs]


Expected = tuple[list[dict[str, Any]], list[list[bytes]]]


@pytest.fixture(scope="module")
def alike() -> Executable:
    """On devices of one kind, which help each other, and whose outputs have the same bits."""
    return build(placed(1, equal_cpus()))


@pytest.fixture(scope="module")
def expected(alike: Executable) -> Expected:
    """Inputs, and what both variants give for them."""
    inputs = [dict(zip(("in/x", "y"), branchy_inputs(i), strict=True)) for i in range(24)]
    with Executor(alike) as executor:
        outputs = [bytes_of(executor.run(each)) for each in inputs]
        executor.switch(SINGLE)
        assert [bytes_of(executor.run(each)) for each in inputs] == outputs
    return inputs, outputs


def test_map_is_in_order_and_bit_for_bit_across_many_switches(
    alike: Executable, expected: Expected
) -> None:
    inputs, outputs = expected
    with Executor(alike) as executor, Switching(executor, SINGLE, PARTITION) as switching:
        while switching.go_on(8):
            assert [bytes_of(each) for each in executor.map(inputs)] == outputs


def test_coroutines_run_across_many_switches(alike: Executable, expected: Expected) -> None:
    inputs, outputs = expected

    async def work(executor: Executor, switching: Switching) -> None:
        while switching.go_on(5):
            assert [bytes_of(each) async for each in executor.amap(inputs)] == outputs
            together = await asyncio.gather(*(executor.run_async(each) for each in inputs))
            assert [bytes_of(each) for each in together] == outputs

    with Executor(alike) as executor, Switching(executor, SINGLE, PARTITION) as switching:
        asyncio.run(work(executor, switching))


def test_threads_that_run_submit_map_and_cancel_lose_nothing(
    alike: Executable, expected: Expected
) -> None:
    inputs, outputs = expected

    def use(number: int) -> None:
        rng = random.Random(number)
        while switching.go_on(6):
            first = rng.randrange(len(inputs) - 4)
            some, right = inputs[first : first + 4], outputs[first : first + 4]
            way = rng.randrange(4)
            if way == 0:
                assert [bytes_of(executor.run(each)) for each in some] == right
            elif way == 1:
                assert [bytes_of(each) for each in executor.map(some)] == right
            else:
                pending = [executor.submit(each) for each in some]
                given_up = [way == 3 and rng.random() < 0.5 and p.cancel() for p in pending]
                for each, is_gone, want in zip(pending, given_up, right, strict=True):
                    if is_gone:
                        with pytest.raises(CancelledError):
                            each.result(WAIT)
                    else:
                        assert bytes_of(each.result(WAIT)) == want

    with Executor(alike) as executor, Switching(executor, SINGLE, PARTITION) as switching:
        in_threads(8, use)


def test_who_maps_may_switch_between_two_outputs(alike: Executable, expected: Expected) -> None:
    inputs, outputs = expected
    got = []
    with Executor(alike) as executor:
        for number, each in enumerate(executor.map(inputs)):
            got.append(bytes_of(each))
            executor.switch(SINGLE if number % 2 else PARTITION)
        assert executor.variant == SINGLE
    assert got == outputs


def test_a_callback_may_switch(two: TwoPlans) -> None:
    over = threading.Event()

    def switch(_: Any) -> None:
        two.executor.switch("new")
        two.executor.switch("old")  # the one before has nothing in flight, or ends without us
        over.set()

    two.executor.submit(x=vector(1)).add_done_callback(switch)
    two.executor.submit(x=vector(2))
    two.old.open.set()
    assert over.wait(WAIT)
    assert result(two.executor.run(x=vector(3))) == 7
    assert two.seen == [1, 2, 3]


def test_threads_may_switch_at_once(two: TwoPlans) -> None:
    two.old.open.set()

    def use(number: int) -> None:
        for i in range(20):
            if number < 3:
                two.executor.switch("new" if (number + i) % 2 else "old")
            else:
                assert result(two.executor.run(x=vector(i))) == 2 * i + 1

    in_threads(5, use)
    gate = two.old if two.executor.variant == "old" else two.new
    before = len(gate.seen)
    assert len(two.executor.plan.workers) == (2 if two.executor.variant == "old" else 1)
    two.executor.run(x=vector(7))
    assert gate.seen[before:] == [7]


# -------------------------------------------------------------------------------- what is kept


def test_settings_go_over(executable: Executable) -> None:
    with Executor(executable) as executor:
        executor.check_numerics = executor.profile_kernels = True
        executor.watch(4)
        executor.switch(SINGLE)
        executor.run(executor.random_inputs())
        assert all(time.seconds > 0 for time in executor.kernel_times())
        watched: list[int] = []

        def has_come() -> bool:  # a moment behind the outputs
            watched.append(len(executor.take_watched()))
            return any(watched)

        assert eventually(has_come)
        executor.check_numerics = executor.profile_kernels = False
        executor.watch(0)
        executor.switch(PARTITION)
        executor.run(executor.random_inputs())
        assert len(executor.take_watched()) == 0


def test_the_schedule_is_that_of_the_plan(executable: Executable) -> None:
    with Executor(executable) as executor:
        before = executor.schedule
        executor.switch(SINGLE)
        assert executor.schedule is before
        other = executor.schedule.__class__(*executor.schedule.__dict__.values())
        executor.switch(executable.variants[SINGLE], other)
        assert executor.schedule is other
        assert executor.variant == OTHER


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 3}, "its inputs are not those"),
        ({"name": "z"}, "its inputs are not those"),
        ({"output": "w"}, "its outputs are not those"),
    ],
)
def test_a_plan_of_another_model_is_refused_and_the_old_one_goes_on(
    two: TwoPlans, change: dict[str, Any], words: str
) -> None:
    two.old.open.set()
    builder = PlanBuilder(1)
    slot = builder.input(change.get("name", "x"), change.get("size", 2))
    builder.output(builder.call([slot])[0], change.get("output", "y"))
    threads = threading.active_count()
    with pytest.raises(UsageError, match=words):
        two.executor.switch(built(builder))
    assert threading.active_count() <= threads  # others' may have ended
    assert two.executor.variant == "old"
    assert result(two.executor.run(x=vector(1))) == 3


def test_a_batch_of_another_size_is_refused(two: TwoPlans) -> None:
    builder = gated_plan(Gate(), 1)
    builder.plan["batch"] = 2
    with pytest.raises(UsageError, match="batches of 1, as the one that runs; got 2"):
        two.executor.switch(built(builder))


def test_an_unknown_variant_is_refused_by_a_near_name(two: TwoPlans) -> None:
    with pytest.raises(UsageError, match=r"no variant 'now'.*'new'"):
        two.executor.switch("now")


def test_inputs_are_staged_for_the_plan_that_runs_them(executable: Executable) -> None:
    """A plan that may give an input back gets none that is used again."""
    builder = PlanBuilder(1)
    builder.output(builder.call([builder.input()], function=lambda x: x)[0])
    keeps = PlanBuilder(1)
    copied = keeps.copy(keeps.input())
    keeps.output(copied)
    with switched(executable, {"copies": keeps, "gives back": builder}) as executor:
        for _ in range(3):
            executor.run(x=vector(1))
        executor.switch("gives back")
        first = executor.run(x=vector(1))
        executor.run(x=vector(2))
        np.testing.assert_array_equal(first[0].numpy(), vector(1))
    assert opened().open.is_set()
