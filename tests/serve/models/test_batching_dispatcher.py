"""Queries that wait together are computed together: the same bits, and each fails alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.serve.batch_models import ROWS, FixedTimes, build_for, element, lookup
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import DeadlineError, RunError
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import RefusedError
from tvm_hetero.serve.models.batching_dispatcher import BatchingDispatcher
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.profile import ModelTimes
from tvm_hetero.serve.server import policy_of

# What is said to be measured: so long that what the test itself takes does not count beside it.
ALONE, FOUR = FixedTimes(1000.0, 600.0), FixedTimes(1200.0, 700.0)


@pytest.fixture(scope="module")
def artifacts() -> tuple[Executable, Executable]:
    return build_for(1, lookup()), build_for(4, lookup())


class Served:
    """A model with a plan for four, and the pool that it is served on."""

    def __init__(self, one: Executable, batch: Executable) -> None:
        self.loop = asyncio.new_event_loop()
        cores = sorted({c for d in one.problem.platform.devices for c in d.cores})
        self.model = TensorModel("rows", "1", one, batches=[TensorModel("rows", "1", batch)])
        self.pool = BatchingDispatcher(cores, policy_of("accordion"), 64)
        self.pool.add(self.model)
        self.measured = {key: self.pool.profile.times(key) for key in ("rows/1", "rows/1*4")}

    def run(self, work: Awaitable[Any]) -> Any:
        """What a coroutine gives, a moment after it has."""

        async def whole() -> Any:
            found = await work
            await asyncio.sleep(0)  # tasks that have ended are taken note of
            await asyncio.sleep(0)
            return found

        return self.loop.run_until_complete(whole())

    async def ask(self, row: int, **given: Any) -> InferenceAnswer:
        """Three rows from this one on."""
        numbers = [row, (row + 1) % ROWS, 0]
        return await self.pool.compute(self.model, InferenceQuery(element(numbers), **given))

    def expected(self, row: int) -> np.ndarray[Any, Any]:
        """What is right, by the model's own plan."""
        found = self.model.executor.run(element([row, (row + 1) % ROWS, 0]))
        return np.asarray(found[0].numpy())

    def is_idle(self) -> bool:
        """Whether every core is free, nobody waits, and nothing is kept of anyone."""
        pool = self.pool
        return pool.free == 2 and not pool.waiting and not pool._groups and not pool._entries


@pytest.fixture(scope="module")
def only(artifacts: tuple[Executable, Executable]) -> Iterator[Served]:
    found = Served(*artifacts)
    yield found
    found.model.close()
    found.loop.close()


@pytest.fixture
def served(only: Served) -> Iterator[Callable[..., Served]]:
    """The pool, once it has been told what plans take; it is idle at the end."""

    def tell(four: ModelTimes = FOUR, alone: ModelTimes = ALONE) -> Served:
        only.pool.know("rows/1", alone)
        only.pool.know("rows/1*4", four)
        return only

    yield tell
    assert only.is_idle()


async def crowd(served: Served, count: int, **given: Any) -> list[Any]:
    """So many at once: the first has its turn, the others wait."""
    work = (served.ask(row, **given) for row in range(count))
    return await asyncio.gather(*work, return_exceptions=True)


@pytest.mark.parametrize(
    ("count", "runs"), [(1, [1]), (2, [1, 1]), (4, [1, 3]), (5, [1, 4]), (9, [1, 4, 4])]
)
def test_those_that_wait_are_computed_together_to_the_bits_of_each_alone(served, count, runs):
    pool = served()
    answers = pool.run(crowd(pool, count))
    for row, answer in enumerate(answers):
        np.testing.assert_array_equal(*[*answer.outputs.values(), pool.expected(row)])
    assert sorted(each.together for each in answers if each.executions) == sorted(runs)
    assert sum(each.executions for each in answers) == len(runs)


def test_nobody_is_computed_together_where_that_is_no_gain(served):
    pool = served(FixedTimes(4000.0, 2400.0))  # as long as four alone
    answers = pool.run(crowd(pool, 7))
    assert [each.together for each in answers] == [1] * 7


