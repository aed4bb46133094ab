"""Queries on shares of two cores: the same bits on every share, and no core is ever lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.models import dense, equal_cpus, lowered, random_schedule, unit_problem
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import DeadlineError, RunError, UsageError
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import RefusedError
from tvm_hetero.serve.models.pool_dispatcher import PoolDispatcher
from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES

WIDTHS = (64, 512, 512, 512, 10)


@pytest.fixture(scope="module")
def layers() -> Executable:
    """Some dense layers."""
    return divisible_layers()


def divisible_layers() -> Executable:
    """Some dense layers, on two equal cores, that can be divided."""
    mod = lowered(dense(*WIDTHS), equal_cpus())
    problem = unit_problem(mod, equal_cpus())
    return build(annotate_devices(mod, problem, random_schedule(problem, 1)), adaptable=True)


class Served:
    """A model and the pool that it is served on."""

    def __init__(self, executable: Executable, policy: str, most_waiting: int = 64) -> None:
        cores = sorted({c for d in executable.problem.platform.devices for c in d.cores})
        self.model = TensorModel("layers", "1", executable)
        self.pool = PoolDispatcher(cores, SHARE_POLICIES[policy], most_waiting)
        self.pool.add(self.model)

    async def ask(self, items: int = 1, **given: Any) -> InferenceAnswer:
        """The answer to a query of seeded inputs."""
        return await self.pool.compute(self.model, query(items, **given))

    def is_idle(self) -> bool:
        """Whether every core is free and nobody waits."""
        return not self.pool.running and not self.pool.waiting and self.pool.free == 2


def inputs(items: int) -> np.ndarray[Any, Any]:
    """Seeded elements."""
    return np.random.default_rng(items).standard_normal((items, WIDTHS[0])).astype("float32")


def query(items: int, **given: Any) -> InferenceQuery:
    """A query of seeded elements."""
    return InferenceQuery({"input0": inputs(items)}, items=items, **given)


@pytest.fixture
def served(layers: Executable) -> Iterator[Callable[..., Served]]:
    """Makes pools that are closed at the end."""
    made: list[Served] = []

    def make(policy: str = "accordion", **given: Any) -> Served:
        made.append(Served(layers, policy, **given))
        return made[-1]

    yield make
    for each in made:
        each.model.close()


def expected(served: Served, items: int) -> np.ndarray[Any, Any]:
    """Element by element, by the artifact's own plan."""
    rows = [served.model.executor.run(input0=row[None])[0].numpy() for row in inputs(items)]
    return np.concatenate(rows)


def run(work: Awaitable[Any]) -> Any:
    """What a coroutine gives."""

    async def whole() -> Any:
        return await work

    return asyncio.run(whole())


@pytest.mark.parametrize("policy", sorted(SHARE_POLICIES))
@pytest.mark.parametrize("items", [1, 7])
def test_every_policy_gives_the_bits_of_the_artifacts_own_plan(served, policy, items):
    pool = served(policy)
    answers = run(_side_by_side(pool, [items] * 3))
    for answer in answers:
        np.testing.assert_array_equal(*[*answer.outputs.values(), expected(pool, items)])
    assert pool.is_idle()


async def _side_by_side(pool: Served, items: list[int]) -> list[InferenceAnswer]:
    return await asyncio.gather(*(pool.ask(each) for each in items))


def test_a_running_query_gives_a_core_to_one_that_is_urgent_and_loses_nothing(served):
    pool = served()

    async def both() -> tuple[InferenceAnswer, float, float]:
        long = asyncio.ensure_future(pool.ask(2000))
        await asyncio.sleep(0.05)  # it has both cores by now
        shares = {len(each.places) for each in pool.pool.running.values()}
        assert shares == {2}
        urgent = await pool.ask(due=time.monotonic() + 10.0, priority=Priority.HIGH)
        assert urgent.outputs
        early = time.monotonic()
        answer = await long
        return answer, early, time.monotonic()

    answer, early, late = run(both())
    assert early < late
    np.testing.assert_array_equal(*[*answer.outputs.values(), expected(pool, 2000)])
    assert pool.is_idle()


