"""The interface of policies that share a pool among queries, and the book-keeping of all of them.

    arrive(query, now)              a query has come                    each returns decisions,
    item_ended(number, item, now)   an item of it has ended             in the order in which
    ended(number, now)              its last item has ended             they are to be done
    released(number, now)           places that it gave up are empty
    withdraw(number, now)           who asked has gone
    tick(now)                       the time of a `WaitUntil` has come

Whoever runs queries (a dispatcher, the simulator) does what decisions say at once, and calls back
when it happens. Only `now` tells the time, so that the same events make the same decisions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.scheduling.calendar import Reservation
from tvm_hetero.serve.scheduling.course import Course, NewShare, Pace
from tvm_hetero.serve.scheduling.pool import PlacePool
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import (
    Query,
    RefuseQuery,
    ResizeQuery,
    ShareDecision,
    StartQuery,
)


@dataclass
class RunningQuery:
    """A query that runs.

    Attributes
    ----------
    places : what it runs on, in the order of stages.
    given_up : what it still owns and will not use; free at `release`, as predicted.
    widening : when it is to get which share, promised to it when it began on fewer.
    """

    query: Query
    places: tuple[int, ...]
    course: Course
    given_up: tuple[int, ...] = ()
    release: float = -math.inf
    widening: Reservation | None = None
    needed: int = 0

    @property
    def share(self) -> int:
        """On how many places it runs."""
        return len(self.places)

    @property
    def settled(self) -> bool:
        """Whether no change of its share is under way."""
        return not self.given_up and self.widening is None

    @property
    def slack(self) -> float:
        """Seconds between its end and its deadline; infinite if it has none, or is late anyway."""
        slack = self.query.deadline - self.course.finish
        return slack if slack >= 0 else math.inf


class Scheduler(ABC):
    """What all policies have: the pool, what runs, and how decisions change them.

    Attributes
    ----------
    can_batch : whether it knows how to let one query take the place of several (`exchange`).
    """

    can_batch: ClassVar[bool] = False

    def __init__(self, profile: ServiceProfile, places: int) -> None:
        self.profile = profile
        self.pool = PlacePool(places)
        self.running: dict[int, RunningQuery] = {}
        self._decisions: list[ShareDecision] = []
        self._freed = False  # whether places may be free earlier than was thought

    # ------------------------------------------------------------------ events

    def arrive(self, query: Query, now: float) -> list[ShareDecision]:
        """A query has come: it starts, waits or is refused.

        Raises
        ------
        UsageError
            If there is no such model, or the number is in use.
        """
        self.profile.times(query.model)
        if query.number in self.running or query in self.waiting:
            raise UsageError(f"query {query.number} is here already")
        self._receive(query, now)
        return self._decide(now)

    def item_ended(self, number: int, item: int, now: float) -> list[ShareDecision]:
        """An item has ended: what follows is as late, or as early, as it was."""
        running = self.running[number]
        before, running.course = running.course, running.course.shifted(item, now)
        self._freed |= running.course is not before
        return []

    def ended(self, number: int, now: float) -> list[ShareDecision]:
        """A query has ended, or was stopped: its places are free."""
        running, self._freed = self.running.pop(number), True
        self._inherit(running, now)
        if number in self.pool.owners:
            self.pool.give_back(number, running.places + running.given_up)
        return self._decide(now)

    def released(self, number: int, now: float) -> list[ShareDecision]:
        """Places that a running query gave up are empty."""
        running = self.running[number]
        self.pool.give_back(number, running.given_up)
        running.given_up, self._freed = (), True
        return self._decide(now)

    def withdraw(self, number: int, now: float) -> list[ShareDecision]:
        """Nobody waits for a query any more. One that runs is stopped by who runs it (`ended`)."""
        self._forget(number)
        self._freed = True
        return self._decide(now)

    def foresee(self, query: Query, now: float) -> RefuseQuery | None:
        """The refusal that `arrive` would come to, as far as can be told; nothing is changed."""
        return None

    def exchange(
        self, numbers: Collection[int], query: Query, now: float
    ) -> list[ShareDecision] | None:
        """Let a query take the place of some that wait, and of one that comes, whose deadline it
        has; None: it would be late for one of them, and nothing is changed.

        A policy that knows no such thing never does it.

        Parameters
        ----------
        query : of one of the numbers, which stays in use; the others are free.
        """
        return None

    def can_exchange(self, numbers: Collection[int], query: Query, now: float) -> bool:
        """Whether `exchange` would; nothing is changed."""
        return False

    def turned_away(self, query: Query, refusal: RefuseQuery) -> None:
        """A query was refused by what `foresee` said, and does not arrive."""
        return

    def tick(self, now: float) -> list[ShareDecision]:
        """Time has passed."""
        return self._decide(now)

    def _decide(self, now: float) -> list[ShareDecision]:
        self._plan(now)
        decisions, self._decisions = self._decisions, []
        return decisions

    # ------------------------------------------------------------------ what a policy is

    @property
    @abstractmethod
    def waiting(self) -> tuple[Query, ...]:
        """What was taken and has not started."""

    @abstractmethod
    def _receive(self, query: Query, now: float) -> None:
        """Queue a query or refuse it."""

    @abstractmethod
    def _forget(self, number: int) -> None:
        """Take a query out of the queue, if it is there."""

    @abstractmethod
    def _plan(self, now: float) -> None:
        """Start and resize what can be."""

    def _inherit(self, running: RunningQuery, now: float) -> None:
        """Let another query have the places of one that has ended."""
        return

    # ------------------------------------------------------------------ what it may do

    def _start(self, query: Query, share: int, now: float) -> RunningQuery:
        """Run a query on so many free places."""
        places = self.pool.take(query.number, share)
        pace = self._pace_of(query, share)
        course = Course.begin(query.items, share, pace, now)
        running = self.running[query.number] = RunningQuery(query, places, course, needed=share)
        self._decisions.append(StartQuery(query.number, places))
        return running

    def _resize(self, running: RunningQuery, share: int, now: float) -> None:
        """Run it on more or fewer places from the next item on."""
        number, kept = running.query.number, running.places
        new = self.resized(running, share, now)
        if share > running.share:
            running.places = (*self.pool.take(number, share - running.share), *kept)
        else:
            running.given_up = kept[: running.share - share]
            running.places, running.release = kept[running.share - share :], new.release
        running.course = new.course
        if self._decide_places(number, running.places):
            # It has not run on what it gave up, and nobody would say when that is empty.
            self.pool.give_back(number, running.given_up)
            running.given_up = ()

    def _decide_places(self, number: int, places: tuple[int, ...]) -> bool:
        """A query that starts in this turn starts with its last share; says if that is so."""
        for i, decision in enumerate(self._decisions):
            if isinstance(decision, StartQuery) and decision.query == number:
                self._decisions[i] = replace(decision, places=places)
                return True
        self._decisions.append(ResizeQuery(number, places))
        return False

    def resized(self, running: RunningQuery, share: int, now: float) -> NewShare:
        """What would become of a running query's course with another share from `now` on."""
        query = running.query
        switch = self.profile.times(query.model).switch
        return running.course.resized(now, share, self._pace_of(query, share), switch)

    def _pace_of(self, query: Query, share: int) -> Pace:
        """By what a running query's course is predicted."""
        return self.profile.pace(query.model, query.items, share)

    def _refuse(
        self, query: Query, reason: str, limit: float, value: float, retry: float | None
    ) -> None:
        self._decisions.append(RefuseQuery(query.number, reason, limit, value, retry))
