"""Queries of tiny models that are computed where they come in, without a task to wait in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.serve.models.test_pool_dispatcher import Served, divisible_layers, expected, query
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import RefusedError
from tvm_hetero.serve.models import pool_dispatcher
from tvm_hetero.serve.models.dispatcher import Observed
from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.models.statistics import EndedQuery, ModelStatistics
from tvm_hetero.serve.scheduling.course import Pace


@pytest.fixture(scope="module")
def executable() -> Executable:
    """Predicted to take milliseconds."""
    return divisible_layers()


@pytest.fixture
def tiny(executable: Executable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A model that counts as tiny, of which one query was computed."""
    monkeypatch.setattr(pool_dispatcher, "_AT_ONCE", 60.0)
    monkeypatch.setattr(pool_dispatcher, "_NOT_AT_ONCE", 60.0)
    served = Served(executable, "accordion")
    assert at_once(served, query(1)) is None  # nobody knows yet that it is one
    asyncio.run(served.ask())
    yield served
    served.model.close()


def at_once(served: Served, asked: InferenceQuery) -> InferenceAnswer | None:
    """The answer of the pool, if it has one at once."""
    return in_loop(lambda: served.pool.compute_at_once(served.model, asked))


def in_loop(call: Callable[[], Any]) -> Any:
    """What it gives in the thread of an event loop."""

    async def main() -> Any:
        return call()

    return asyncio.run(main())


def test_the_answer_has_the_same_bits_and_the_cores_are_free_again(tiny):
    for _ in range(3):
        answer = at_once(tiny, query(1))
        np.testing.assert_array_equal(*[*answer.outputs.values(), expected(tiny, 1)])
        assert answer.executions == 1 and answer.computed > 0
        assert tiny.is_idle()


def test_several_elements_and_what_others_wait_beside_take_their_turn(tiny):
    assert at_once(tiny, query(2)) is None

    async def beside() -> None:
        long = asyncio.ensure_future(tiny.ask(500))
        await asyncio.sleep(0)
        assert tiny.pool.running
        assert tiny.pool.compute_at_once(tiny.model, query(1)) is None
        await long

    asyncio.run(beside())
    assert tiny.is_idle() and at_once(tiny, query(1)) is not None


def test_what_turns_out_to_take_long_waits_in_a_task(tiny, monkeypatch):
    monkeypatch.setattr(pool_dispatcher, "_NOT_AT_ONCE", 0.0)
    assert at_once(tiny, query(1)) is None
    assert tiny.is_idle() and not tiny.pool._entries
    assert asyncio.run(tiny.ask()).outputs
    monkeypatch.undo()
    assert at_once(tiny, query(1)) is None  # the last one was not quick


def test_a_refusal_is_the_one_of_a_query_that_waits_and_is_counted_once(tiny):
    slow = [Pace(30.0, 30.0)] * 2
    tiny.pool.know("layers/1", ServedTimes(slow, slow))
    ended: list[EndedQuery] = []
    observed, statistics = Observed(tiny.pool), ModelStatistics()
    observed.observers.append(ended.append)

    def ask() -> None:
        asked = query(1, deadline=time.monotonic() + 10, priority=Priority.HIGH)
        observed.compute_at_once(tiny.model, statistics, asked, None)

    with pytest.raises(RefusedError, match="deadline"):
        in_loop(ask)
    assert [(each.outcome, each.reason) for each in ended] == [("refused", "deadline")]
    assert statistics.pending == 0 and statistics.fail.count == 1
    assert tiny.is_idle()


def test_what_is_computed_at_once_is_counted_as_any_other(tiny):
    ended: list[EndedQuery] = []
    observed, statistics = Observed(tiny.pool), ModelStatistics()
    observed.observers.append(ended.append)

    async def both() -> None:
        assert observed.compute_at_once(tiny.model, statistics, query(1), 5.0) is not None
        await observed.compute(tiny.model, statistics, query(1), 5.0)
        assert observed.compute_at_once(tiny.model, statistics, query(2), 5.0) is None

    asyncio.run(both())
    first, second = ended
    for each in ended:
        assert (each.outcome, each.items, each.slo, each.executions) == ("success", 1, 5.0, 1)
        assert each.whole >= each.computed > 0
    assert (first.model, first.version) == (second.model, second.version) == ("layers", "1")
    assert (statistics.success.count, statistics.items, statistics.pending) == (2, 2, 0)
