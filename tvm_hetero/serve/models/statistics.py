"""What a model has done so far: counts and times, as the protocols report them.

Times are wall-clock nanoseconds, summed in integers, which lose nothing however long a server runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tvm_hetero.serve.models.transport_times import TransportTimes

_NANO = 1_000_000_000
MOST_ITEMS = 64
"""Queries of more elements are counted as of so many: clients choose the number."""

# Told of each query that ended: seconds in the queue, of computing, and what became of it.
Observer = Callable[["EndedQuery"], object]


@dataclass(frozen=True)
class EndedQuery:
    """A query that is over.

    Attributes
    ----------
    model, version : who was asked.
    outcome : ``success``, ``deadline``, ``cancelled``, ``failed``, or ``refused``.
    reason : of a refusal (`serve.core.refusal.REASONS`), else empty.
    queued, computed, whole : seconds before its first kernel, of computing, from door to end.
    items : elements of its inputs.
    slo : the seconds in which it should have been answered; None: it had no objective.
    executions, together : as of `InferenceAnswer`; of one that was not answered 0 and 1.
    """

    model: str
    version: str
    outcome: str
    reason: str = ""
    queued: float = 0.0
    computed: float = 0.0
    whole: float = 0.0
    items: int = 0
    slo: float | None = None
    executions: int = 0
    together: int = 1


@dataclass(frozen=True)
class EndedGeneration:
    """A text that a decoder was asked for, and that is over.

    Attributes
    ----------
    model, version : who was asked.
    prompt_tokens, cached_tokens, new_tokens : that were given, of these those whose rows were there
        already, and that were generated.
    queued, first_token, whole : seconds from the door to a slot, to the first token, to the end; of
        what did not come 0.
    reason : ``stop``, ``length``, ``deadline``, ``cancelled``, ``failed``; or ``refused: WHY``, WHY
        being one of `serve.core.refusal.REASONS`, once for a request however many texts it is for.
    """

    model: str
    version: str
    prompt_tokens: int
    cached_tokens: int
    new_tokens: int
    queued: float
    first_token: float
    whole: float
    reason: str

    @property
    def between_tokens(self) -> float | None:
        """Mean seconds from one token to the next; None: there were not two."""
        if self.new_tokens < 2:
            return None
        return (self.whole - self.first_token) / (self.new_tokens - 1)


class GenerationObserver(Protocol):
    """Told of what decoders generate, while they do; in the event loop's thread."""

    def first_token(self, model: str, version: str, prompt: int, seconds: float) -> None:
        """A text's first token is there, so many seconds after its request came."""
        ...

    def next_token(self, model: str, version: str, seconds: float) -> None:
        """A further token is there, so many seconds after the one before it."""
        ...

    def generation_ended(self, ended: EndedGeneration) -> None:
        """A text is over, or a request was refused."""
        ...


@dataclass
class PhaseTime:
    """How often, and how long together (ns)."""

    count: int = 0
    ns: int = 0

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.ns += int(seconds * _NANO)


@dataclass
class ModelStatistics:
    """Counts and times of one version of a model.

    Attributes
    ----------
    items, executions : elements that were computed, and requests of executors that did it.
    last : when the last query came, by `time.time`; 0: none has.
    success, fail, queue, infer : of whole queries, and of their phases.
    decode, encode : from a request's bytes to arrays, and back.
    reading, writing : the same, as what comes next is predicted to take.
    by_items : of computing, by numbers of elements; of queries that were computed together, once.
    pending : queries that are in now.
    """

    items: int = 0
    executions: int = 0
    last: float = 0.0
    success: PhaseTime = field(default_factory=PhaseTime)
    fail: PhaseTime = field(default_factory=PhaseTime)
    queue: PhaseTime = field(default_factory=PhaseTime)
    infer: PhaseTime = field(default_factory=PhaseTime)
    decode: PhaseTime = field(default_factory=PhaseTime)
    encode: PhaseTime = field(default_factory=PhaseTime)
    reading: TransportTimes = field(default_factory=TransportTimes)
    writing: TransportTimes = field(default_factory=TransportTimes)
    by_items: dict[int, PhaseTime] = field(default_factory=dict)
    pending: int = 0

    def begin(self) -> None:
        """A query has come."""
        self.pending += 1
        self.last = time.time()

    def end(self, query: EndedQuery) -> None:
        """It is over."""
        self.pending -= 1
        if query.outcome == "success":
            self.success.add(query.whole)
            self.queue.add(query.queued)
            self.infer.add(query.computed)
            self.items += query.items
            self.executions += query.executions
            if query.executions:
                items = min(query.items * query.together, MOST_ITEMS)
                self.by_items.setdefault(items, PhaseTime()).add(query.computed)
        else:
            self.fail.add(query.whole)
