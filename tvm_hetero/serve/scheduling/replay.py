"""A policy on a stream of queries, replayed: discrete events, deterministic.

What a query really takes is what the profile predicts times `Deviation`: noise by its seed, a
factor for each query, and a slowdown while a window lasts. A policy knows only the prediction, and
what it is told of items that ended. With `learn`, the profile is told, too, as a server would.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.scheduling.course import Course, Pace
from tvm_hetero.serve.scheduling.outcome import QueryOutcome
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import (
    Query,
    RefuseQuery,
    ResizeQuery,
    ShareDecision,
    StartQuery,
    WaitUntil,
)
from tvm_hetero.serve.scheduling.scheduler import Scheduler

# Of things at one time, what ends comes first: its places can be used at once.
_ENDED, _RELEASED, _ARRIVED, _TICKED = range(4)


@dataclass(frozen=True)
class Deviation:
    """How true times differ from predicted ones.

    Attributes
    ----------
    spread : standard deviation of the logarithm of each query's factor.
    slowdown : the factor of whatever ends between `begin` and `end` (s).
    """

    spread: float = 0.0
    seed: int = 0
    slowdown: float = 1.0
    begin: float = math.inf
    end: float = math.inf

    def factor(self, query: int) -> float:
        """The factor of a query."""
        return math.exp(random.Random(f"{self.seed}/{query}").gauss(0.0, self.spread))

    def slow(self, now: float) -> float:
        """The factor of what runs now."""
        return self.slowdown if self.begin <= now < self.end else 1.0


@dataclass
class _LiveQuery:
    """A query as it really runs: the course with its own factor; `item` ends next.

    `version` tells events of before a change from those after it.
    """

    query: Query
    factor: float
    course: Course
    item: int = 0
    version: int = 0


class QueryReplay:
    """The events of one replay; `replay_queries` is what to call."""

    def __init__(
        self, scheduler: Scheduler, truth: ServiceProfile, deviation: Deviation, *, learn: bool
    ) -> None:
        self.scheduler, self._truth, self._deviation = scheduler, truth, deviation
        self.outcomes: dict[int, QueryOutcome] = {}
        self.learn = learn
        self._live: dict[int, _LiveQuery] = {}
        self._events: list[tuple[float, int, int, int]] = []  # time, kind, query, version
        self._queries: dict[int, Query] = {}

    def run(self, queries: Sequence[Query]) -> list[QueryOutcome]:
        """Let all queries come and end."""
        for query in queries:
            self._queries[query.number] = query
            self._push(query.arrival, _ARRIVED, query.number, 0)
        while self._events:
            now, kind, number, version = heapq.heappop(self._events)
            self._obey(self._handle(now, kind, number, version), now)
        lost = [query.number for query in queries if not self.outcomes[query.number].done]
        if lost:
            raise UsageError(f"the policy left queries {lost[:10]} waiting for ever")
        return [self.outcomes[query.number] for query in queries]

    def _push(self, time: float, kind: int, number: int, version: int) -> None:
        heapq.heappush(self._events, (time, kind, number, version))

    def _handle(self, now: float, kind: int, number: int, version: int) -> list[ShareDecision]:
        if kind == _ARRIVED:
            self.outcomes[number] = QueryOutcome(self._queries[number])
            return self.scheduler.arrive(self._queries[number], now)
        if kind == _TICKED:
            return self.scheduler.tick(now)
        live = self._live.get(number)
        if kind == _RELEASED:
            if live is None:
                return []
            self._note_share(number, live.course.share, now)
            return self.scheduler.released(number, now)
        if live is None or live.version != version:
            return []
        return self._end_item(live, now)

    def _end_item(self, live: _LiveQuery, now: float) -> list[ShareDecision]:
        """The next item ends: now, or later if it is slowed down."""
        number, item = live.query.number, live.item
        late = self.scheduler.item_ended(number, item, now)
        live.item += 1
        if live.item < live.query.items:
            self._await_item(live, now)
            return late
        outcome = self.outcomes[number]
        outcome.ended = now
        del self._live[number]
        if self.learn and len(outcome.shares) == 1:
            times = self.scheduler.profile.times(live.query.model)
            times.add(live.query.items, outcome.shares[0][1], now - outcome.started)
        return late + self.scheduler.ended(number, now)

    def _await_item(self, live: _LiveQuery, now: float) -> None:
        """The next item's end, later by what is slow now."""
        slow = self._deviation.slow(now)
        end = live.course.end_of(live.item)
        if slow > 1:
            live.course = live.course.shifted(live.item, end + (slow - 1) * max(0.0, end - now))
        self._push(max(now, live.course.end_of(live.item)), _ENDED, live.query.number, live.version)

    # ------------------------------------------------------------------ decisions

    def _obey(self, decisions: Sequence[ShareDecision], now: float) -> None:
        for decision in decisions:
            if isinstance(decision, StartQuery):
                self._start(decision, now)
            elif isinstance(decision, ResizeQuery):
                self._resize(decision, now)
            elif isinstance(decision, RefuseQuery):
                self.outcomes[decision.query].refusal = decision
            elif isinstance(decision, WaitUntil):
                self._push(max(now, decision.when), _TICKED, -1, 0)

    def _start(self, decision: StartQuery, now: float) -> None:
        query, share = self._queries[decision.query], len(decision.places)
        factor = self._deviation.factor(query.number)
        pace = self._pace(query, share, factor)
        course = Course.begin(query.items, share, pace, now)
        if decision.follows is not None:
            course = Course(
                query.items, share, 0, now - pace.fill + pace.period, now + pace.period, pace.period
            )
        live = self._live[query.number] = _LiveQuery(query, factor, course)
        outcome = self.outcomes[query.number]
        outcome.started = now
        outcome.shares.append((now, share))
        self._await_item(live, now)

    def _resize(self, decision: ResizeQuery, now: float) -> None:
        live, share = self._live[decision.query], len(decision.places)
        pace = self._pace(live.query, share, live.factor)
        switch = self._truth.times(live.query.model).switch
        new = live.course.resized(now, share, pace, switch)
        if share < live.course.share:
            self._push(max(now, new.release), _RELEASED, live.query.number, 0)
        else:
            self._note_share(live.query.number, share, now)
        live.course = new.course
        live.version += 1
        self._await_item(live, now)

    def _pace(self, query: Query, share: int, factor: float) -> Pace:
        fill, period = self._truth.pace(query.model, query.items, share)
        return Pace(fill * factor, period * factor)

    def _note_share(self, number: int, share: int, now: float) -> None:
        self.outcomes[number].shares.append((now, share))


def replay_queries(
    scheduler: Scheduler,
    queries: Sequence[Query],
    *,
    truth: ServiceProfile | None = None,
    deviation: Deviation | None = None,
    learn: bool = False,
) -> list[QueryOutcome]:
    """What becomes of each query under a policy.

    Parameters
    ----------
    scheduler : one that nothing has been asked of yet.
    truth : what queries really take; the scheduler's own profile if not given. With `learn`, give
        one of its own: a profile that learns is no truth.

    Raises
    ------
    UsageError
        If the policy leaves a query waiting when nothing more can happen.
    """
    true = truth or scheduler.profile
    if learn and true is scheduler.profile:
        raise UsageError("a profile that learns from a replay cannot be its truth as well")
    return QueryReplay(scheduler, true, deviation or Deviation(), learn=learn).run(queries)
