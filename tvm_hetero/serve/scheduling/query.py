"""Queries, and what a policy decides about them. Times are seconds of whatever clock is used."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.query import Priority as Priority


@dataclass(frozen=True)
class Query:
    """So many items for one model.

    Attributes
    ----------
    number : its own among all queries.
    items : how many inputs it brings (the papers' batch).
    arrival : when it came (s); deadline : when it has to have ended (s), infinite for none.
    """

    number: int
    model: str
    items: int
    arrival: float
    deadline: float = math.inf
    priority: Priority = Priority.HIGH

    def __post_init__(self) -> None:
        if self.items < 1 or not self.deadline > self.arrival:
            raise UsageError(
                f"query {self.number}: expected at least one item and a deadline after the "
                f"arrival, got {self.items} items, arrival {self.arrival}, deadline {self.deadline}"
            )

    @property
    def slo(self) -> float:
        """Seconds from arrival to deadline."""
        return self.deadline - self.arrival


@dataclass(frozen=True)
class StartQuery:
    """Run a query on these places, in the order of stages.

    `follows`: its items go in right behind those of that query, whose places these were.
    """

    query: int
    places: tuple[int, ...]
    follows: int | None = None


@dataclass(frozen=True)
class ResizeQuery:
    """From the next item on, run a query on these places.

    New ones are its own at once. Those that it gives up stay its own until whoever runs it says
    that they are empty (`Scheduler.released`).
    """

    query: int
    places: tuple[int, ...]


@dataclass(frozen=True)
class RefuseQuery:
    """Do not run a query.

    Attributes
    ----------
    reason : which limit it would break, for people.
    limit, value : that limit and what would have been, in seconds after the arrival.
    retry_after : seconds after which the same query would be taken if nothing else came; None
        if it would not be taken on an idle machine either.
    """

    query: int
    reason: str
    limit: float
    value: float
    retry_after: float | None


@dataclass(frozen=True)
class WaitUntil:
    """Nothing to do before `when` unless something happens: call `Scheduler.tick` then."""

    when: float


ShareDecision = StartQuery | ResizeQuery | RefuseQuery | WaitUntil