def test_a_deadline_ends_it_wherever_it_stands(served):
    pool = served()
    with pytest.raises((DeadlineError, RefusedError)):
        run(pool.ask(4000, deadline=time.monotonic() + 0.02))
    assert pool.is_idle()


def test_what_its_deadline_ended_takes_at_least_as_long(served):
    pool = served("one-stage")
    times, (key,) = pool.pool.profile.times, pool.pool.profile.models
    for _ in range(5):  # as if it had been measured to be quick
        times(key).add(0, 1, 1e-9)
        times(key).add(4000, 1, 1e-5)
    for seconds in (0.02, 0.1, 0.5):
        with pytest.raises((DeadlineError, RefusedError)) as ended:
            run(pool.ask(4000, deadline=time.monotonic() + seconds))
        if ended.type is DeadlineError:
            break  # else it had passed before anything was computed, on a busy machine
    assert ended.type is DeadlineError
    assert pool.pool.profile.latency(key, 4000, 1) > 1e-4


def test_who_hangs_up_leaves_no_core_in_use(served):
    pool = served()

    async def hang_up() -> None:
        work = asyncio.ensure_future(pool.ask(4000))
        await asyncio.sleep(0.02)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    run(hang_up())
    assert pool.is_idle()
    assert run(pool.ask()).outputs


def test_what_cannot_meet_its_objective_is_refused_with_the_time_to_come_back(served):
    pool = served()
    run(pool.ask(50))  # what it takes is known now

    async def late() -> RefusedError:
        long = asyncio.ensure_future(pool.ask(3000, priority=Priority.HIGH))
        await asyncio.sleep(0.02)
        with pytest.raises(RefusedError) as refused:
            await pool.ask(3000, due=time.monotonic() + 0.01)
        long.cancel()
        return refused.value

    assert run(late()).reason == "deadline"


def test_no_more_wait_than_may(served):
    pool = served("whole-machine", most_waiting=2)

    async def crowd() -> list[Any]:
        return await asyncio.gather(*(pool.ask(200) for _ in range(5)), return_exceptions=True)

    answers = run(crowd())
    refused = [each for each in answers if isinstance(each, RefusedError)]
    assert {each.reason for each in refused} == {"queue_full"}
    assert len(refused) == 2  # one runs, two wait
    assert pool.is_idle()


@pytest.mark.parametrize("policy", SHARE_POLICIES)
def test_those_that_wait_are_counted_as_the_policy_sees_them(
    served: Callable[[str], Served], policy: str
) -> None:
    async def run() -> None:
        pool, rng, entries = served(policy).pool, random.Random(7), []
        for _ in range(60):
            if entries and rng.random() < 0.45:
                pool.leave(entries.pop(rng.randrange(len(entries))))
            else:
                due = time.monotonic() + rng.choice([0.001, 1.0, float("inf")])
                entries.append(pool.enter("layers/1", "layers", 1, Priority.LOW, 0.0, due))
            assert pool.count_waiting() == pool.count_waiting("layers") == len(pool.waiting)
        for entry in entries:
            if entry.granted.done() and not entry.granted.cancelled():
                entry.granted.exception()  # some were refused
            pool.leave(entry)
        assert pool.count_waiting() == 0

    asyncio.run(run())


def test_a_share_that_cannot_be_made_fails_its_query_alone(served, monkeypatch):
    pool = served()
    make = pool.model.instances.make

    def fail(cores: frozenset[int], shape: str) -> Any:
        raise RunError("no memory for another executor")

    monkeypatch.setattr(pool.model.instances, "find", lambda *_: None)
    monkeypatch.setattr(pool.model.instances, "make", fail)
    with pytest.raises(RunError, match="no memory"):
        run(pool.ask(3))
    assert pool.is_idle()
    monkeypatch.setattr(pool.model.instances, "make", make)
    monkeypatch.undo()
    assert run(pool.ask(3)).outputs


