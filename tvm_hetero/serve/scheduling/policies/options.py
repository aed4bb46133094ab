"""What can be set of Accordion, and what it knows of a query that waits."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.scheduling.calendar import Reservation
from tvm_hetero.serve.scheduling.query import Priority, Query


@dataclass(frozen=True)
class AccordionOptions:
    """What can be switched off or set.

    Attributes
    ----------
    shrink, widen : whether running queries give places up, and get idle ones.
    best_effort : take a query that cannot meet its deadline, too, as one without.
    most : the largest share of a query; None for the whole pool.
    weigh : refuse a query that keeps out lighter ones, of which that costs more (`pressure`).
    guard : leave a place free beside a heavy query that can wait.
    spare : places that are not given to running queries, for the next one to begin on.
    gain : by which share of what is left a query has to get quicker to be widened.
    free_gain, free_efficiency : what more places have to bring to a query without deadline, always
        and where others have deadlines (`worthwhile`).
    ageing : a low query that has waited this many times its SLO counts as high.
    """

    shrink: bool = True
    widen: bool = True
    best_effort: bool = False
    most: int | None = None
    weigh: bool = True
    guard: bool = True
    spare: int | None = None
    gain: float = 0.02
    free_gain: float = 0.1
    free_efficiency: float = 0.7
    ageing: float = 1.0

    def __post_init__(self) -> None:
        least = min(self.spare or 0, self.gain, self.free_gain, self.free_efficiency)
        if not least >= 0 or not self.ageing > 0 or (self.most or 1) < 1:
            raise UsageError(
                f"expected spare, gains and efficiency >= 0, ageing > 0 and most >= 1, got {self}"
            )


@dataclass
class WaitingQuery:
    """A query that was accepted; `order` is that of those that wait.

    Attributes
    ----------
    aged_at : when it begins to count as high.
    is_hope : whether it was accepted since it is in time typically, without its margin.
    work : its place-seconds, as they were predicted when it was accepted.
    """

    query: Query
    reservation: Reservation
    aged_at: float
    is_hope: bool = False
    work: float = 0.0

    def is_high(self, now: float) -> bool:
        """Whether it counts as high."""
        return self.query.priority is Priority.HIGH or now >= self.aged_at

    def order(self, now: float) -> tuple[bool, float, float, int]:
        """High before low, each by its deadline."""
        high, urgency = self.is_high(now), self.query.deadline
        if high and self.query.priority is Priority.LOW:
            urgency = min(urgency, self.aged_at)
        return not high, urgency, self.query.arrival, self.query.number
