"""How Accordion makes room: running pipelines with slack give places up for a new query.

Who gives: low ones first, of these who has most slack, each as many as its own deadline allows in
the predicted model. What is given is free when the first stages have emptied, so the query starts

    at once      on what is free, if anything is, and gets wider when the places are there
    then         if nothing is free

Nobody's hold of places may run into what is reserved for others: the calendar tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tvm_hetero.serve.scheduling.calendar import PlaceCalendar
from tvm_hetero.serve.scheduling.course import Course, NewShare
from tvm_hetero.serve.scheduling.policies.reservations import expected_end
from tvm_hetero.serve.scheduling.profile import ModelTimes
from tvm_hetero.serve.scheduling.query import Query
from tvm_hetero.serve.scheduling.scheduler import RunningQuery

_EPS = 1e-9
# What would become of a running query with so many places.
Resized = Callable[[RunningQuery, int], NewShare]


class Gift(NamedTuple):
    """A running query goes on with `share` places."""

    giver: RunningQuery
    share: int
    new: NewShare


class MadeRoom(NamedTuple):
    """What is to be given, and the share that the query has then.

    Attributes
    ----------
    at_once : places on which it starts now; 0 to wait until `start`.
    start : when it has all of its share; end : when it ends.
    """

    gifts: tuple[Gift, ...]
    share: int
    at_once: int
    start: float
    end: float

    @property
    def begin(self) -> float:
        """What to compare rooms by: when the query starts, 0 for now."""
        return 0.0 if self.at_once else self.start


@dataclass(frozen=True)
class RoomSearch:
    """Looks for room that running queries make for another one.

    Attributes
    ----------
    times : of the query's model; `most` : the largest share; `free` : places nobody owns.
    calendar : what is held and reserved.
    donors : who may be asked, in that order; `resized` : what becomes of one with another share;
        `margin` : by how much it may end later.
    """

    query: Query
    times: ModelTimes
    most: int
    free: int
    calendar: PlaceCalendar
    donors: Sequence[RunningQuery]
    resized: Resized
    margin: Callable[[Query, int], float]
    now: float

    def find(self) -> MadeRoom | None:
        """The least share that meets the deadline with places that others give; None: none does."""
        for share, seconds, margin in self.times.useful_shares(self.query.items):
            if share > self.most or self.now + seconds + margin > self.query.deadline + _EPS:
                continue
            room = self._room_for(share, margin)
            if room is not None:
                return room
        return None

    def _room_for(self, share: int, margin: float) -> MadeRoom | None:
        query, times, now = self.query, self.times, self.now
        seconds = times.typical(query.items, share).seconds(query.items)
        idle = max(0, min(self.free, self.calendar.least(now, now + seconds)))
        gifts, trial = self._gifts(share - idle)
        if not gifts or sum(each.giver.share - each.share for each in gifts) < share - idle:
            return None
        start = max(gift.new.release for gift in gifts)
        for at_once in dict.fromkeys((min(idle, share), 0)):
            end = _end(query, times, share, at_once, start, now)
            if end + margin <= query.deadline + _EPS and _fits(
                trial, share, at_once, start, end, now
            ):
                return MadeRoom(tuple(gifts), share, at_once, start, end)
        return None

    def _gifts(self, lacking: int) -> tuple[list[Gift], PlaceCalendar]:
        """What donors give until nothing is lacking, as far as they can; and the calendar then."""
        trial, gifts = self.calendar, list[Gift]()
        for donor in self.donors:
            if lacking <= 0:
                break
            for count in range(min(lacking, donor.share - 1), 0, -1):
                gift = Gift(donor, donor.share - count, self.resized(donor, donor.share - count))
                after = _after(trial, gift, self.now)
                if self._keeps_promise(gift) and not after.overbooked:
                    lacking, trial = lacking - count, after
                    gifts.append(gift)
                    break
        return gifts, trial

    def _keeps_promise(self, gift: Gift) -> bool:
        """Whether the giver still ends in time, with its margin, or was too late before."""
        query, before = gift.giver.query, gift.giver.course.finish
        finish = gift.new.course.finish + self.margin(query, gift.share)
        return finish <= query.deadline + _EPS or before > query.deadline + _EPS


def _after(calendar: PlaceCalendar, gift: Gift, now: float) -> PlaceCalendar:
    """The calendar with what the giver holds then."""
    found = calendar.copy()
    giver, new = gift.giver, gift.new
    before = expected_end(giver.course, now)
    found.take(now, before, -giver.share)
    found.take(now, expected_end(new.course, now), gift.share)
    found.take(now, new.release, giver.share - gift.share)
    return found


def _end(
    query: Query, times: ModelTimes, share: int, at_once: int, start: float, now: float
) -> float:
    pace = times.typical(query.items, share)
    if not at_once:
        return start + pace.seconds(query.items)
    course = Course.begin(query.items, at_once, times.typical(query.items, at_once), now)
    return course.resized(start, share, pace, times.switch).course.finish


def _fits(
    calendar: PlaceCalendar, share: int, at_once: int, start: float, end: float, now: float
) -> bool:
    if at_once and calendar.least(now, start) < at_once:
        return False
    return not start < end or calendar.least(start, end) >= share
