"""What Accordion learns of a stream: which queries are lost, and what a place-second is worth.

Every query counts as one, however much it takes. A heavy one that is accepted may keep several
lighter ones out, of which that costs more. Queries of one kind (a model, items, a share) are as
heavy as each other: what was predicted of those that came before has moved since, as measured times
do, and half of them would be lighter for no other reason. Of the last `_WINDOW` arrivals, for a
query of w place-seconds:

    lost     queries lighter than w that were refused for want of places, at least two
    taken    place-seconds of queries at least as heavy that were not
    price    caution * min(lost / (taken + w), 1 / the mean work of the lost):  how many of
             them a place-second less for heavy ones would have let in
    caution  rises with the share of arrivals that were lost, to `_CAUTION` at most: few losses
             may be chance
    worth    a query is worth its places if  w * price <= 1

A high query is compared with high ones alone, a low one with all. Where nothing light is refused,
the price is 0 and every query is worth its places.

Time in which nothing runs and nothing waits counts as arrivals that were not lost, a quarter
(`_IDLE`) of those that the pool could have served in it: each makes the oldest one forgotten, so
that an overload that has ended refuses nobody, however few come after it. All of them would make a
pause between two bursts the end of it (benchmarks/accordion.py).

`spare` places are kept from widening, for queries that come and cannot wait. It begins with half
of the pool; one more after a query was refused that would have had a place, had others not been
widened; one less after `_CALM` arrivals without, but never none.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import NamedTuple

from tvm_hetero.serve.scheduling.query import Priority

_WINDOW = 256
_CAUTION = 2.0
_RISE = 16.0
_CALM = 256
_IDLE = 0.25
_ROUNDED = 1e-9  # the share of a sum that may be none but rounding


class LoadKind(NamedTuple):
    """Queries of so many items for a model, on so many places."""

    model: str
    items: int
    share: int


class QueryLoad(NamedTuple):
    """Place-seconds of a query, as predicted when it is weighed; None is a kind like no other."""

    kind: LoadKind | None
    work: float


class _LoadSum(NamedTuple):
    """So many queries, and their place-seconds."""

    many: int = 0
    work: float = 0.0

    def changed(self, count: int, work: float) -> _LoadSum:
        """With so many more (or less) of that work; nothing of nobody, whatever was rounded."""
        left = self.many + count
        return _LoadSum(left, self.work + count * work if left else 0.0)


@dataclass
class _SeenQuery:
    """An arrival, and whether it was refused for want of places."""

    load: QueryLoad
    priority: Priority
    due: bool
    lost: bool = False


class Pressure:
    """See the head of this file, for a pool of so many places."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._most = places - 1
        self.spare = min(self._most, max(1, round(places / 2)))
        self._calm = 0
        self._all, self._lost = _LoadSum(), _LoadSum()
        self._all_of: defaultdict[LoadKind | None, _LoadSum] = defaultdict(_LoadSum)
        self._lost_of: defaultdict[LoadKind | None, _LoadSum] = defaultdict(_LoadSum)
        self._due = 0  # how many of those seen have a deadline
        self._idle = 0.0  # seconds of an idle pool that have made nobody forgotten yet
        self._seen: deque[_SeenQuery] = deque(maxlen=_WINDOW)

    def arrive(self, load: QueryLoad, priority: Priority, *, due: bool) -> None:
        """A query has come; `due`: it has a deadline."""
        if len(self._seen) == _WINDOW:
            self._forget_oldest()
        self._seen.append(_SeenQuery(load, priority, due))
        self._count_seen(1, load)
        self._due += due
        self._stay_calm()

    def idle(self, seconds: float) -> None:
        """Nothing ran and nothing waited for so long."""
        self._idle += _IDLE * seconds
        while self._seen and self._idle * self._places >= self.mean_work:
            self._idle -= self.mean_work / self._places
            self._forget_oldest()
            self._stay_calm()
        if not self._seen:
            self._idle = 0.0

    def _forget_oldest(self) -> None:
        oldest = self._seen.popleft()
        self._due -= oldest.due
        if oldest.lost:
            self._count_lost(-1, oldest.load)
        self._count_seen(-1, oldest.load)

    def _stay_calm(self) -> None:
        self._calm += 1
        if self._calm >= _CALM:
            self._calm = 0
            self.spare = max(min(1, self._most), self.spare - 1)

    def lose(self, *, avoidable: bool) -> None:
        """The query that came last was refused for want of places.

        Parameters
        ----------
        avoidable : whether others have been widened.
        """
        self._seen[-1].lost = True
        self._count_lost(1, self._seen[-1].load)
        if avoidable:
            self._calm = 0
            self.spare = min(self._most, self.spare + 1)

    def _count_seen(self, count: int, load: QueryLoad) -> None:
        self._all = self._all.changed(count, load.work)
        _change(self._all_of, count, load)

    def _count_lost(self, count: int, load: QueryLoad) -> None:
        self._lost = self._lost.changed(count, load.work)
        _change(self._lost_of, count, load)

    @property
    def has_deadlines(self) -> bool:
        """Whether any of those seen has a deadline."""
        return self._due > 0

    @property
    def mean_work(self) -> float:
        """Place-seconds of a query, in the mean."""
        return self._all.work / max(1, self._all.many)

    def is_heavy(self, load: QueryLoad) -> bool:
        """Whether it takes more than the mean of those seen."""
        return _is_above(load, self._all, self._all_of.get(load.kind, _LoadSum()))

    def outweighs_lost(self, load: QueryLoad) -> bool:
        """Whether it takes more than the mean of those that were lost, if at least two were."""
        if self._lost.many < 2:
            return False
        return _is_above(load, self._lost, self._lost_of.get(load.kind, _LoadSum()))

    def price(self, load: QueryLoad, priority: Priority) -> float:
        """What a place-second is worth to lighter queries, in queries."""
        rivals = [each for each in self._seen if each.priority <= priority]
        lost = [each.load.work for each in rivals if each.lost and _is_lighter(each.load, load)]
        if len(lost) < 2:
            return 0.0
        caution = min(_CAUTION, _RISE * len(lost) / len(rivals))
        heavy = (s.load for s in self._seen if not s.lost and not _is_lighter(s.load, load))
        taken = sum(each.work for each in heavy)
        return caution * min(len(lost) / (taken + load.work), len(lost) / sum(lost))


def _is_lighter(seen: QueryLoad, load: QueryLoad) -> bool:
    return seen.work < load.work and (seen.kind is None or seen.kind != load.kind)


def _is_above(load: QueryLoad, every: _LoadSum, own: _LoadSum) -> bool:
    """Whether it is above the mean of those seen, if those of its kind take what it does."""
    return load.work * (every.many - own.many) > every.work - own.work + _ROUNDED * every.work


def _change(sums: defaultdict[LoadKind | None, _LoadSum], count: int, load: QueryLoad) -> None:
    sums[load.kind] = sums[load.kind].changed(count, load.work)
    if not sums[load.kind].many:
        del sums[load.kind]