def test_a_model_that_goes_while_a_turn_of_it_waits_disturbs_no_other(served):
    pool = served()
    gate = pool.pool.gate("words", "1", 1e-3)

    async def turn() -> None:
        async with gate.turn():
            pass

    async def go() -> None:
        long = asyncio.ensure_future(pool.ask(200))
        waiting = asyncio.ensure_future(turn())
        await asyncio.sleep(0)
        assert pool.pool.waiting
        pool.pool.remove("words", "1")
        assert (await pool.ask(2)).outputs  # was refused: no model 'words/1'
        await long
        await waiting

    run(go())
    assert pool.is_idle()
    assert pool.pool.profile.models == ("layers/1",)


def test_a_query_of_a_model_that_is_gone_leaves_nothing_behind(served):
    pool = served()
    pool.pool.remove("layers", "1")
    with pytest.raises(UsageError, match="no model"):
        run(pool.ask())
    assert not pool.pool._entries


@pytest.mark.parametrize("items", [1, 40])
def test_slow_samples_do_not_refuse_for_ever(served, items):
    pool = served()
    times = pool.pool.profile.times("layers/1")
    for share in (1, 2):
        for _ in range(20):  # as if the machine had stood still
            times.add(items, share, 5.0)

    async def ask() -> int:
        refused = 0
        while refused < 200:
            due = time.monotonic() + 1.0
            try:
                pool.pool.check_door(pool.model, due, Priority.LOW)
                await pool.ask(items, due=due)
            except RefusedError:
                refused += 1
            else:
                return refused
        return refused

    assert 0 < run(ask()) < 200


@pytest.mark.parametrize("items", [1, 3])
def test_what_is_measured_is_what_shares_are_chosen_by(items):
    times = ServedTimes([Pace(1.0, 1.0), Pace(0.5, 0.5)], [Pace(1.0, 1.0), Pace(1.0, 0.5)])
    assert len(times.useful_shares(items)) == 2
    for _ in range(6):
        times.add(items, 2, 9.0)
    assert times.useful_shares(items)[0][1] > 1.0 * items


def test_a_queue_that_one_model_has_filled_is_open_to_another(served, layers):
    pool = served(most_waiting=4)
    other = TensorModel("other", "1", layers)
    pool.pool.add(other)

    async def crowd() -> None:
        filling = [asyncio.ensure_future(pool.ask(100)) for _ in range(6)]
        await asyncio.sleep(0)
        assert len(pool.pool.waiting) == 4
        with pytest.raises(RefusedError, match="the most that may"):
            await pool.ask(1)
        assert (await pool.pool.compute(other, query(1))).outputs
        await asyncio.gather(*filling, return_exceptions=True)

    run(crowd())
    other.close()
    assert pool.is_idle()


@pytest.mark.parametrize("event", ["arrive", "ended", "item_ended", "withdraw"])
def test_a_policy_that_fails_gives_up_who_waits_and_no_core(served, monkeypatch, event):
    pool = served("whole-machine")

    def fail(*_: object) -> None:
        raise KeyError("a fault of the policy")

    async def crowd() -> list[Any]:
        asked = [asyncio.ensure_future(pool.ask(100)) for _ in range(3)]
        await asyncio.sleep(0)
        monkeypatch.setattr(pool.pool._scheduler, event, fail)
        if event == "withdraw":
            asked[1].cancel()
        more = [asyncio.ensure_future(pool.ask(5))]
        return await asyncio.wait_for(asyncio.gather(*asked, *more, return_exceptions=True), 60)

    answers = run(crowd())
    assert {type(each) for each in answers} <= {KeyError, RunError, InferenceAnswer}
    assert KeyError in {type(each) for each in answers}
    assert run(pool.ask(2)).outputs
    assert pool.is_idle() and not pool.pool._entries


@pytest.mark.parametrize("writing", [0.0, 60.0])
def test_what_could_not_be_written_in_time_is_not_computed(
    served: Callable[..., Served], writing: float
) -> None:
    at = served()

    async def ask() -> None:
        await at.ask(1, deadline=time.monotonic() + 30, writing=writing)

    if writing:
        with pytest.raises(RefusedError, match="deadline"):
            asyncio.run(ask())
    else:
        asyncio.run(ask())
    assert at.is_idle()
