"""Reservations of Accordion: which share a waiting query will have from when on.

The calendar holds what runs until its predicted end and what is reserved. A query gets the fewest
places with which it meets its deadline, as early as they are free:

    place     least k with  t_k + L(k) + margin(k) <= deadline,
              t_k = earliest time that k are free for L(k)
    soonest   the k with the least t_k + L(k), for who meets no deadline
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from tvm_hetero.serve.scheduling.calendar import PlaceCalendar, Reservation
from tvm_hetero.serve.scheduling.course import Course
from tvm_hetero.serve.scheduling.profile import UsefulShare
from tvm_hetero.serve.scheduling.query import Query
from tvm_hetero.serve.scheduling.scheduler import RunningQuery

_EPS = 1e-9
# Shares, smallest first, with what a query takes on each.
Shares = Sequence[UsefulShare]


def calendar_of(places: int, running: Iterable[RunningQuery], now: float) -> PlaceCalendar:
    """What is free, by what runs; who is late is expected to end within a period."""
    calendar = PlaceCalendar(places, now)
    for each in running:
        for begin, end, count in holdings(each, now):
            calendar.take(begin, end, count)
    return calendar


def expected_end(course: Course, now: float) -> float:
    """When a course ends; one that should have ended is expected to within a period."""
    return course.finish if course.finish >= now - _EPS else now + course.period


def holdings(running: RunningQuery, now: float) -> Iterator[tuple[float, float, int]]:
    """From when to when a running query holds how many places."""
    course = running.course
    finish = expected_end(course, now)
    if running.widening is not None:
        time, finish, share = running.widening
        yield now, max(time, now), running.share
        yield max(time, now), finish if finish >= now - _EPS else now + course.period, share
    else:
        yield now, finish, running.share
    if running.given_up:
        # What is late to be empty is expected within a period, too.
        release = running.release if running.release >= now - _EPS else now + course.period
        yield now, release, len(running.given_up)


def place(
    query: Query,
    shares: Shares,
    calendar: PlaceCalendar,
    now: float,
    guard: int = 0,
    *,
    is_hope: bool = False,
) -> Reservation | None:
    """The least share that meets the deadline, as early as can be; None if none does.

    Without a deadline it is the share with the earliest end: who is alone has all places.

    Parameters
    ----------
    shares : those that it may have and that are worth it (`ModelTimes.useful_shares`).
    guard : places that are to be free beside it, if it meets its deadline so.
    is_hope : whether it is enough that it meets its deadline typically, without its margin.
    """
    if query.deadline == math.inf:
        return soonest(shares, calendar, now, guard)
    for free in dict.fromkeys((guard, 0)):
        for share, seconds, margin in shares:
            latest = query.deadline - (0.0 if is_hope else margin) + _EPS
            if now + seconds > latest:
                continue
            start = calendar.earliest(share + free, seconds, now)
            if start + seconds <= latest:
                return Reservation(start, start + seconds, share)
    return None


def soonest(shares: Shares, calendar: PlaceCalendar, now: float, guard: int = 0) -> Reservation:
    """The share with the earliest end; `guard` places are to be free beside it, if they can."""
    found = []
    for share, seconds, _ in shares:
        start = calendar.earliest(share + guard, seconds, now)
        found.append(Reservation(start, start + seconds, share))
    best = min(found, key=lambda each: (each.end, each.share))
    return best if best.end < math.inf or not guard else soonest(shares, calendar, now)
