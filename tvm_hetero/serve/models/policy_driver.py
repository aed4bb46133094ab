"""A policy, told what happens to queries; what it decides is noted in them.

    enter, leave          a query has come; it has ended, however
    tell_item_ended       one of its elements has ended
    tell_released         cores that it gave up are empty
    (a timer)             the time for which the policy asked has come

A query that was started has `places` and finds its `granted` done; one that was refused finds the
refusal there. All of it is for the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tvm_hetero.errors import RunError
from tvm_hetero.serve.core.query import Priority
from tvm_hetero.serve.core.refusal import DEADLINE, RefusedError
from tvm_hetero.serve.models.policy_guard import PolicyGuard
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile
from tvm_hetero.serve.scheduling.query import (
    Query,
    RefuseQuery,
    ResizeQuery,
    ShareDecision,
    StartQuery,
    WaitUntil,
)
from tvm_hetero.serve.scheduling.scheduler import RunningQuery, Scheduler

_LOG = logging.getLogger("tvm_hetero.serve")
_KEPT = 8192

MakeScheduler = Callable[[ServiceProfile, int], Scheduler]


@dataclass(eq=False)
class SharedQuery:
    """A query of a model of some name between its arrival and its end.

    `places` are the cores on which its next element goes; `begun` is when it was started (s);
    `clients` is how many queries of clients it stands for.
    """

    query: Query
    name: str
    granted: asyncio.Future[None]
    places: tuple[int, ...] = ()
    begun: float = 0.0
    ends: list[float] = field(default_factory=list)  # of its elements, s
    shares: set[int] = field(default_factory=set)  # sizes of shares that it had
    clients: int = 1


class PolicyDriver:
    """A policy, the queries that it knows, and who has which place.

    Attributes
    ----------
    profile : what each model takes on each number of places, as far as is known.
    changes : when the owners of places changed (by `time.monotonic`), and who they were then: the
        last `_KEPT` times.
    """

    def __init__(self, places: int, make_scheduler: MakeScheduler) -> None:
        self.profile = ServiceProfile({}, places=places)
        self._make_scheduler = make_scheduler
        self._made = make_scheduler(self.profile, places)
        self._is_stale = False  # models have come or gone since the policy was made
        self._is_broken = False  # the policy has failed: it knows no longer who has what
        self._asking = PolicyGuard(self._give_up)
        self.changes: deque[tuple[float, tuple[str | None, ...]]] = deque(maxlen=_KEPT)
        self._entries: dict[int, SharedQuery] = {}
        self._queued: dict[int, SharedQuery] = {}  # those of them that wait
        self._going: set[str] = set()  # models that are forgotten with their last query
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    # ------------------------------------------------------------------ what is going on

    @property
    def _scheduler(self) -> Scheduler:
        """The policy. One that divides the cores among models is made anew when these change."""
        is_over = self._is_broken and not self._entries
        if is_over or (self._is_stale and not self._made.running and not self._made.waiting):
            self._is_stale = self._is_broken = False  # first: another model may come meanwhile
            self._made = self._make_scheduler(self.profile, self.profile.places)
        return self._made

    def _give_up(self) -> None:
        """The policy has failed: those who wait are told so; a new one comes when all have gone."""
        _LOG.exception("the policy has failed; queries that wait are given up")
        self._is_broken = True
        for entry in self._entries.values():
            if not entry.granted.done():
                entry.granted.set_exception(RunError("the server's scheduling has failed"))

    @property
    def running(self) -> Mapping[int, RunningQuery]:
        """What runs, by number, as the policy sees it."""
        return self._scheduler.running

    @property
    def waiting(self) -> tuple[Query, ...]:
        """What was taken and has not begun."""
        return self._scheduler.waiting

    def count_waiting(self, name: str | None = None) -> int:
        """How many queries of clients have not begun, of one model or of all."""
        queued = self._queued.values()
        return sum(each.clients for each in queued if name in (None, each.name))

    @property
    def free(self) -> int:
        """Cores that nobody has."""
        return self._scheduler.pool.free

    @property
    def owners(self) -> tuple[str | None, ...]:
        """The name of the model that has each core; None: it is free."""
        return tuple(
            self._entries[owner].name if owner in self._entries else None
            for owner in self._scheduler.pool.owners
        )

    # ------------------------------------------------------------------ events

    def enter(
        self, key: str, name: str, items: int, priority: Priority, arrived: float, due: float
    ) -> SharedQuery:
        """A query has come.

        Parameters
        ----------
        key, name : of its model, for the policy and for people.
        arrived, due : by `time.monotonic`; infinite: it is never due.
        """
        now = time.monotonic()
        query = Query(
            next(self._numbers), key, items, min(arrived, now), max(due, now + 1e-9), priority
        )
        self.profile.times(key)
        with self._asking:
            decisions = self._scheduler.arrive(query, now)
        entry = SharedQuery(query, name, asyncio.get_running_loop().create_future())
        self._entries[query.number] = self._queued[query.number] = entry
        self._do(decisions, now)
        return entry

    def leave(self, entry: SharedQuery) -> None:
        """The query has ended, however."""
        number, now = entry.query.number, time.monotonic()
        entry.granted.cancel()
        try:
            with self._asking:
                if number in self._scheduler.running:
                    decisions = self._scheduler.ended(number, now)
                else:
                    decisions = self._scheduler.withdraw(number, now)
        finally:
            del self._entries[number]
            self._queued.pop(number, None)
            if self._going:
                self._forget_gone()
        self._do(decisions, now)

    def exchange(self, kept: SharedQuery, gone: Sequence[SharedQuery], query: Query) -> bool:
        """Let one query take the place of several that wait (`Scheduler.exchange`).

        Parameters
        ----------
        kept : stands for it from now on; gone : are no longer here.
        query : of the number of `kept`.

        Returns
        -------
        False if it would be late; nothing is changed.
        """
        now = time.monotonic()
        numbers = [each.query.number for each in (kept, *gone)]
        with self._asking:
            decisions = self._scheduler.exchange(numbers, query, now)
        if decisions is None:
            return False
        kept.query = query
        kept.clients += 1 + sum(each.clients for each in gone)
        for each in gone:
            each.granted.cancel()
            del self._entries[each.query.number], self._queued[each.query.number]
        self._do(decisions, now)
        return True

    @property
    def can_batch(self) -> bool:
        """Whether the policy knows how to let one query take the place of several."""
        return self._scheduler.can_batch

    def can_exchange(self, entries: Sequence[SharedQuery], query: Query) -> bool:
        """Whether `exchange` would; nothing is changed."""
        numbers = [each.query.number for each in entries]
        return self._scheduler.can_exchange(numbers, query, time.monotonic())

    def has(self, entry: SharedQuery) -> bool:
        """Whether a query is here: it has entered, and has not left."""
        return self._entries.get(entry.query.number) is entry

    def tell_item_ended(self, entry: SharedQuery, item: int) -> None:
        """An element has ended."""
        now = time.monotonic()
        entry.ends.append(now)
        with self._asking:
            decisions = self._scheduler.item_ended(entry.query.number, item, now)
        self._do(decisions, now)

    def tell_released(self, entry: SharedQuery) -> None:
        """Places that it gave up are empty."""
        now = time.monotonic()
        with self._asking:
            decisions = self._scheduler.released(entry.query.number, now)
        self._do(decisions, now)

    def know(self, key: str, times: ModelTimes) -> None:
        """Let a model be predicted."""
        self.profile.add(key, times)
        self._is_stale = True

    def forget(self, key: str) -> None:
        """Forget a model; while something of it is here the policy has to know its times."""
        self._going.add(key)
        self._forget_gone()

    def _forget_gone(self) -> None:
        for key in self._going - {each.query.model for each in self._entries.values()}:
            self._going.discard(key)
            self.profile.remove(key)
            self._is_stale = True

    # ------------------------------------------------------------------ decisions

    def _do(self, decisions: list[ShareDecision], now: float) -> None:
        self._note(now)
        for decision in decisions:
            if isinstance(decision, WaitUntil):
                self._wait_until(decision.when, now)
                continue
            entry = self._entries.get(decision.query)
            if entry is None:
                continue
            if isinstance(decision, StartQuery | RefuseQuery):
                self._queued.pop(decision.query, None)
            if isinstance(decision, StartQuery):
                self._set_places(entry, decision.places)
                if not entry.granted.done():
                    entry.granted.set_result(None)
            elif isinstance(decision, ResizeQuery):
                self._set_places(entry, decision.places)
            elif isinstance(decision, RefuseQuery) and not entry.granted.done():
                entry.granted.set_exception(refusal_of(decision))

    def _note(self, now: float) -> None:
        owners = self.owners
        if not self.changes or self.changes[-1][1] != owners:
            self.changes.append((now, owners))

    def _set_places(self, entry: SharedQuery, places: tuple[int, ...]) -> None:
        entry.places = places
        entry.shares.add(len(places))

    def _wait_until(self, when: float, now: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + max(0.0, when - now)
        if self._timer is not None:
            if loop.time() < self._timer_at <= at:
                return  # the policy is asked before, and says again what it waits for
            self._timer.cancel()
        self._timer, self._timer_at = loop.call_at(at, self._tick), at

    def _tick(self) -> None:
        self._timer, now = None, time.monotonic()
        with self._asking:
            decisions = self._scheduler.tick(now)
        self._do(decisions, now)


def refusal_of(decision: RefuseQuery) -> RefusedError:
    """What a client is told of a policy's refusal."""
    return RefusedError(
        f"{decision.reason}: {decision.value:.3g} s, allowed are {decision.limit:.3g} s",
        reason=DEADLINE, retry_after=decision.retry_after, takes=decision.value,
    )  # fmt: skip
