"""The last arrivals, as counts of kinds; what a kind takes is what is known of it now.

Queries of one kind (a model, a number of items, the share that they get) are as heavy as each
other, whenever they came. Did each keep what was predicted when it came, measured times that move
by a percent would make half of them heavier than the others.

A question costs as many steps as there are kinds; a mean none, if neither the window nor the
profile has changed since it was last asked.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority

ALIKE = 1 + 1e-9
"""Works within this factor are the same: sums in another order are no other works."""


class LoadKind(NamedTuple):
    """Queries of so many items for a model, on so many places."""

    model: str
    items: int
    share: int


Load = LoadKind | float
"""What a query is counted as: one of a kind, or place-seconds of its own."""


class AlikeLoads(NamedTuple):
    """Arrivals that are alike; `lost`: refused for want of places."""

    load: Load
    priority: Priority
    lost: bool


@dataclass
class _SeenQuery:
    """An arrival; `due`: it has a deadline."""

    load: Load
    priority: Priority
    due: bool
    lost: bool = False

    @property
    def row(self) -> AlikeLoads:
        return AlikeLoads(self.load, self.priority, self.lost)


class LoadWindow:
    """The arrivals that are remembered, the newest last.

    Parameters
    ----------
    profile : by which kinds are weighed; without one, all loads are numbers.

    Attributes
    ----------
    due, lost : how many have a deadline, and how many were refused for want of places.
    """

    def __init__(self, profile: ServiceProfile | None = None) -> None:
        self._profile = profile
        self._seen: deque[_SeenQuery] = deque()
        self._rows: Counter[AlikeLoads] = Counter()
        self._works: dict[Load, float] = {}  # as it was last known: models are forgotten
        self._version = -1  # of the profile, when the means were made
        self._mean: float | None = None
        self._mean_lost: float | None = None
        self.due = self.lost = 0

    def __len__(self) -> int:
        return len(self._seen)

    def append(self, load: Load, priority: Priority, *, due: bool) -> None:
        """A query has come."""
        self._seen.append(_SeenQuery(load, priority, due))
        self._work(load)  # to know it when its model is unloaded
        self.due += due
        self._change(self._seen[-1].row, 1)

    def lose_newest(self) -> None:
        """The one that came last was refused for want of places."""
        newest = self._seen[-1]
        self._change(newest.row, -1)
        self.lost += not newest.lost
        newest.lost = True
        self._change(newest.row, 1)

    def forget_oldest(self) -> None:
        """Forget the one that came first."""
        oldest = self._seen.popleft()
        self.due -= oldest.due
        self.lost -= oldest.lost
        self._change(oldest.row, -1)

    def rows(self) -> Iterator[tuple[AlikeLoads, float, int]]:
        """Arrivals that are alike, place-seconds of each of them, and how many they are."""
        for row, count in self._rows.items():
            yield row, self._work(row.load), count

    @property
    def mean(self) -> float:
        """Place-seconds of an arrival, in the mean; 0 if there is none."""
        self._renew()
        if self._mean is None:
            self._mean = sum(work * count for _, work, count in self.rows()) / max(1, len(self))
        return self._mean

    @property
    def mean_lost(self) -> float:
        """Place-seconds of one that was refused, in the mean; 0 if none was."""
        self._renew()
        if self._mean_lost is None:
            found = sum(work * count for row, work, count in self.rows() if row.lost)
            self._mean_lost = found / max(1, self.lost)
        return self._mean_lost

    def _renew(self) -> None:
        if self._profile is not None and self._version != self._profile.version:
            self._version = self._profile.version
            self._mean = self._mean_lost = None

    def _change(self, row: AlikeLoads, count: int) -> None:
        self._mean = self._mean_lost = None
        self._rows[row] += count
        if not self._rows[row]:
            del self._rows[row]
            if not any(other.load == row.load for other in self._rows):
                self._works.pop(row.load, None)

    def _work(self, load: Load) -> float:
        if isinstance(load, float):
            return load
        assert self._profile is not None, "kinds are weighed by a profile"
        if load.model in self._profile:
            self._works[load] = self._profile.typical_work(*load)
        return self._works.get(load, 0.0)
