"""Profiles and streams that the tests share, and a replay that watches the rules of a pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import strategies as st

from tvm_hetero.serve.scheduling.calendar import PlaceCalendar
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.outcome import QueryOutcome
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile
from tvm_hetero.serve.scheduling.query import (
    Priority,
    Query,
    RefuseQuery,
    ResizeQuery,
    ShareDecision,
    StartQuery,
)
from tvm_hetero.serve.scheduling.replay import Deviation, replay_queries
from tvm_hetero.serve.scheduling.scheduler import Scheduler


def profile(places: int = 4, **seconds: float) -> ServiceProfile:
    """Models whose items take so long on one place, and come at 1/k of that on k places."""
    given = seconds or {"a": 1.0, "b": 0.1}
    return ServiceProfile(
        {
            name: ModelTimes([Pace(t, t / k) for k in range(1, places + 1)])
            for name, t in given.items()
        }
    )


@st.composite
def query_streams(
    draw: st.DrawFn, *, models: Sequence[str] = ("a", "b"), deadlines: bool = True
) -> list[Query]:
    """Up to 14 queries; with `deadlines`, most of them have one."""
    found, now = list[Query](), 0.0
    for number in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.7, 2.0]))
        model = draw(st.sampled_from(list(models)))
        items = draw(st.sampled_from([1, 2, 3, 5, 8]))
        factor = draw(st.sampled_from([1.0, 1.3, 2.0, 4.0, 9.0, math.inf]))
        deadline = now + factor * (1.0 if model == "a" else 0.1) * items if deadlines else math.inf
        priority = draw(st.sampled_from(list(Priority)))
        found.append(Query(number, model, items, now, deadline, priority))
    return found


def count_holds(act: Callable[[], object]) -> int:
    """How often calendars are written to by what a policy is asked."""
    count, take = 0, PlaceCalendar.take

    def counted(*args: object) -> None:
        nonlocal count
        count += 1
        take(*args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PlaceCalendar, "take", counted)
        act()
    return count


def replay_watched(
    scheduler: Scheduler, queries: Sequence[Query], deviation: Deviation | None = None
) -> list[QueryOutcome]:
    """Replay; after every event places are free or owned, each once, by who runs; somebody does
    if somebody waits (by which `WaitingQueries._shares` knows that there are others)."""
    decide, giving = scheduler._decide, set[int]()

    def watched(now: float) -> list[ShareDecision]:
        decisions = decide(now)
        owners = scheduler.pool.owners
        for number, running in scheduler.running.items():
            own = {place for place, owner in enumerate(owners) if owner == number}
            assert own == {*running.places, *running.given_up}
            assert len(own) == len(running.places) + len(running.given_up)
            # What is given up is on its way: whoever runs it knows of it, and its time is to come.
            resized = any(isinstance(d, ResizeQuery) and d.query == number for d in decisions)
            assert not running.given_up or resized or number in giving
        giving.update(n for n, each in scheduler.running.items() if each.given_up)
        assert {o for o in owners if o is not None} == set(scheduler.running)
        assert scheduler.pool.free == owners.count(None)
        assert scheduler.running or not scheduler.waiting
        return decisions

    scheduler._decide = watched  # type: ignore[method-assign]
    return replay_queries(scheduler, queries, deviation=deviation)


def starts_of(decisions: Sequence[ShareDecision]) -> dict[int, int]:
    """Which queries start, on how many places."""
    return {d.query: len(d.places) for d in decisions if isinstance(d, StartQuery)}


def refusals_of(decisions: Sequence[ShareDecision]) -> list[RefuseQuery]:
    """What is refused."""
    return [d for d in decisions if isinstance(d, RefuseQuery)]