def test_who_has_no_time_for_a_batch_is_computed_alone(served):
    pool = served(FixedTimes(2000.0, 1200.0))

    async def go() -> tuple[InferenceAnswer, list[InferenceAnswer]]:
        # Two in a row take 1200 s on both cores, one and a batch 1800 s.
        due = time.monotonic() + 1500
        work = [pool.ask(0), pool.ask(1, due=due), *(pool.ask(row) for row in range(2, 6))]
        _, urgent, *others = await asyncio.gather(*work)
        return urgent, others

    urgent, others = pool.run(go())
    assert urgent.together == 1
    assert [each.together for each in others] == [4] * 4


def test_those_of_unlike_priority_are_kept_apart(served):
    pool = served()

    async def go() -> list[Any]:
        kinds = [Priority.HIGH, Priority.LOW] * 5
        work = (pool.ask(row % ROWS, priority=kind) for row, kind in enumerate(kinds))
        return await asyncio.gather(*work)

    answers = pool.run(go())
    assert sum(each.together for each in answers if each.executions) == 10
    assert max(each.together for each in answers) == 4  # the first high one has run alone
    assert sorted(each.together for each in answers[1::2]) == [1, 4, 4, 4, 4]


def test_a_query_that_fails_fails_alone(served):
    pool = served()
    answers = pool.run(_with_a_bad_one(pool))
    assert isinstance(answers[2], RunError) and "99" in str(answers[2])
    for row, answer in enumerate(answers):
        if row != 2:
            np.testing.assert_array_equal(*[*answer.outputs.values(), pool.expected(row)])
            assert answer.together == 1


async def _with_a_bad_one(pool: Served) -> list[Any]:
    bad = InferenceQuery(element([99, 0, 0]))
    work = [pool.ask(row) for row in range(5)]
    work[2].close()
    work[2] = pool.pool.compute(pool.model, bad)
    return await asyncio.gather(*work, return_exceptions=True)


