"""A policy that drives an executor: it is followed, its faults do not reach the stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tests.online.live.models import (
    BIG,
    BLOCKS,
    DIVIDED,
    INPUTS,
    LITTLE,
    TURNED,
    WAIT,
    adaptable,
    as_bytes,
    endless,
    outputs_of,
    streaming,
)
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.live.adapter import AdaptationEvent, Adapter, make_setting
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Phase, Policy, Proposal, Setting, Turn

Script = list[Configuration]


def scripted(*script: Configuration, phase: Phase = "try") -> Policy:
    """Proposes one configuration after the other, and stays with the last one."""

    def begin(setting: Setting) -> Turn:
        return 0, Proposal(script[0], 3, phase, "the first one")

    def step(state: int, observation: Observation) -> Turn:
        assert observation.configuration == script[min(state, len(script) - 1)]
        number = min(state + 1, len(script) - 1)
        return state + 1, Proposal(script[number], 3, phase, f"number {number}")

    return Policy("scripted", begin, step)


class Driven:
    """An executor that a policy drives, and the events so far."""

    def __init__(self, executor: Executor, policy: Policy) -> None:
        self.executor = executor
        self.events: list[AdaptationEvent] = []
        self.told = threading.Condition()
        self.pipeline = LivePipeline(executor, adaptable())
        self.adapter = Adapter(self.pipeline, policy, make_setting(self.pipeline), self.tell)

    def tell(self, event: AdaptationEvent) -> None:
        with self.told:
            self.events.append(event)
            self.told.notify_all()

    def wait(self, count: int) -> list[AdaptationEvent]:
        """Until so many events were told, or the policy gave up."""
        with self.told:
            done = lambda: len(self.events) >= count or self.adapter.failure is not None  # noqa: E731
            assert self.told.wait_for(done, WAIT)
            return self.events[:count]


@pytest.fixture
def drive() -> Iterator[Callable[[Policy], Driven]]:
    made: list[Driven] = []

    def start(policy: Policy) -> Driven:
        made.append(Driven(Executor(adaptable()), policy))
        return made[-1]

    yield start
    for driven in made:
        driven.adapter.close()
        driven.executor.close()


def test_a_policy_is_followed_and_told_of_what_it_proposed(
    drive: Callable[[Policy], Driven],
) -> None:
    driven = drive(scripted(BIG, DIVIDED, DIVIDED, TURNED, LITTLE))
    with streaming(driven.executor):
        events = driven.wait(5)
    assert driven.adapter.failure is None
    text = [c.text(driven.pipeline.places) for c in (DIVIDED, DIVIDED, TURNED, LITTLE, LITTLE)]
    assert [event.configuration for event in events] == text
    assert [event.switched for event in events] == [True, False, True, True, False]
    assert [event.why for event in events] == [f"number {min(i + 1, 4)}" for i in range(5)]
    assert [len(event.observation.stages) for event in events] == [1, 2, 2, 2, 1]
    assert all(a.at <= b.at for a, b in pairwise(events))
    assert all(event.observation.requests >= 3 for event in events)


def test_every_output_is_bit_for_bit_that_of_a_plan_in_use_and_none_is_lost(
    drive: Callable[[Policy], Driven],
) -> None:
    driven = drive(scripted(BIG, LITTLE, BIG, LITTLE))
    allowed = {outputs_of(BIG), outputs_of(LITTLE)}
    entered: list[int] = []

    def requests() -> Iterator[object]:
        for inputs in endless():
            if len(driven.events) >= 4:
                return
            entered.append(len(entered))
            yield inputs

    ways = [as_bytes(outputs) for outputs in driven.executor.map(requests())]  # type: ignore[arg-type]
    assert driven.adapter.failure is None
    assert len(ways) == len(entered)
    assert set(ways) == allowed
    changes = sum(a != b for a, b in pairwise(ways))
    assert ways[0] == outputs_of(BIG) and ways[-1] == outputs_of(LITTLE) and changes == 3


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Configuration((BLOCKS - 1,), (0,)), "covers 9 blocks"),
        (Configuration((BLOCKS,), (7,)), "names place 7"),
    ],
)
def test_a_proposal_that_cannot_run_ends_the_policy_and_not_the_stream(
    drive: Callable[[Policy], Driven], bad: Configuration, message: str
) -> None:
    driven = drive(scripted(BIG, LITTLE, bad))
    ways = set()
    for outputs in driven.executor.map(endless()):
        ways.add(as_bytes(outputs))
        if driven.adapter.failure is not None:
            break
    assert isinstance(driven.adapter.failure, UsageError)
    assert message in str(driven.adapter.failure)
    assert ways <= {outputs_of(BIG), outputs_of(LITTLE)}
    assert as_bytes(driven.executor.run(INPUTS)) == outputs_of(LITTLE)


def test_a_fault_of_a_policy_or_of_who_is_told_is_a_failure_too(
    drive: Callable[[Policy], Driven],
) -> None:
    def fail(state: object, observation: Observation) -> Turn:
        raise ZeroDivisionError("a bug of the policy")

    begin = scripted(BIG).begin
    for policy, tell in (
        (Policy("faulty", begin, fail), None),
        (scripted(BIG), "a bug of the callback"),
    ):
        driven = drive(policy)
        if tell is not None:
            driven.adapter._tell = _raising(tell)
        for _ in driven.executor.map(endless()):
            if driven.adapter.failure is not None:
                break
        assert isinstance(driven.adapter.failure, ZeroDivisionError)
        assert as_bytes(driven.executor.run(INPUTS)) == outputs_of(BIG)


def _raising(text: str) -> Callable[[AdaptationEvent], None]:
    def tell(event: AdaptationEvent) -> None:
        raise ZeroDivisionError(text)

    return tell


def test_a_policy_that_cannot_begin_leaves_nothing_behind() -> None:
    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable())
        bad = scripted(Configuration((BLOCKS,), (7,)))
        with pytest.raises(UsageError, match="names place 7"):
            Adapter(pipeline, bad, make_setting(pipeline))
    assert "tvm_hetero adapter" not in {thread.name for thread in threading.enumerate()}


def test_it_can_be_closed_in_the_midst_of_a_window_and_the_plan_stays(
    drive: Callable[[Policy], Driven],
) -> None:
    driven = drive(scripted(LITTLE, BIG))
    driven.adapter.close()  # no request has come: its first window would never end
    driven.adapter.close()
    assert driven.adapter.failure is None and driven.events == []
    assert as_bytes(driven.executor.run(INPUTS)) == outputs_of(LITTLE)


def test_it_can_be_closed_by_who_is_told(drive: Callable[[Policy], Driven]) -> None:
    driven = drive(scripted(BIG, LITTLE, DIVIDED))
    told = driven.adapter._tell
    driven.adapter._tell = lambda event: (told(event), driven.adapter.close())[0]
    with streaming(driven.executor):
        driven.wait(1)
        driven.adapter._thread.join(WAIT)
        assert not driven.adapter._thread.is_alive()
    assert len(driven.events) == 1 and driven.adapter.failure is None


def test_a_setting_begins_with_the_best_stages_by_measured_costs() -> None:
    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable())
        setting = make_setting(pipeline, alpha=3, seed=4)
        assert (setting.alpha, setting.seed, setting.blocks) == (3, 4, BLOCKS)
        # Every task takes 1 ms on either place: two stages of about as many tasks.
        tasks = [len(block) for block in pipeline.chain.members]
        first = sum(tasks[: setting.static.ends[0]])
        assert len(setting.static) == 2 and abs(2 * first - sum(tasks)) <= max(tasks)
        assert setting.seconds is not None
        assert setting.weights == tuple(min(row) for row in setting.seconds)
