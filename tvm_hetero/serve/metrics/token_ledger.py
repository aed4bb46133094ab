"""Tokens of decoders, by model and version: how many, how soon the first, how soon the next.

What generates tells of each token as it comes (`models.statistics.GenerationObserver`), so that a
rate is known while long answers are still being written. A sequence that is over counts as a query,
too: a request for several texts is several queries here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tvm_hetero.serve.metrics.by_version import ByVersion
from tvm_hetero.serve.metrics.histogram import TimeHistogram
from tvm_hetero.serve.metrics.ledger import Ledger
from tvm_hetero.serve.metrics.recent import OneSecond, bin_of
from tvm_hetero.serve.models.statistics import EndedGeneration, EndedQuery

_FINISHED = ("stop", "length")


@dataclass(eq=False)
class TokenCounts:
    """Of one version of a decoder.

    Attributes
    ----------
    prompt, generated : tokens that were read, and written.
    first : from door to first token (s); between : between two tokens of a sequence (s).
    finished : sequences by why they ended (``stop``, ``length``, ...).
    queued, prefill, decode, whole : of sequences that were finished: before their turn, of their
        prompts, of their tokens, from door to end (s).
    """

    prompt: int = 0
    generated: int = 0
    first: TimeHistogram = field(default_factory=TimeHistogram)
    between: TimeHistogram = field(default_factory=TimeHistogram)
    finished: Counter[str] = field(default_factory=Counter)
    queued: TimeHistogram = field(default_factory=TimeHistogram)
    prefill: TimeHistogram = field(default_factory=TimeHistogram)
    decode: TimeHistogram = field(default_factory=TimeHistogram)
    whole: TimeHistogram = field(default_factory=TimeHistogram)


class TokenLedger:
    """What is counted of decoders; for the event loop's thread.

    Parameters
    ----------
    objective : the seconds in which a model's queries should be answered; None: it has none.
    """

    def __init__(self, ledger: Ledger, objective: Callable[[str], float | None]) -> None:
        self._ledger = ledger
        self._objective = objective
        self._versions = ByVersion(TokenCounts)

    def __iter__(self) -> Iterator[tuple[str, str, TokenCounts]]:
        return iter(self._versions)

    def newest(self) -> Iterator[tuple[str, TokenCounts]]:
        """The version of each model that was asked last."""
        return self._versions.newest()

    def first_token(self, model: str, version: str, prompt: int, seconds: float) -> None:
        """A sequence's first token is there, so many seconds after its request came."""
        row = self._versions.row(model, version)
        row.prompt += prompt
        row.first.add(seconds)
        self._count(model, row).first[bin_of(seconds)] += 1

    def next_token(self, model: str, version: str, seconds: float) -> None:
        """A further token is there, so many seconds after the one before it."""
        row = self._versions.row(model, version)
        row.between.add(seconds)
        self._count(model, row).between[bin_of(seconds)] += 1

    def generation_ended(self, ended: EndedGeneration) -> None:
        """A sequence is over, or a request was refused."""
        outcome, _, refused = ended.reason.partition(": ")
        if outcome in _FINISHED:
            outcome = "success"
            row = self._versions.row(ended.model, ended.version)
            row.finished[ended.reason] += 1
            row.queued.add(ended.queued)
            row.prefill.add(max(0.0, ended.first_token - ended.queued))
            row.decode.add(max(0.0, ended.whole - ended.first_token))
            row.whole.add(ended.whole)
        self._ledger.end_query(
            EndedQuery(ended.model, ended.version, outcome, refused, ended.queued,
                       ended.whole - ended.queued, ended.whole, 1, self._objective(ended.model))
        )  # fmt: skip

    def _count(self, model: str, row: TokenCounts) -> OneSecond:
        row.generated += 1
        now = self._ledger.recent(model).at(self._ledger.second)
        now.tokens += 1
        return now