@pytest.mark.parametrize("gone", [[1], [1, 2, 3, 4], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_who_hangs_up_is_missing_and_nobody_else(served, gone, steps):
    pool = served()

    async def go() -> list[Any]:
        work = [asyncio.ensure_future(pool.ask(row)) for row in range(5)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for row in gone:
            work[row].cancel()
        return await asyncio.gather(*work, return_exceptions=True)

    answers = pool.run(go())
    for row, answer in enumerate(answers):
        if row in gone:
            assert isinstance(answer, asyncio.CancelledError)
        else:
            np.testing.assert_array_equal(*[*answer.outputs.values(), pool.expected(row)])
    assert sum(each.executions for each in answers if isinstance(each, InferenceAnswer)) <= 3


def test_a_deadline_ends_one_and_its_group_goes_on(served):
    pool = served(FixedTimes(1e-4, 1e-4), FixedTimes(2e-4, 2e-4))

    async def go() -> list[Any]:
        work = [asyncio.ensure_future(pool.ask(row)) for row in range(4)]
        hurried = asyncio.ensure_future(pool.ask(4, deadline=time.monotonic() + 2e-3))
        await asyncio.sleep(0)
        time.sleep(0.01)  # the loop is late: the deadline has passed before anything has run
        return await asyncio.gather(*work, hurried, return_exceptions=True)

    *answers, late = pool.run(go())
    assert isinstance(late, DeadlineError | RefusedError)
    assert [each.together >= 1 for each in answers] == [True] * 4


def test_who_comes_too_late_for_those_that_wait_is_told_so(served):
    """Its body took longer than it had: it was due before one that waits had come."""
    pool = served()

    async def go() -> list[Any]:
        due = time.monotonic() - 0.01
        work = [pool.ask(0), pool.ask(1), pool.ask(2), pool.ask(3, due=due)]
        return await asyncio.gather(*work, return_exceptions=True)

    *answers, late = pool.run(go())
    assert isinstance(late, RefusedError)
    assert all(isinstance(answer, InferenceAnswer) for answer in answers)


@pytest.fixture
def begun(only: Served, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is computed never ends by itself; when each began."""
    moments: list[float] = []

    async def hang(*_: object) -> None:
        moments.append(time.monotonic())
        await asyncio.sleep(60)

    monkeypatch.setattr(only.pool, "run", hang)
    return moments


def ended_while_computed(begun: list[float], attempt: Callable[[float], BaseException]) -> None:
    """Attempt something until its deadline; again with a later one where it had hardly begun.

    On a busy machine the moment may have passed before anything is computed.
    """
    for seconds in (0.05, 0.5, 5.0, 50.0):
        begun.clear()
        due = time.monotonic() + seconds
        error = attempt(due)
        if begun and due - max(begun) > 0.02:
            break
    assert isinstance(error, DeadlineError)


def test_what_its_deadline_ended_takes_at_least_as_long(served, begun):
    alone = ModelTimes([Pace(1e-3, 1e-3)] * 2)

    def attempt(due: float) -> BaseException:
        pool = served(alone=alone)
        with pytest.raises((DeadlineError, RefusedError)) as error:
            pool.run(pool.ask(0, deadline=due))
        pool.run(asyncio.sleep(0.01))  # its group ends
        return error.value

    ended_while_computed(begun, attempt)
    assert max(pace.seconds(1) for pace in alone.paces(1)) > 0.01


def test_who_is_left_of_a_batch_says_nothing_of_what_the_batch_takes(served, begun):
    alone, four = (ModelTimes([Pace(seconds, seconds)] * 2) for seconds in (1e-3, 1.1e-3))

    async def go(pool: Served, due: float) -> list[BaseException]:
        work = [asyncio.ensure_future(pool.ask(row, deadline=due)) for row in range(5)]
        await asyncio.sleep(0)
        left = None
        for group in pool.pool._groups.get("rows/1", ()):
            if group.plan.size == 4:
                (numbers,) = group.members[-1].query.inputs.values()
                left = work[int(numbers.flat[0])]
        for each in work:
            if each is not left:
                each.cancel()
        begun.clear()  # the first one has
        return await asyncio.gather(*[left] if left else work, return_exceptions=True)

    def attempt(due: float) -> BaseException:
        pool = served(four, alone)
        error, *_ = pool.run(go(pool, due))
        pool.run(asyncio.sleep(0.01))  # its group ends
        return error

    ended_while_computed(begun, attempt)
    assert max(pace.seconds(1) for pace in four.paces(1)) == 1.1e-3
    assert max(pace.seconds(1) for pace in alone.paces(1)) > 0.01


def test_who_can_join_is_not_refused_at_the_door(served):
    pool = served()

    async def go() -> None:
        now = time.monotonic()
        first = [asyncio.ensure_future(pool.ask(row)) for row in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [len(each.members) for each in pool.pool._groups["rows/1"]] == [1, 2]
        # Behind one of 600 s and a batch of 700 s there is no time for another until 1350 s.
        due = now + 1350
        pool.pool.check_door(pool.model, due, Priority.LOW)
        joined = await pool.ask(3, due=due)
        assert joined.together == 3
        await asyncio.gather(*first)

    pool.run(go())


def test_what_waits_counts_by_its_queries(served, monkeypatch):
    pool = served()
    monkeypatch.setattr(pool.pool, "_most", 4)
    answers = pool.run(crowd(pool, 8))
    refused = [each for each in answers if isinstance(each, RefusedError)]
    assert [each.reason for each in refused] == ["queue_full"] * 3  # one runs, four wait


def test_what_plans_take_is_measured_when_a_model_comes_and_forgotten_when_it_goes(only):
    for times in only.measured.values():
        assert {(1, 1), (1, 2)} <= set(times._single._values)
    only.pool.remove("rows", "1")
    assert only.pool.profile.models == ()
    assert only.is_idle()
